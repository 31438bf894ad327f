package compare

import (
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// SpeedAdjusted is a difference at the mean speed of the machine in the run. The estimate is unchanged. The
// interval is without the spread that follows the machine's speed in slices.
type SpeedAdjusted struct {
	// AdjustedFor has the planes and treatments whose CPU per request shows the speed in a slice.
	AdjustedFor []string `json:"adjusted_for"`
	Treatments  []string `json:"treatments"`
	// Unadjusted is the interval over machine speeds as well.
	Unadjusted stats.Interval `json:"unadjusted"`
	// Slope is the relative change of the difference with the relative change of that CPU per request, from block to block.
	// At 1 both follow the machine alike. A cost that falls as the CPU rises is not adjusted.
	// It is absent if the interval of the difference contains zero.
	Slope    *stats.Interval `json:"slope,omitempty"`
	Narrower float64         `json:"narrower"` // relative narrowing of the interval, 0..1
}

// workParts are the metrics whose sum shows the machine's speed.
var workParts = lists.Map(figures.SpeedParts, func(part string) string { return metric.Of(metric.CPUPerRequest, part) })

// speedAdjusted are the metrics that can be adjusted, by base name.
var speedAdjusted = metric.CostsOfCPU()

// machineSpeed has the slices of valid trials, by treatment and block. Their CPU of application and load generator shows
// the machine's speed.
type machineSpeed struct {
	byTreatment map[string]map[int]figures.SliceCosts
}

// machineSpeed of interleaved trials, which share the moments in which the speed is seen. Nil means that it
// adjusts nothing. A run that stops at a width has already chosen by widths.
func (run *Run) machineSpeed() *machineSpeed {
	if run.Plan.Order != experiment.OrderInterleaved || run.Plan.StopsAtWidth() || run.estimator.method != Paired {
		return nil
	}
	m := &machineSpeed{map[string]map[int]figures.SliceCosts{}}
	for _, t := range run.Trials {
		if !t.Valid || t.Slices == nil {
			continue
		}
		if m.byTreatment[t.Treatment] == nil {
			m.byTreatment[t.Treatment] = map[int]figures.SliceCosts{}
		}
		m.byTreatment[t.Treatment][t.Block] = t.Slices
	}
	return m
}

// atMeanSpeed replaces the interval of the difference by that at the mean speed of the machine, if it is narrower.
func (x *estimator) atMeanSpeed(c *compared, p pairs) {
	if x.speed == nil || c.Control || c.Position != nil {
		return
	}
	at, from, ok := x.speed.differences(c.Metric, c.Treatment, c.Baseline, p)
	if !ok {
		return
	}
	d := at.Interval(x.confidence)
	if c.Speed = x.speedAdjusted(*c.Difference, &d, at, from); c.Speed != nil {
		x.adjusted(c, d)
	}
}

// pooledAtMeanSpeed is atMeanSpeed of the mean over the levels of a question. Otherwise that mean, which comes before its
// levels, would keep the spread that is taken out of them. levels are in the same blocks.
func (x *estimator) pooledAtMeanSpeed(p *pooled, treatments []plan.Treatment, levels []pairs) {
	if x.speed == nil {
		return
	}
	var all []stats.AtSpeed
	var from []string
	for i, level := range levels {
		at, ids, ok := x.speed.differences(p.Metric, treatments[i].ID, treatments[i].Baseline, level)
		if !ok {
			return
		}
		all = append(all, at)
		from = lists.Add(from, ids...)
	}
	at := stats.MeanAtSpeed(all)
	d := at.Interval(x.confidence)
	if p.Speed = x.speedAdjusted(*p.Difference, &d, at, from); p.Speed != nil {
		p.Difference, p.P, p.test = &d.Interval, d.P, d
	}
}

// speedAdjusted is nil if the interval is hardly narrower.
func (x *estimator) speedAdjusted(raw stats.Interval, d *stats.Result, at stats.AtSpeed, from []string) *SpeedAdjusted {
	narrower, enough := stats.Narrower(d.Interval, raw)
	if !enough {
		return nil
	}
	s := &SpeedAdjusted{AdjustedFor: workParts, Treatments: from, Unadjusted: raw, Narrower: narrower}
	d.Estimate = raw.Estimate // equal but for rounding
	if d.Excludes(0) {
		s.Slope = new(at.RelativeSlope(d.Estimate, x.confidence))
	}
	return s
}

// differences are those of a comparison at the machine's mean speed. from are the treatments that show it.
func (m *machineSpeed) differences(name, treatment, baseline string, p pairs) (at stats.AtSpeed, from []string, ok bool) {
	part, ok := metric.PartOf(metric.Base(name), name)
	if !ok || !slices.Contains(speedAdjusted, metric.Base(name)) || !slices.Contains(figures.SliceParts, part) {
		return at, nil, false
	}
	if from = m.from(part, treatment, baseline, p.blocks); len(from) == 0 {
		return at, nil, false
	}
	work := lists.Map(from, func(id string) [][]float64 { return relativeWork(m.byTreatment[id], p.blocks) })
	speeds, readings := make([]float64, len(p.blocks)), make([][]stats.Reading, len(p.blocks))
	for i, block := range p.blocks {
		speeds[i] = stats.Mean(lists.Map(work, func(of [][]float64) float64 { return stats.Mean(known(of[i])) }))
		a, b := m.byTreatment[treatment][block][part], m.byTreatment[baseline][block][part]
		for row := range min(len(a), len(b)) {
			r := stats.Reading{Treatment: a[row], Baseline: b[row], Speed: stats.Mean(lists.Map(work, func(of [][]float64) float64 { return rowOf(of[i], row) }))}
			if len(known([]float64{r.Treatment, r.Baseline, r.Speed})) == 3 {
				readings[i] = append(readings[i], r)
			}
		}
	}
	at, ok = stats.DifferencesAtMeanSpeed(p.treatment, p.baseline, speeds, readings)
	return at, from, ok
}

// from are the treatments whose application and load generator show the speed: all with slices in the blocks, so that the speed
// is that of the run. The slices of one treatment alone would take out that it ran at other moments than the others, which
// belongs into an interval. Cost that includes the application's is compared without the application of either side, whose
// noise would be in the speed.
func (m *machineSpeed) from(part, treatment, baseline string, blocks []int) (from []string) {
	for id, slicesOf := range m.byTreatment {
		compared := metric.Includes(part, metric.App) && (id == treatment || id == baseline)
		if !compared && !slices.ContainsFunc(blocks, func(b int) bool { return slicesOf[b] == nil }) {
			from = append(from, id)
		}
	}
	slices.Sort(from)
	return from
}

// relativeWork is the CPU per request that shows the speed, in each slice of each block, relative to its mean over the blocks. It is
// NaN if a part of it is unknown or zero.
func relativeWork(costs map[int]figures.SliceCosts, blocks []int) [][]float64 {
	work := make([][]float64, len(blocks))
	for i, block := range blocks {
		work[i] = make([]float64, len(costs[block][figures.SpeedParts[0]]))
		for row := range work[i] {
			for _, part := range figures.SpeedParts {
				if v := rowOf(costs[block][part], row); v > 0 {
					work[i][row] += v
				} else {
					work[i][row] = math.NaN()
				}
			}
		}
	}
	mean := stats.Mean(lists.Map(work, func(rows []float64) float64 { return stats.Mean(known(rows)) }))
	for i := range work {
		work[i] = lists.Map(work[i], func(v float64) float64 { return v / mean })
	}
	return work
}

// rowOf is NaN beyond the rows.
func rowOf(rows []float64, i int) float64 {
	if i >= len(rows) {
		return math.NaN()
	}
	return rows[i]
}

// known are the finite values.
func known(x []float64) []float64 {
	return lists.Where(x, func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) })
}

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
// becomes narrower. It returns the ratio of the verdict.
func (x *estimator) position(c *compared, p pairs, ratio stats.Result) stats.Result {
	m, _ := metric.Lookup(c.Metric)
	if x.places == nil || !m.SpeedSensitive {
		return ratio
	}
	var n Positioned
	if d, used := stats.PositionedDifference(p.treatment, p.baseline, p.shifts, x.confidence); used {
		n.Difference = adjustment(*c.Difference, d)
		x.adjusted(c, d.Result)
	}
	if q, used := stats.PositionedRatio(p.treatment, p.baseline, p.shifts, x.confidence); used {
		n.Ratio = adjustment(*c.Ratio, q)
		ratio, c.Ratio = q.Result, &q.Interval
	}
	if n != (Positioned{}) {
		c.Position = &n
	}
	return ratio
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
