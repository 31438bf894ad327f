package compare

import (
	"slices"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// SpeedAdjusted is a difference at the mean speed of the machine in the run. The estimate is unchanged. The
// interval is without the spread that follows the machine's speed.
type SpeedAdjusted struct {
	// AdjustedFor has the planes and treatments whose CPU per request shows the speed in a block.
	AdjustedFor []string `json:"adjusted_for"`
	Treatments  []string `json:"treatments"`
	// Unadjusted is the interval over machine speeds as well.
	Unadjusted stats.Interval `json:"unadjusted"`
	// Slope is the relative change of the difference with the logarithm of that CPU per request. At 1 both follow the
	// machine alike. A difference that falls as the CPU rises is not adjusted.
	// It is absent if the interval of the difference contains zero.
	Slope    *stats.Interval `json:"slope,omitempty"`
	Narrower float64         `json:"narrower"` // relative narrowing of the interval, 0..1
}

// workParts are the planes whose CPU per request shows the machine's speed. Their sum varies less than
// each: work moves between the two ends of a connection.
var workParts = []string{metric.Of(metric.CPUPerRequest, "app"), metric.Of(metric.CPUPerRequest, "load")}

// speedAdjusted are the metrics that can be adjusted, by base name.
var speedAdjusted = metric.CostsOfCPU()

// machineWork is the CPU per request in trials without the compared treatments. A covariate that a treatment
// or its baseline influences would be part of their own noise.
type machineWork struct {
	byTreatment map[string]map[int]float64 // µs, by treatment and block
	control     map[string]string          // ID of the A/A pair, by baseline
}

// machineWork of interleaved trials, which share the moments in which the speed is seen. Nil means that it
// adjusts nothing. A run that stops at a width has already chosen by widths.
func (run *Run) machineWork() *machineWork {
	if run.Plan.Order != experiment.OrderInterleaved || run.Plan.StopsAtWidth() || run.estimator.method != Paired {
		return nil
	}
	w := &machineWork{map[string]map[int]float64{}, map[string]string{}}
	for _, t := range run.Plan.Treatments {
		if t.Control {
			w.control[t.Baseline] = t.ID
		}
	}
	for _, t := range run.Trials {
		sum, known := 0.0, t.Valid
		for _, name := range workParts {
			v, ok := t.Metrics[name]
			sum, known = sum+v, known && ok && v > 0
		}
		if !known {
			continue
		}
		if w.byTreatment[t.Treatment] == nil {
			w.byTreatment[t.Treatment] = map[int]float64{}
		}
		w.byTreatment[t.Treatment][t.Block] = sum
	}
	return w
}

// atMeanSpeed replaces the interval of the difference by that at the mean speed of the machine, if it is narrower.
func (x *estimator) atMeanSpeed(c *compared, p pairs) {
	if x.work == nil || c.Control || c.Position != nil || !slices.Contains(speedAdjusted, metric.Base(c.Metric)) {
		return
	}
	work, from := x.work.sumByBlock(c.Baseline, p)
	if from == nil {
		return
	}
	d, used := stats.DifferenceAtMeanSpeed(p.treatment, p.baseline, work, x.confidence)
	if !used {
		return
	}
	c.Speed = x.speedAdjusted(*c.Difference, &d, from)
	x.adjusted(c, d)
}

// pooledAtMeanSpeed is atMeanSpeed of the mean over the levels of a question. Otherwise that mean, which comes before its
// levels, would keep the spread that is taken out of them. levels are in the same blocks. The work in a block is the mean
// of theirs.
func (x *estimator) pooledAtMeanSpeed(p *pooled, treatments []plan.Treatment, levels []pairs) {
	if x.work == nil || !slices.Contains(speedAdjusted, metric.Base(p.Metric)) {
		return
	}
	n := len(levels[0].blocks)
	treatment, baseline, work := make([]float64, n), make([]float64, n), make([]float64, n)
	var from []string
	for i, level := range levels {
		w, ids := x.work.sumByBlock(treatments[i].Baseline, level)
		if ids == nil {
			return
		}
		for _, id := range ids {
			if !slices.Contains(from, id) {
				from = append(from, id)
			}
		}
		share := 1 / float64(len(levels))
		for b := range work {
			treatment[b], baseline[b], work[b] = treatment[b]+share*level.treatment[b], baseline[b]+share*level.baseline[b], work[b]+share*w[b]
		}
	}
	d, used := stats.DifferenceAtMeanSpeed(treatment, baseline, work, x.confidence)
	if !used {
		return
	}
	p.Speed = x.speedAdjusted(*p.Difference, &d, from)
	p.Difference, p.P, p.test = &d.Interval, d.P, d.Result
}

func (x *estimator) speedAdjusted(raw stats.Interval, d *stats.Adjusted, from []string) *SpeedAdjusted {
	s := &SpeedAdjusted{AdjustedFor: workParts, Treatments: from, Unadjusted: raw, Narrower: adjustment(raw, *d).Narrower}
	d.Estimate = raw.Estimate // equal but for rounding
	if d.Excludes(0) {
		slope := d.RelativeSlope(x.confidence)
		s.Slope = &slope
	}
	return s
}

// sumByBlock returns the machine's work in each block of a comparison, and the treatments it was measured in. One is
// the baseline's A/A pair, a deployment of its own. The baseline is added only if it has none of the compared cost,
// so that its noise is not in the difference.
func (w *machineWork) sumByBlock(baseline string, p pairs) (work []float64, from []string) {
	candidates := []string{w.control[baseline]}
	if !slices.ContainsFunc(p.baseline, func(v float64) bool { return v != 0 }) {
		candidates = append(candidates, baseline)
	}
	work = make([]float64, len(p.blocks))
	for _, id := range candidates {
		blocks := w.byTreatment[id]
		if slices.ContainsFunc(p.blocks, func(b int) bool { return blocks[b] == 0 }) {
			continue
		}
		from = append(from, id)
		for i, b := range p.blocks {
			work[i] += blocks[b]
		}
	}
	return work, from
}
