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
	// The microsecond compensates the library's reader: it truncates the sum of
	// base time and offset to milliseconds.
	base := float64(start.UnixMilli())/1e3 + 1e-6
	_, err := fmt.Fprintf(b, "#[%s]\n#[Histogram log format version 1.3]\n"+
		"#[StartTime: %.6f (seconds since epoch), %s]\n#[BaseTime: %.6f (seconds since epoch)]\n"+
		"\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
		comment, base, start.UTC().Format(time.RFC3339Nano), base)
	return &Writer{b, hdrhistogram.NewHistogramLogWriter(b)}, err
}

// Interval writes the histogram of an interval, counted from the log's start.
func (w *Writer) Interval(from, to time.Duration, tag string, h *hdrhistogram.PackedHistogram) error {
	h.SetTag(tag)
	h.SetStartTimeMs(int64(math.Round(float64(from) / 1e6)))
	h.SetEndTimeMs(int64(math.Round(float64(to) / 1e6)))
	return w.log.OutputIntervalPackedHistogram(h)
}

// Flush writes the buffered lines.
func (w *Writer) Flush() error { return w.buffer.Flush() }
