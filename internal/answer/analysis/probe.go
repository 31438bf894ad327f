package analysis

import (
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// probeMetric is the calibration probe's time beside a trial.
const probeMetric = metric.ProbeTime

// speedSensitive reports whether the probe may normalise the metric.
func speedSensitive(name string) bool {
	m, ok := metric.Lookup(name)
	return ok && m.SpeedSensitive
}

// Normalisation is the part of a comparison normalised by the calibration probe
// beside each trial: it is the value for equal probes on both sides and in all blocks.
type Normalisation struct {
	// Difference and Ratio are present if they were normalised.
	Difference *Normalised `json:"difference,omitempty"`
	Ratio      *Normalised `json:"ratio,omitempty"`
}

// Normalised is an estimate before it was normalised.
type Normalised struct {
	Raw stats.Interval `json:"raw"`
	// Coefficient is that of the fit: 1 if the metric moves in proportion to the probe.
	Coefficient float64 `json:"coefficient"`
	// Narrower is the relative narrowing of the interval, 0..1.
	Narrower float64 `json:"narrower"`
}

// probeFigures adds the time of the fixed work: the mean of before and after the load.
func probeFigures(f *figures, r *result.Record) {
	if r.Probe == nil || r.Probe.Before == nil || r.Probe.After == nil || r.Probe.Before.Work != r.Probe.After.Work {
		return
	}
	before, ok1 := r.Probe.Before.Microseconds()
	after, ok2 := r.Probe.After.Microseconds()
	if !ok1 || !ok2 {
		f.warn("probe-damaged", []string{probeMetric}, "the readings of the calibration probe have no work or no time", "the record is damaged, or another process used the processor for the whole reading")
		return
	}
	f.set(probeMetric, (before+after)/2)
}

// probeWork is the work of every trial that was probed; empty: none was, or they differ.
func probeWork(records []result.Record) string {
	work := ""
	for i := range records {
		p := records[i].Probe
		if p == nil || p.Before == nil {
			continue
		}
		if work != "" && p.Before.Work != work {
			return ""
		}
		work = p.Before.Work
	}
	return work
}

// unlikeProbes leaves out readings of different work: they cannot be compared.
func (d *run) unlikeProbes() {
	if probeWork(d.records) != "" {
		return
	}
	for i := range d.trials {
		delete(d.trials[i].Metrics, probeMetric)
	}
}

// probe adds the logarithms of a pair's probe times. If either is missing, it marks p as unprobed.
func (p *pairs) probe(t, b Trial) {
	x, ok1 := t.Metrics[probeMetric]
	y, ok2 := b.Metrics[probeMetric]
	if !ok1 || !ok2 || !(x > 0) || !(y > 0) {
		p.unprobed = true
		return
	}
	p.treatmentProbes, p.baselineProbes = append(p.treatmentProbes, math.Log(x)), append(p.baselineProbes, math.Log(y))
}

// normalise replaces figures of c by figures adjusted with the probe for slow
// processors, each only if its interval becomes narrower. It returns the ratio of
// the verdict, and its test of equivalence. A run that stops at a width has already
// chosen by widths. A second choice by the same widths would reduce the coverage of
// an interval of 95 % to 92 %.
func (x *estimator) normalise(c *Comparison, p pairs, ratio stats.Result, within func(float64) (float64, bool)) (stats.Result, func(float64) (float64, bool)) {
	if x.widthRule || p.unprobed || !speedSensitive(c.Metric) {
		return ratio, within
	}
	var n Normalisation
	if d, used := stats.ProbedDifference(p.treatment, p.baseline, p.treatmentProbes, p.baselineProbes, x.confidence); used {
		n.Difference = normalised(*c.Difference, d)
		detectable := d.Detectable(x.alpha(), stats.Power)
		c.Difference, c.P, c.Detectable = &d.Interval, d.P, &detectable
	}
	if q, used := stats.ProbedRatio(p.treatment, p.baseline, p.treatmentProbes, p.baselineProbes, x.confidence); used {
		n.Ratio = normalised(*c.Ratio, q)
		ratio, within, c.Ratio = q.Result, q.Within, &q.Interval
	}
	if n != (Normalisation{}) {
		c.Probe = &n
	}
	return ratio, within
}

func normalised(raw stats.Interval, by stats.Adjusted) *Normalised {
	n := &Normalised{Raw: raw, Coefficient: by.Coefficient}
	before, _ := raw.HalfWidth()
	if after, ok := by.HalfWidth(); ok && before > 0 {
		n.Narrower = 1 - after/before
	}
	return n
}

// ProbeUse is the use of the calibration probe in the comparisons of some metrics.
type ProbeUse struct {
	Normalised []Comparison // A/A pairs are not among them
	Of         int
	// Differs names treatments with a probe time different from their baseline's.
	Differs []string
}

// Probed is the use of the probe for the metrics; not ok without a probe.
func (r *Report) Probed(metrics []string) (u ProbeUse, ok bool) {
	if r.Setup.Probe == "" || r.Method != Paired || r.Stopping != nil {
		return u, false
	}
	for _, c := range r.Comparisons {
		switch {
		case c.Control:
		case c.Metric == probeMetric && c.P != nil && *c.P < stats.ProbeLevel:
			u.Differs = append(u.Differs, c.Treatment)
		case slices.Contains(metrics, c.Metric) && speedSensitive(c.Metric) && c.Difference != nil && c.Difference.Known():
			u.Of++
			if c.Probe != nil {
				u.Normalised = append(u.Normalised, c)
			}
		}
	}
	return u, true
}

// Narrowed is the narrowing of c's intervals by the probe, in percent.
func (c *Comparison) Narrowed() string {
	by := func(x *Normalised) string { return fmt.Sprintf("by %.0f %%", 100*x.Narrower) }
	switch n := c.Probe; {
	case n.Difference == nil:
		return by(n.Ratio) + " (the ratio's)"
	case n.Ratio == nil && c.Ratio != nil:
		return by(n.Difference) + " (the difference's)"
	default:
		return by(n.Difference)
	}
}
