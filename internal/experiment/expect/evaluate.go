package expect

import (
	"fmt"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/load"
)

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
