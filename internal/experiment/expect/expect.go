// Package expect parses expectations and evaluates them on the seconds of a trial.
// An expectation is a condition on a time window, such as
// "success_ratio >= 0.999 during fault".
package expect

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/condition"
	"github.com/tare-mesh/tare/internal/stats"
)

// Condition is one parsed expectation.
type Condition struct {
	Text     string // as written in the file
	subject  subject
	compare  condition.Comparison
	bound    float64 // in the subject's unit
	window   window
	recovery *recovery // instead of the fields above
	changes  *changes  // instead of the subject and the window
}

// recovery is "recovers within …".
type recovery struct {
	within time.Duration
	ofHeal bool
}

// Second is one second of the measure phase, by the intended start of its requests.
type Second struct {
	OK     int64 // answered with 2xx
	Status int64 // answered with another status
	Other  int64 // timeouts and broken connections
	// Latency of the answers with 2xx, response time in ns, or nil if there are none.
	Latency *hdrhistogram.Histogram
}

// Fault is one fault that was injected, in seconds from the start of the measure phase.
type Fault struct {
	At   float64 `json:"at"`
	Heal float64 `json:"heal"` // the end of the measure phase if it was not healed
	// Healed: the fault was healed within the measure phase.
	Healed bool `json:"healed"`
}

// Trial is the data that conditions are evaluated on.
type Trial struct {
	Seconds []Second         // of the measure phase, in order
	Faults  []Fault          // in the order of their injection
	Status  map[string]int64 // answers of the whole measure phase by status code
	Changes []Change         // in the order of sending
	Starts  []Start          // of a pod, after the load
}

// Change is a change of a route or of endpoints. Times are in milliseconds, one or none.
type Change struct {
	Kind              string
	FirstNew, LastOld []stats.Bounded
	Failed, Flaps     int
}

// Outcome is the result of a condition.
type Outcome struct {
	Expect    string   `json:"expect"`              // a condition of the experiment's `expect`
	OK        bool     `json:"ok"`                  // whether it holds, false if unmeasured or undecided
	Undecided bool     `json:"undecided,omitempty"` // the bound lies between Value and AtMost
	Value     *float64 `json:"value,omitempty"`     // measured value, absent if unknown; of the time of changes the lower bound
	AtMost    *float64 `json:"atMost,omitempty"`    // upper bound of the time of changes, absent if unknown
	Unit      string   `json:"unit,omitempty"`      // its unit
	Detail    string   `json:"detail"`              // explanation
}

// LongestOutage is the longest run of seconds in which more than a thousandth
// of the requests failed, and more than usual, in seconds.
func (t Trial) LongestOutage() float64 {
	longest, run, usual := 0, 0, t.usual()
	for _, s := range t.Seconds {
		run++
		if !s.bad(usual) {
			run = 0
		}
		longest = max(longest, run)
	}
	return float64(longest)
}

// Recovery returns the longest time of failing requests after a fault's injection (or
// after its healing, with ofHeal), in seconds. The error is at most one second upwards.
// Each fault is followed until the next one. Not ok: there was no fault, or requests
// still failed at the end, so that the time exceeds the observation.
func (t Trial) Recovery(ofHeal bool) (seconds float64, ok bool) {
	longest, known := 0.0, false
	for i, f := range t.Faults {
		from, to := f.At, float64(len(t.Seconds))
		next := i+1 < len(t.Faults)
		if next {
			to = math.Min(to, t.Faults[i+1].At)
		}
		if ofHeal {
			if !f.Healed {
				continue
			}
			from = f.Heal
		}
		took, recovered := t.recovered(from, to, next)
		if !recovered {
			return 0, false
		}
		longest, known = math.Max(longest, took), true
	}
	return longest, known
}

// underWay is the max time in seconds from a request's due time to a fault that
// hits it. Each second holds the requests due in it.
const underWay = 1

// recovered returns the seconds from from to the end of the last bad second of
// [from, to). It returns false if the last second is bad: no recovery was observed.
// next: another fault begins at to. The requests in flight then count for that one.
func (t Trial) recovered(from, to float64, next bool) (float64, bool) {
	first := int(from)
	if next {
		to -= underWay
	}
	last := max(first, int(to)-1)
	if last >= len(t.Seconds) {
		return 0, false
	}
	end, usual := from, t.usual()
	for i := first; i <= last; i++ {
		if t.Seconds[i].bad(usual) {
			end = float64(i + 1)
		}
	}
	return end - from, !t.Seconds[last].bad(usual)
}

const (
	// tolerated is the max share of failed requests in a second without an outage.
	tolerated = 0.001
	// mostUsual is the max share of failed requests in a second that shows what fails all the time.
	mostUsual = 0.1
	// spread is the number of standard deviations by which a second differs from the usual share by chance.
	spread = 4
)

// usual is the share of requests that fail all the time, such as at random, before the first fault or, without faults, in all
// seconds. It is zero if more than half of the seconds are outages themselves.
func (t Trial) usual() float64 {
	seconds := t.Seconds
	if len(t.Faults) > 0 {
		seconds = seconds[:min(len(seconds), max(0, int(t.Faults[0].At)-underWay))]
	}
	all, failed, calm := int64(0), int64(0), 0
	for _, s := range seconds {
		if n := s.all(); float64(n-s.OK) <= mostUsual*float64(n) {
			all, failed, calm = all+n, failed+n-s.OK, calm+1
		}
	}
	if all == 0 || 2*calm < len(seconds) {
		return 0
	}
	return float64(failed) / float64(all)
}

// bad reports whether a second is part of an outage: more than a thousandth of its requests failed, and more than by chance with the
// usual share. A second without requests is not.
func (s Second) bad(usual float64) bool {
	n := float64(s.all())
	return n > 0 && n-float64(s.OK) > max(tolerated*n, n*usual+spread*math.Sqrt(n*usual*(1-usual)))
}

func (s Second) all() int64 { return s.OK + s.Status + s.Other }
