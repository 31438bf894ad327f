package record

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/load"
)

// logSecond is one second of the schedule, merged over the workers. Sparse: a
// dense histogram has 140 KiB, and most of it is empty.
type logSecond struct {
	response, service [classCount]*hdrhistogram.PackedHistogram
	lateness          *hdrhistogram.PackedHistogram
}

func mergePacked(into **hdrhistogram.PackedHistogram, h *hdrhistogram.Histogram) {
	if h == nil || h.TotalCount() == 0 {
		return
	}
	if *into == nil {
		*into = hdrhistogram.NewPacked(lowestNS, highestNS, digits)
	}
	(*into).MergeFrom(h) // same geometry: nothing can be dropped
}

func (l *logSecond) merge(s *second) {
	for c := range classCount {
		mergePacked(&l.response[c], s.response[c])
		mergePacked(&l.service[c], s.service[c])
	}
	mergePacked(&l.lateness, s.lateness)
}

// writeLog writes an HdrHistogram interval log (format 1.3, V2 histograms, ns).
// Seconds in which nothing was intended have no line.
func writeLog(w io.Writer, t0 time.Time, seconds map[int]*logSecond) error {
	b := bufio.NewWriter(w)
	log := hdrhistogram.NewHistogramLogWriter(b)
	// The library writes whole seconds here. The microsecond makes up for its
	// reader, which cuts the sum of base time and offset to milliseconds.
	base := float64(t0.UnixMilli())/1e3 + 1e-6
	header := []error{
		log.OutputComment("[tare: latencies in nanoseconds, by the second of the intended start]"),
		log.OutputLogFormatVersion(),
		log.OutputComment(fmt.Sprintf("[StartTime: %.6f (seconds since epoch), %s]", base, t0.UTC().Format(time.RFC3339Nano))),
		log.OutputComment(fmt.Sprintf("[BaseTime: %.6f (seconds since epoch)]", base)),
		log.OutputLegend(),
	}
	for _, err := range header {
		if err != nil {
			return err
		}
	}
	order := make([]int, 0, len(seconds))
	for i := range seconds {
		order = append(order, i)
	}
	slices.Sort(order)
	for _, i := range order {
		if err := seconds[i].write(log, i); err != nil {
			return err
		}
	}
	return b.Flush()
}

func (l *logSecond) write(log *hdrhistogram.HistogramLogWriter, index int) error {
	line := func(h *hdrhistogram.PackedHistogram, tag string) error {
		if h == nil {
			return nil
		}
		h.SetTag(tag)
		h.SetStartTimeMs(int64(index) * 1000)
		h.SetEndTimeMs(int64(index+1) * 1000)
		return log.OutputIntervalPackedHistogram(h)
	}
	for c := range classCount {
		if err := line(l.response[c], load.TagResponse+string(classNames[c])); err != nil {
			return err
		}
		if err := line(l.service[c], load.TagService+string(classNames[c])); err != nil {
			return err
		}
	}
	return line(l.lateness, load.TagLateness)
}

// ReadLog reads an interval log written by the engine. It calls line for each
// line with the second of the schedule, counted from the log's start time, the
// tag (see [TagResponse]) and the histogram (ns).
func ReadLog(r io.Reader, line func(second int, tag string, h *hdrhistogram.Histogram) error) error {
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
		second := int(math.Round((float64(h.StartTimeMs()) - start*1e3) / 1e3))
		if err := line(second, h.Tag(), h); err != nil {
			return err
		}
	}
}

// startTime picks the start time out of what is written to it: the library's
// reader knows it and does not tell.
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
