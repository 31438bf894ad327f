package record

import (
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/load"
)

// Log gathers the latencies of requests that another generator sent, and writes
// them as the engine writes its own, so that one analysis reads both. The zero
// value is empty and ready for use.
type Log struct {
	all     map[time.Duration]*logInterval
	divided intervals
}

// NewLog is a log that is divided at the edges of a measure window. The zero value has whole seconds.
func NewLog(warmup, measure time.Duration) *Log { return &Log{divided: intervalsOf(warmup, measure)} }

// Sample is one request. A negative latency is unknown and leaves no trace.
type Sample struct {
	At       time.Duration // of the schedule at which it was intended, or, where that is unknown, sent
	Class    load.Class
	Response time.Duration // from the intended start
	Service  time.Duration // from the actual send
	Lateness time.Duration // send minus intended start
}

// Add takes one request. The error names a class that does not exist.
func (l *Log) Add(s Sample) error {
	class := -1
	for i, name := range classNames {
		if name == s.Class {
			class = i
		}
	}
	if class < 0 {
		return fmt.Errorf("add to interval log: there is no class %q", s.Class)
	}
	if l.all == nil {
		l.all = map[time.Duration]*logInterval{}
	}
	from, to := l.divided.bounds(int64(s.At))
	in := l.all[from]
	if in == nil {
		in = &logInterval{to: to}
		l.all[from] = in
	}
	addPacked(&in.response[class], s.Response)
	addPacked(&in.service[class], s.Service)
	addPacked(&in.lateness, s.Lateness)
	return nil
}

func addPacked(h **hdrhistogram.PackedHistogram, d time.Duration) {
	if d < 0 {
		return
	}
	if *h == nil {
		*h = hdrhistogram.NewPacked(lowestNS, highestNS, digits)
	}
	_ = (*h).RecordValue(min(int64(d), highestNS)) // fails only beyond the range
}

// Write writes the interval log, whose times count from t0.
func (l *Log) Write(w io.Writer, t0 time.Time) error { return writeLog(w, t0, l.all) }
