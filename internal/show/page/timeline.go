package page

import (
	"math"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// mostPoints bounds the points of all timelines of a page. A page of 100 trials stays below 2 MB.
const mostPoints = 6000

// Expectations of a trial, and spans of one of them, that a timeline has at most.
const (
	mostExpectations = 100
	mostSpans        = 100
)

// timeline has the events of one trial, in seconds from the start of the load.
type timeline struct {
	Trial     string   `json:"trial"`
	Treatment string   `json:"treatment"`
	Seconds   []second `json:"seconds"`
	Samples   []sample `json:"samples"`
	Phases    []span   `json:"phases"`
	Faults    []fault  `json:"faults,omitempty"`
	// Expectations are the conditions of the trial with the times that they are about.
	Expectations []expectation `json:"expectations,omitempty"`
}

// second is one second of load.
type second struct {
	At    int      `json:"at"`
	Asked *float64 `json:"asked,omitempty"` // absent in a closed loop
	// Rate is of answers while the treatment had the load, absent in a second without load or with the end of it.
	Rate   *float64 `json:"rate,omitempty"`
	Errors int64    `json:"errors"`
	P50    float64  `json:"p50"` // ms, 0 for no answer
	P99    float64  `json:"p99"`
}

// sample is CPU by plane between it and the sample before, in cores.
type sample struct {
	At    float64            `json:"at"`
	Cores map[string]float64 `json:"cores"`
}

type span struct {
	Name string  `json:"name"`
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// fault ends where it is healed, or with the load.
type fault struct {
	At   float64 `json:"at"`
	To   float64 `json:"to"`
	Text string  `json:"text"`
}

type expectation struct {
	Text   string       `json:"text"`
	OK     bool         `json:"ok"`
	Value  *float64     `json:"value,omitempty"`
	Unit   string       `json:"unit,omitempty"`
	Detail string       `json:"detail"`
	Times  [][2]float64 `json:"times,omitempty"`
}

// timelines returns the timelines of whole blocks, the first ones first, up to mostPoints. An unreadable
// trial is left out: the report has the warning.
func timelines(d *result.Dir) []timeline {
	var all []timeline
	points, block := 0, 0
	for _, t := range d.Plan().Trials {
		if t.Block != block && points > mostPoints {
			break
		}
		block = t.Block
		r, _, err := d.Record(t)
		if err != nil {
			continue
		}
		if l, ok := timelineOf(d, t, &r); ok {
			all, points = append(all, l), points+len(l.Seconds)+len(l.Samples)
		}
	}
	return all
}

// drawnPhases are the phases with load.
var drawnPhases = map[string]bool{"warm-up": true, "measure": true, "drain": true}

// timelineOf reads one trial. It is not ok without a second of load.
func timelineOf(d *result.Dir, t plan.Trial, r *result.Record) (timeline, bool) {
	l := timeline{Trial: t.ID, Treatment: t.Treatment, Seconds: []second{}, Samples: []sample{}, Phases: []span{}}
	if r.Load == nil {
		return l, false
	}
	start := r.Load.Start.Add(-time.Duration(r.Load.WarmupSeconds * float64(time.Second)))
	since := func(at time.Time) float64 { return at.Sub(start).Seconds() }
	for _, p := range r.Phases {
		if drawnPhases[p.Name] {
			l.Phases = append(l.Phases, span{p.Name, since(p.Start), since(p.End)})
		}
	}
	for _, f := range r.Faults {
		to := f.Healed
		if to.IsZero() {
			to = r.Load.End
		}
		l.Faults = append(l.Faults, fault{since(f.Start), max(since(f.Start), since(to)), f.Kind})
	}
	for _, h := range r.ByHand {
		l.Faults = append(l.Faults, fault{since(h.At), max(since(h.At), since(r.Load.End)), h.Target + " by hand"})
	}
	l.Expectations = expectations(r)
	for e, err := range d.Events(t.ID) {
		if err != nil || len(l.Seconds)+len(l.Samples) > mostPoints {
			break
		}
		switch {
		case e.Progress != nil:
			p := e.Progress
			s := second{At: p.Second, Errors: p.Errors, P50: p.P50MS, P99: p.P99MS}
			if rate := p.WhileLoaded(); p.HasLoad() && float64(p.Second) < math.Max(1, math.Floor(since(r.Load.End)+0.01)) {
				s.Rate = &rate
			}
			if p.AskedRate > 0 {
				s.Asked = &p.AskedRate
			}
			l.Seconds = append(l.Seconds, s)
		case e.Sample != nil && len(e.Sample.Cores) > 0:
			l.Samples = append(l.Samples, sample{since(e.Time), e.Sample.Cores})
		}
	}
	return l, len(l.Seconds) > 0
}

// expectations returns the expectations of the record, in seconds from the start of the load.
func expectations(r *result.Record) (all []expectation) {
	first, n := r.Load.Window()
	for _, o := range r.Expectations[:min(mostExpectations, len(r.Expectations))] {
		e := expectation{Text: o.Expect, OK: o.OK, Value: o.Value, Unit: o.Unit, Detail: o.Detail}
		if c, err := expect.Parse(o.Expect); err == nil { // by this version of tare
			for _, t := range c.Times(min(n, mostPoints), r.FaultTimes()) {
				if len(e.Times) == mostSpans {
					break
				}
				e.Times = append(e.Times, [2]float64{t[0] + float64(first), t[1] + float64(first)})
			}
		}
		all = append(all, e)
	}
	return all
}
