package record

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/load"
)

// logInterval is one interval of the log, merged over the workers. Sparse: a
// dense histogram has 140 KiB, and most of it is empty.
type logInterval struct {
	to                time.Duration // from t0, as its beginning
	response, service [classCount]*hdrhistogram.PackedHistogram
	lateness, retried *hdrhistogram.PackedHistogram
}

func (l *logInterval) merge(s *interval) {
	for c := range classCount {
		mergePacked(&l.response[c], s.response[c])
		mergePacked(&l.service[c], s.service[c])
	}
	mergePacked(&l.lateness, s.lateness)
	mergePacked(&l.retried, s.retried)
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

// writeLog writes an interval log. Intervals without intended requests have no line.
func writeLog(w io.Writer, t0 time.Time, all map[time.Duration]*logInterval) error {
	log, err := hdrlog.NewWriter(w, t0, "tare: latencies in nanoseconds, by the second of the intended start")
	if err != nil {
		return err
	}
	for _, from := range slices.Sorted(maps.Keys(all)) {
		if err := all[from].write(log, from); err != nil {
			return err
		}
	}
	return log.Flush()
}

func (l *logInterval) write(log *hdrlog.Writer, from time.Duration) error {
	line := func(h *hdrhistogram.PackedHistogram, tag string) error {
		if h == nil {
			return nil
		}
		return log.Interval(from, l.to, tag, h)
	}
	for c := range classCount {
		if err := line(l.response[c], load.TagResponse+string(classNames[c])); err != nil {
			return err
		}
		if err := line(l.service[c], load.TagService+string(classNames[c])); err != nil {
			return err
		}
	}
	if err := line(l.lateness, load.TagLateness); err != nil {
		return err
	}
	return line(l.retried, load.TagRetried)
}

// WriteWhole writes a file under a temporary name first, so that it is complete or absent. Nothing is written to an empty path. what
// names the file in errors.
func WriteWhole(path, what string, write func(io.Writer) error) (err error) {
	if path == "" {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".part-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", what, err)
		}
	}()
	if err = errors.Join(write(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
