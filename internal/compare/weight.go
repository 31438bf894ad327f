package compare

import (
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// StandardWeight is the reference proxy beside a baseline, and costs in its weight: CPU that it and
// they used in the same slices. A faster processor makes both lighter.
type StandardWeight struct {
	Treatment string `json:"treatment"` // the reference proxy
	Baseline  string `json:"baseline"`
	// Weight is the data-plane CPU of a request through the reference proxy.
	Weight stats.Interval `json:"weight_us"`
	N      int            `json:"n"`
	// NoiseShare is the part of the weight's variance between blocks that its finite number of slices explains, 0..1.
	// This part moves coefficients towards 0. Absent without slices, or with fewer than three blocks.
	NoiseShare *float64     `json:"noise_share,omitempty"`
	Costs      []WeightCost `json:"costs"`
}

// WeightCost is the cost of a treatment beyond its baseline, in standard weights.
type WeightCost struct {
	Treatment string `json:"treatment"`
	Baseline  string `json:"baseline"`
	Metric    string `json:"metric"`
	// Weights is the mean over blocks of cost over weight.
	Weights stats.Interval `json:"weights"`
	N       int            `json:"n"`
	// Coefficient is the slope of the cost's logarithm over the weight's logarithm, over blocks. At 1 the
	// machine's speed cancels in Weights, and at 0 dividing by the weight adds noise. Absent where a
	// cost is not positive.
	Coefficient *stats.Interval `json:"coefficient,omitempty"`
	// CV and CVWeights are the standard deviations over blocks of the cost and of Weights, over their means.
	CV        *float64 `json:"cv,omitempty"`
	CVWeights *float64 `json:"cv_weights,omitempty"`
}

// weightParts are the parts whose costs are given in standard weights.
var weightParts = []string{"data", "total"}

// StandardWeights gives the costs of the treatments that share a baseline with a reference proxy.
func (run *Run) StandardWeights() []StandardWeight {
	if !run.estimator.hasCosts() {
		return nil
	}
	return run.standardWeights(run.validByTreatment())
}

// standardWeights gives the costs of the treatments that share a baseline with a reference proxy.
func (run *Run) standardWeights(byTreatment map[string][]figures.Measured) []StandardWeight {
	var all []StandardWeight
	for _, ref := range run.Plan.Treatments {
		if !ref.Reference {
			continue
		}
		weights := map[int]float64{}
		var values []float64
		for _, t := range byTreatment[ref.ID] {
			if w := t.Metrics[metric.Of(metric.CPUPerRequest, "data")]; w > 0 {
				weights[t.Block] = w
				values = append(values, w)
			}
		}
		s := StandardWeight{Treatment: ref.ID, Baseline: ref.Baseline, Weight: stats.MeanInterval(values, run.estimator.confidence).Interval, N: len(values), Costs: []WeightCost{}}
		s.NoiseShare = noiseShare(values, byTreatment[ref.ID])
		for _, t := range run.Plan.Treatments {
			if t.Control || t.Reference || t.Baseline != ref.Baseline {
				continue
			}
			for _, part := range weightParts {
				if c, ok := run.estimator.inWeights(t, metric.Of(metric.CPUPerRequest, part), weights, byTreatment); ok {
					s.Costs = append(s.Costs, c)
				}
			}
		}
		if s.N > 0 {
			all = append(all, s)
		}
	}
	return all
}

// noiseShare is the share of the variance of a weight between blocks that is the variance of its mean over slices.
func noiseShare(weights []float64, trials []figures.Measured) *float64 {
	var within []float64
	for _, t := range trials {
		rows := slices.DeleteFunc(slices.Clone(t.Slices["data"]), math.IsNaN)
		if len(rows) > 1 {
			within = append(within, variance(rows)/float64(len(rows)))
		}
	}
	if len(weights) < stats.MinN || len(within) < len(weights) {
		return nil
	}
	return number(min(1, stats.Mean(within)/variance(weights)))
}

// inWeights is one cost in standard weights, over the blocks in which it and the weight are known.
func (x *estimator) inWeights(t plan.Treatment, name string, weights map[int]float64, byTreatment map[string][]figures.Measured) (c WeightCost, ok bool) {
	c = WeightCost{Treatment: t.ID, Baseline: t.Baseline, Metric: name}
	p := x.pairs(name, byBlock(byTreatment[t.ID]), byBlock(byTreatment[t.Baseline]))
	var costs, ratios []float64
	var points []stats.Point
	for i, block := range p.blocks {
		w, cost := weights[block], p.treatment[i]-p.baseline[i]
		if w <= 0 {
			continue
		}
		costs, ratios = append(costs, cost), append(ratios, cost/w)
		points = append(points, stats.Point{X: math.Log(w), Y: math.Log(cost), Weight: 1, Group: block})
	}
	if c.N = len(costs); c.N == 0 {
		return c, false
	}
	c.Weights = stats.MeanInterval(ratios, x.confidence).Interval
	c.CV, c.CVWeights = number(stats.CV(costs)), number(stats.CV(ratios))
	if slope := stats.Line(points, x.confidence).Slope; slope.Known() {
		c.Coefficient = &slope.Interval
	}
	return c, true
}
