package platform

import (
	"sync"
	"time"
)

// reportDelay is how long a wait lasts before its progress is reported. Most waits are over by then.
const reportDelay = 10 * time.Second

// DelayedReport passes on the progress of a wait once the wait has lasted [reportDelay], and then as often at most: 200
// pods that become ready are not 200 lines. Each line is passed on once: a failed pull alternates between two states.
type DelayedReport struct {
	report func(string)
	timer  *time.Timer

	mu       sync.Mutex
	last     string
	reported map[string]bool
	due      bool
	done     bool
}

// NewDelayedReport begins a wait. report receives its progress, and nil discards it.
func NewDelayedReport(report func(string)) *DelayedReport {
	r := &DelayedReport{report: report, reported: map[string]bool{"": true}}
	r.timer = time.AfterFunc(reportDelay, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.due = true
		r.flush()
	})
	return r
}

// Add records the progress and reports it if it is due.
func (r *DelayedReport) Add(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = s
	if r.due {
		r.flush()
	}
}

// flush reports the last progress. Callers hold mu.
func (r *DelayedReport) flush() {
	if r.report == nil || r.reported[r.last] || r.done {
		return
	}
	r.report(r.last)
	r.reported[r.last], r.due = true, false
	r.timer.Reset(reportDelay)
}

// Close ends the reports. The wait is over.
func (r *DelayedReport) Close() {
	r.timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = true
}
