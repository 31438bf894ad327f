package record

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
)

// MergeWindow reads an interval log and writes another with one histogram a tag:
// the sum of the intervals between from and to, counted from the log's start. A log
// of an hour has about ten thousand histograms. A report then decodes the sums only.
func MergeWindow(r io.Reader, w io.Writer, start time.Time, from, to time.Duration) error {
	const slack = 100 * time.Microsecond
	sums := hdrlog.Sums{}
	err := hdrlog.ReadIntervals(r, func(begin, end time.Duration, tag string, h *hdrhistogram.PackedHistogram) error {
		if begin < from-slack || end > to+slack {
			return nil
		}
		if sums[tag] == nil {
			sums[tag] = h
			return nil
		}
		return hdrlog.Add(sums[tag], h)
	})
	if err != nil {
		return fmt.Errorf("merge interval log: %w", err)
	}
	log, err := hdrlog.NewWriter(w, start, "tare: the measure window of latency.hdr, one line a tag; nanoseconds")
	for _, tag := range slices.Sorted(maps.Keys(sums)) {
		if err != nil {
			break
		}
		err = log.Interval(from, to, tag, sums[tag])
	}
	if err == nil {
		err = log.Flush()
	}
	if err != nil {
		return fmt.Errorf("merge interval log: %w", err)
	}
	return nil
}
