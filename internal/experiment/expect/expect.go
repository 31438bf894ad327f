// Package expect parses expectations and evaluates them on the seconds of a trial.
// An expectation is a condition on a time window, such as
// "success_ratio >= 0.999 during fault".
package expect

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/condition"
	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/load"
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

// Begins is the start of the window in the measure phase, or 0 if the window is of a fault.
func (c Condition) Begins() time.Duration {
	if c.NeedsFault() {
		return 0
	}
	return c.window.from
}

// NeedsFault reports whether the condition refers to faults.
func (c Condition) NeedsFault() bool { return c.recovery != nil || c.window.relation != "" }

// Evaluate measures the condition on a trial. What cannot be measured does not hold.
func (c Condition) Evaluate(t Trial) Outcome {
	switch {
	case c.recovery != nil:
		return c.recovers(t)
	case c.changes != nil:
		return c.changed(t)
	}
	o := Outcome{Expect: c.Text, Unit: c.subject.unit}
	in := c.window.secondsOf(t)
	if len(in) == 0 {
		o.Detail = "no whole second of the measure phase lies in this time"
		return o
	}
	v, err := c.subject.measure(t, in, c.window.whole())
	if err != nil {
		o.Detail = err.Error()
		return o
	}
	o.Value, o.OK = &v, c.compare.Holds(v, c.bound)
	o.Detail = fmt.Sprintf("%s is %s in %d s", c.subject.name, number(v, c.subject.unit), len(in))
	return o
}

// Times are the parts of a measure phase that the condition is about, in seconds from its start. The phase has n whole
// seconds. "recovers within 3s" is about the 3 s from each fault.
func (c Condition) Times(n int, faults []Fault) (all [][2]float64) {
	if c.recovery == nil {
		for second := range n {
			switch last := len(all) - 1; {
			case !c.window.has(second, faults):
			case last >= 0 && all[last][1] == float64(second):
				all[last][1]++
			default:
				all = append(all, [2]float64{float64(second), float64(second + 1)})
			}
		}
		return all
	}
	for _, f := range faults {
		from := f.At
		if c.recovery.ofHeal {
			from = f.Heal
		}
		if from < float64(n) && (f.Healed || !c.recovery.ofHeal) {
			all = append(all, [2]float64{from, min(float64(n), from+c.recovery.within.Seconds())})
		}
	}
	return all
}

func (c Condition) recovers(t Trial) Outcome {
	o := Outcome{Expect: c.Text, Unit: "s"}
	since := "injected"
	if c.recovery.ofHeal {
		since = "healed"
	}
	v, ok := t.Recovery(c.recovery.ofHeal)
	switch {
	case len(t.Faults) == 0:
		o.Detail = "no fault was injected"
	case !ok:
		o.Detail = "requests still failed when the next fault came, or at the end"
		if c.recovery.ofHeal {
			o.Detail = "no fault was healed within the measure phase, or requests still failed at the end"
		}
	default:
		o.Value, o.OK = &v, v <= c.recovery.within.Seconds()
		o.Detail = fmt.Sprintf("no second with failures later than %s after a fault was %s", number(v, "s"), since)
	}
	return o
}

func number(v float64, unit string) string {
	s := strconv.FormatFloat(v, 'g', 5, 64)
	if unit == "" {
		return s
	}
	return s + " " + unit
}

// ReadSeconds reads n seconds of an interval log, from the given one on, counted
// from the log's start time. A second in which nothing was intended is empty.
func ReadSeconds(path string, first, n int) ([]Second, error) {
	f, err := hdrlog.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read interval log: %w", err)
	}
	defer f.Close()
	seconds := make([]Second, max(0, n))
	err = hdrlog.ReadSeconds(f, func(second int, tag string, h *hdrhistogram.PackedHistogram) error {
		if i := second - first; i >= 0 && i < len(seconds) {
			addTo(&seconds[i], tag, h)
		}
		return nil
	})
	return seconds, err
}

func addTo(s *Second, tag string, h *hdrhistogram.PackedHistogram) {
	switch n := h.TotalCount(); tag {
	case load.TagResponse + string(load.OK):
		if s.OK += n; s.Latency == nil {
			s.Latency = hdrlog.Dense(h)
		} else {
			h.MergeInto(s.Latency) // a part of a divided second
		}
	case load.TagResponse + string(load.Status):
		s.Status += n
	case load.TagResponse + string(load.Timeout), load.TagResponse + string(load.Conn):
		s.Other += n
	}
}
