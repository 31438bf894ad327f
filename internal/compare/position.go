package compare

import (
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// Positioned is the part of a comparison that was adjusted for the positions of its trials
// in their blocks: even drift of the machine within a block is taken out.
type Positioned struct {
	// Difference and Ratio are present if they were adjusted.
	Difference *Adjustment `json:"difference,omitempty"`
	Ratio      *Adjustment `json:"ratio,omitempty"`
}

// Adjustment is an estimate before it was adjusted.
type Adjustment struct {
	Raw         stats.Interval `json:"raw"`
	Coefficient float64        `json:"coefficient"` // per position (of a ratio, of its logarithm)
	Narrower    float64        `json:"narrower"`    // relative narrowing of the interval, 0..1
}

// positionsIn are the places of the trials in their blocks, nil unless the order is balanced.
// A run that stops at a width has already chosen by widths. A second choice by the same
// widths would cover less than the confidence.
func positionsIn(run *Run) map[string]int {
	if run.Plan.Order != experiment.OrderBalanced || run.Plan.StopsAtWidth() {
		return nil
	}
	places, in := map[string]int{}, map[int]int{}
	for _, t := range run.Plan.Trials { // in the order of execution
		places[t.ID] = in[t.Block]
		in[t.Block]++
	}
	return places
}

// position replaces figures of c by figures at equal positions, each only if its interval
// becomes narrower. It returns the ratio of the verdict, and its test of equivalence.
func (x *estimator) position(c *compared, p pairs, ratio stats.Result, within func(float64) (float64, bool)) (stats.Result, func(float64) (float64, bool)) {
	m, _ := metric.Lookup(c.Metric)
	if x.places == nil || !m.SpeedSensitive {
		return ratio, within
	}
	var n Positioned
	if d, used := stats.PositionedDifference(p.treatment, p.baseline, p.shifts, x.confidence); used {
		n.Difference = adjustment(*c.Difference, d)
		x.adjusted(c, d.Result)
	}
	if q, used := stats.PositionedRatio(p.treatment, p.baseline, p.shifts, x.confidence); used {
		n.Ratio = adjustment(*c.Ratio, q)
		ratio, within, c.Ratio = q.Result, q.Within, &q.Interval
	}
	if n != (Positioned{}) {
		c.Position = &n
	}
	return ratio, within
}

// adjusted replaces the difference of c.
func (x *estimator) adjusted(c *compared, d stats.Result) {
	c.Difference, c.P, c.test = &d.Interval, d.P, d
	if i, ok := d.Detectable(x.alpha(), stats.Power, x.confidence); ok {
		c.Detectable = &i.Estimate
	}
}

func adjustment(raw stats.Interval, by stats.Adjusted) *Adjustment {
	narrower, _ := stats.Narrower(by.Interval, raw)
	return &Adjustment{Raw: raw, Coefficient: by.Coefficient, Narrower: narrower}
}
