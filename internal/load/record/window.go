package record

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// MergeWindow reads an interval log and writes another with one histogram a tag:
// the sum of the seconds that lie wholly between from and to, counted from the
// log's start. A log of an hour has some ten thousand histograms, and who only
// wants the window need not decode them all.
func MergeWindow(r io.Reader, w io.Writer, start time.Time, from, to time.Duration) error {
	const slack = 100 * time.Microsecond
	sums := map[string]*hdrhistogram.Histogram{}
	err := ReadLog(r, func(second int, tag string, h *hdrhistogram.Histogram) error {
		begin := time.Duration(second) * time.Second
		if begin < from-slack || begin+time.Second > to+slack {
			return nil
		}
		sum := sums[tag]
		if sum == nil {
			sum = hdrhistogram.New(h.LowestTrackableValue(), h.HighestTrackableValue(), int(h.SignificantFigures()))
			sums[tag] = sum
		}
		if dropped := sum.Merge(h); dropped > 0 {
			return fmt.Errorf("%d values of tag %s do not fit its range", dropped, tag)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("merge interval log: %w", err)
	}
	b := bufio.NewWriter(w)
	log := hdrhistogram.NewHistogramLogWriter(b)
	base := float64(start.UnixMilli())/1e3 + 1e-6 // as in writeLog
	err = cmp.Or(
		log.OutputComment("[tare: the measure window of latency.hdr, one line a tag; nanoseconds]"),
		log.OutputLogFormatVersion(),
		log.OutputComment(fmt.Sprintf("[StartTime: %.6f (seconds since epoch), %s]", base, start.UTC().Format(time.RFC3339Nano))),
		log.OutputComment(fmt.Sprintf("[BaseTime: %.6f (seconds since epoch)]", base)),
		log.OutputLegend(),
	)
	for _, tag := range slices.Sorted(maps.Keys(sums)) {
		if err != nil {
			break
		}
		h := sums[tag]
		h.SetTag(tag)
		h.SetStartTimeMs(int64(math.Round(float64(from) / 1e6)))
		h.SetEndTimeMs(int64(math.Round(float64(to) / 1e6)))
		err = log.OutputIntervalHistogram(h)
	}
	if err == nil {
		err = b.Flush()
	}
	if err != nil {
		return fmt.Errorf("merge interval log: %w", err)
	}
	return nil
}
