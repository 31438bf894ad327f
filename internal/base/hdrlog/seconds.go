package hdrlog

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Writer writes a log.
type Writer struct {
	buffer *bufio.Writer
	log    *hdrhistogram.HistogramLogWriter
}

// NewWriter writes the header of a log that begins at start, with a comment.
func NewWriter(w io.Writer, start time.Time, comment string) (*Writer, error) {
	b := bufio.NewWriter(w)
	_, err := b.Write(AppendHeader(nil, start, comment))
	return &Writer{b, hdrhistogram.NewHistogramLogWriter(b)}, err
}

// AppendHeader appends the lines before the intervals of a log that begins at start.
func AppendHeader(b []byte, start time.Time, comment string) []byte {
	// The microsecond compensates the library's reader: it truncates the sum of
	// base time and offset to milliseconds.
	base := float64(start.UnixMilli())/1e3 + 1e-6
	return fmt.Appendf(b, "#[%s]\n#[Histogram log format version 1.3]\n"+
		"#[StartTime: %.6f (seconds since epoch), %s]\n#[BaseTime: %.6f (seconds since epoch)]\n"+
		"\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
		comment, base, start.UTC().Format(time.RFC3339Nano), base)
}

// Packed writes the histogram of an interval, counted from the log's start.
func (w *Writer) Packed(from, to time.Duration, tag string, h *hdrhistogram.PackedHistogram) error {
	h.SetTag(tag)
	h.SetStartTimeMs(from.Milliseconds())
	h.SetEndTimeMs(to.Milliseconds())
	return w.log.OutputIntervalPackedHistogram(h)
}

// Interval writes the histogram of an interval, counted from the log's start.
func (w *Writer) Interval(from, to time.Duration, tag string, h *hdrhistogram.Histogram) error {
	h.SetTag(tag)
	h.SetStartTimeMs(int64(math.Round(float64(from) / 1e6)))
	h.SetEndTimeMs(int64(math.Round(float64(to) / 1e6)))
	return w.log.OutputIntervalHistogram(h)
}

// Flush writes the buffered lines.
func (w *Writer) Flush() error { return w.buffer.Flush() }

// ReadSeconds is [ReadIntervals] by the second of the beginning of each line. A divided second has
// several lines of a tag.
func ReadSeconds(r io.Reader, line func(second int, tag string, h *hdrhistogram.Histogram) error) error {
	return ReadIntervals(r, func(from, _ time.Duration, tag string, h *hdrhistogram.Histogram) error {
		return line(int(from/time.Second), tag, h)
	})
}

// ReadIntervals reads a log of [Writer]. It calls line for each line, with the
// interval from the log's start time, the tag and the histogram. An error, also
// one of line, is an [*Error].
func ReadIntervals(r io.Reader, line func(from, to time.Duration, tag string, h *hdrhistogram.Histogram) error) error {
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	s := newSum()
	defer spareSums.Put(s)
	milliseconds := func(seconds float64) time.Duration {
		return time.Duration(math.Round(seconds*1e3)) * time.Millisecond
	}
	_, err := d.intervals(r, "interval log", func(i interval) error {
		*s = Sum{counts: s.counts[:0]}
		if err := d.add(s, i.encoded); err != nil {
			return err
		}
		if err := s.check(); err != nil {
			return err
		}
		return line(milliseconds(i.from), milliseconds(i.from+i.length), i.tag, s.Histogram())
	})
	return err
}
