package answer

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/stats"
)

// Stopping is the progress of a run with a number of blocks that depends on its results.
// The rule uses the width of intervals and never significance. Stopping at the
// first significant difference would find one in most runs of two equal systems
// (Armitage, McPherson, Rowe, Journal of the Royal Statistical Society A 1969).
// The width hardly depends on the difference: for normal observations mean and
// deviation are independent. The interval almost keeps its coverage as it narrows
// (Chow, Robbins, Annals of Mathematical Statistics 1965). [stats.ExtraBlocks]
// corrects the rest. docs/lab/coverage.md has the simulation.
type Stopping struct {
	Until   string `json:"until"`
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	Blocks  int    `json:"blocks"`  // run so far
	Reached bool   `json:"reached"` // by the intervals as they are, or when the run stopped
	// Why the run stopped early, with the reason at the time. Absent means that it did not.
	Why string `json:"why,omitempty"`
	// Widest is the treatment with the widest interval. Half is half its width, in
	// Unit. Both are absent if an interval cannot be computed.
	Widest string   `json:"widest,omitempty"`
	Half   *float64 `json:"half,omitempty"`
	Unit   string   `json:"unit,omitempty"`
}

func stopping(run *compare.Run, r *Report) *Stopping {
	if !run.Plan.StopsAtWidth() {
		return nil
	}
	s := &Stopping{Until: run.Plan.Until, Min: run.Plan.MinBlocks, Max: run.Planned, Why: run.Why}
	for _, t := range run.Trials {
		s.Blocks = max(s.Blocks, t.Block)
	}
	var p experiment.Precision
	if err := p.UnmarshalScalar(run.Plan.Until); err != nil {
		return s // a plan written by hand: never reached
	}
	s.measure(r, p)
	s.Reached = s.Reached || s.Why != ""
	return s
}

// measure finds the widest interval: of the differences to a baseline, or without a
// baseline of the estimates themselves.
func (s *Stopping) measure(r *Report, p experiment.Precision) {
	against := slices.ContainsFunc(r.Treatments, func(t compare.Treatment) bool { return t.Baseline != "" && !t.Control })
	if s.Unit = "%"; !p.Relative {
		s.Unit = unitOf(r, p.Metric)
	}
	widest := -1.0
	for _, t := range r.Treatments {
		if t.Control || against && t.Baseline == "" {
			continue
		}
		half, ok := halfWidth(r, t, p, against)
		if !ok {
			s.Widest, s.Half = t.ID, nil
			return
		}
		if half > widest {
			widest, s.Widest = half, t.ID
		}
	}
	if widest >= 0 {
		s.Half, s.Reached = &widest, widest <= p.Half
	}
}

func unitOf(r *Report, name string) string {
	for _, m := range r.Metrics() {
		if m.Name == name {
			return m.Unit
		}
	}
	return ""
}

func halfWidth(r *Report, t compare.Treatment, p experiment.Precision, against bool) (float64, bool) {
	e, ok := t.Metrics[p.Metric]
	if !ok {
		return 0, false
	}
	interval, n := e.Interval, e.N
	if against {
		c, ok := r.Find(t.ID, p.Metric)
		if !ok || c.Difference == nil {
			return 0, false
		}
		interval, n = *c.Difference, c.N
	}
	half, known := interval.HalfWidth()
	if !known && n < stats.MinN {
		return 0, false // where all agree to the last digit there is nothing left to narrow
	}
	if !p.Relative {
		return half, true
	}
	if !(e.Estimate > 0) {
		return 0, half == 0
	}
	return 100 * half / e.Estimate, true
}

// warnings report wider intervals than requested at the end of the run.
func (s *Stopping) warnings() []figures.Warning {
	if s == nil || s.Reached || s.Blocks < s.Max {
		return nil
	}
	return []figures.Warning{{Code: "width-not-reached", Message: fmt.Sprintf("after all %s %s", printable.Counted(s.Max, "block"), s.Words()),
		Hint: "raise max, measure longer, or accept a wider interval"}}
}

// Words are the state in a sentence.
func (s *Stopping) Words() string {
	width := "its interval cannot be given"
	if s.Half != nil {
		width = fmt.Sprintf("the widest, of %s, is ±%s %s", s.Widest, strconv.FormatFloat(*s.Half, 'g', 2, 64), s.Unit)
	} else if s.Widest != "" {
		width = "the interval of " + s.Widest + " cannot be given"
	}
	if s.Reached {
		return fmt.Sprintf("%s is reached: %s", s.Until, width)
	}
	return fmt.Sprintf("%s is not reached: %s", s.Until, width)
}
