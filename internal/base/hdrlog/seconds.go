package hdrlog

import (
	"bufio"
	"bytes"
	"errors"
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
	log := hdrhistogram.NewHistogramLogWriter(b)
	// The library's own start time has whole seconds. The microsecond compensates
	// its reader: it truncates the sum of base time and offset to milliseconds.
	base := float64(start.UnixMilli())/1e3 + 1e-6
	err := errors.Join(
		log.OutputComment("["+comment+"]"),
		log.OutputLogFormatVersion(),
		log.OutputComment(fmt.Sprintf("[StartTime: %.6f (seconds since epoch), %s]", base, start.UTC().Format(time.RFC3339Nano))),
		log.OutputComment(fmt.Sprintf("[BaseTime: %.6f (seconds since epoch)]", base)),
		log.OutputLegend(),
	)
	return &Writer{b, log}, err
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
// interval from the log's start time, the tag and the histogram.
func ReadIntervals(r io.Reader, line func(from, to time.Duration, tag string, h *hdrhistogram.Histogram) error) error {
	var start float64
	b := bufio.NewReader(r)
	log := hdrhistogram.NewHistogramLogReader(io.TeeReader(b, startTime{&start}))
	for {
		h, err := log.NextIntervalHistogram()
		if err != nil {
			return fmt.Errorf("read interval log: %w", err)
		}
		if h == nil {
			return nil
		}
		since := func(ms int64) time.Duration {
			return time.Duration(math.Round(float64(ms)-start*1e3)) * time.Millisecond
		}
		if err := line(since(h.StartTimeMs()), since(h.EndTimeMs()), h.Tag(), h); err != nil {
			return err
		}
	}
}

// startTime finds the start time in the bytes written to it: the library's
// reader does not export it.
type startTime struct{ seconds *float64 }

func (s startTime) Write(p []byte) (int, error) {
	const mark = "#[StartTime: "
	if *s.seconds == 0 {
		if i := bytes.Index(p, []byte(mark)); i >= 0 {
			_, _ = fmt.Sscanf(string(p[i+len(mark):min(len(p), i+len(mark)+32)]), "%f", s.seconds)
		}
	}
	return len(p), nil
}
