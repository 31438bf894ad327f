package compare

import (
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// Sensitivity is the smallest difference that a planned comparison can show, from the spread of earlier runs.
type Sensitivity struct {
	Treatment string `json:"treatment"`
	Baseline  string `json:"baseline"`
	Metric    string `json:"metric"`
	// Spread is the standard deviation of a block's difference over the treatment's mean, or
	// of the logarithm of its ratio, with its interval.
	Spread stats.Interval `json:"spread"`
	Level  float64        `json:"level"` // of the test: Holm's first step
	Ratio  bool           `json:"ratio"` // judged by the ratio
}

// sensitiveMetrics have a computed sensitivity.
var sensitiveMetrics = []string{
	metric.Of(metric.CPUPerRequest, "total"), metric.Of(metric.CPUPerRequest, "data"),
	metric.Of(metric.Latency, "p50"), metric.Of(metric.Latency, "p99"),
}

// Sensitivities pool the spread of the planned comparisons over earlier runs with the same
// treatments. Comparisons that no run has are absent.
func Sensitivities(p *plan.Plan, runs []*result.Dir, confidence float64) ([]Sensitivity, error) {
	type pool struct {
		sum, df float64 // of squares, and degrees of freedom
		tests   int
		ratio   bool
	}
	pools := map[string]*pool{}
	interleaved := p.Order == experiment.OrderInterleaved && !p.StopsAtWidth() // as machineSpeed
	for _, d := range runs {
		run, err := Read(d, Options{})
		if err != nil {
			return nil, err
		}
		keys, tests := partners(d.Plan(), *p), map[string]int{}
		cs, treatments := run.Compare(), run.Treatments()
		for _, q := range cs.questions {
			for _, t := range q.Treatments {
				tests[t] = q.Tests
			}
		}
		for i := range cs.all {
			c := &cs.all[i]
			spread, df, ok := c.spread(treatments, interleaved)
			if !ok || c.Control {
				continue
			}
			k := pair(keys[c.Treatment], keys[c.Baseline], c.Metric)
			if pools[k] == nil {
				pools[k] = &pool{}
			}
			x := pools[k]
			x.sum, x.df, x.ratio = x.sum+df*spread*spread, x.df+df, c.OnRatio
			x.tests = max(x.tests, tests[c.Treatment], 1)
		}
	}
	planned, all := p.ByID(), []Sensitivity{}
	for _, t := range p.Treatments {
		base, ok := planned[t.Baseline]
		if !ok || t.Control {
			continue
		}
		for _, name := range sensitiveMetrics {
			x := pools[pair(t.ID, base.ID, name)]
			if x == nil {
				continue
			}
			all = append(all, Sensitivity{
				Treatment: t.ID, Baseline: base.ID, Metric: name,
				Spread: stats.DeviationInterval(math.Sqrt(x.sum/x.df), x.df, confidence),
				Level:  (1 - confidence) / float64(x.tests), Ratio: x.ratio,
			})
		}
	}
	return all, nil
}

// partners returns the treatments of the plan that equal a treatment of an earlier run, by the earlier ID.
func partners(earlier, p plan.Plan) map[string]string {
	key := keyOf(earlier, p)
	planned, all := map[string]string{}, map[string]string{}
	for _, t := range p.Treatments {
		planned[key(t)] = t.ID
	}
	for _, t := range earlier.Treatments {
		all[t.ID] = planned[key(t)]
	}
	return all
}

// pair names a metric of a planned comparison.
func pair(treatment, baseline, name string) string { return treatment + " " + baseline + " " + name }

// BlocksToDetect is the number of blocks with which a treatment, with the spread of its pairs, shows a difference of
// share in a metric with 80 % power, as the only comparison.
func (run *Run) BlocksToDetect(treatment, name string, share float64) (int, bool) {
	treatments := run.Treatments()
	for _, c := range run.Compare().all {
		if c.Treatment == treatment && c.Metric == name {
			spread, _, ok := c.spread(treatments, true)
			if !ok {
				return 0, false
			}
			return stats.BlocksFor(size(share, c.OnRatio)/spread, run.estimator.alpha(), stats.Power)
		}
	}
	return 0, false
}

// spread is the standard deviation of a block: of the difference over the treatment's
// mean, or of the logarithm of the ratio. df are its degrees of freedom. atSpeed: at the mean speed of the machine, if c
// is adjusted for it.
func (c *compared) spread(treatments []Treatment, atSpeed bool) (spread, df float64, ok bool) {
	if len(c.values) < stats.MinN {
		return 0, 0, false
	}
	sd, df, mean := stats.SD(c.values), float64(len(c.values)-1), 1.0
	if atSpeed && c.Speed != nil && !c.OnRatio {
		sd, df = c.test.SD, c.test.DF
	}
	if !c.OnRatio {
		for _, t := range treatments {
			if t.ID == c.Treatment {
				mean = t.Metrics[c.Metric].Estimate
			}
		}
	}
	return sd / mean, df, sd > 0 && mean > 0
}

// Shows is the difference that a number of blocks shows with 80 % power, as a share.
func (s Sensitivity) Shows(blocks int) (float64, bool) {
	d, ok := stats.ShareFor(blocks, s.Level, stats.Power)
	if d *= s.Spread.Estimate; s.Ratio {
		d = math.Expm1(d)
	}
	return d, ok
}

// reach is the largest difference, in standard deviations of a pair, that a verdict is
// required to be able to show.
const reach = 10

// TooFew is a family of planned comparisons that the planned blocks cannot serve: not even
// a difference of ten standard deviations would be shown.
type TooFew struct {
	Tests, Needed int
}

// TooFewBlocks returns the largest family of a plan that is out of reach, or nil if there is none.
func TooFewBlocks(p *plan.Plan, confidence float64) *TooFew {
	planned, levels := p.ByID(), map[string]int{}
	most, headlines := 0, 0
	for _, name := range metric.Headlines() {
		// Programs that end have fewer, and only runs with an objective have a capacity.
		if m, _ := metric.Lookup(name); m.Source != metric.Executions && name != metric.Capacity {
			headlines++
		}
	}
	if slices.ContainsFunc(p.Treatments, func(t plan.Treatment) bool { return t.Levels.Capacity.Objective != "" }) {
		headlines++ // the capacity, which other runs do not have
	}
	for _, t := range p.Treatments {
		if base, ok := planned[t.Baseline]; ok && !t.Control {
			id := questionOf(t, base).ID
			levels[id]++
			most = max(most, levels[id])
		}
	}
	tests := most * headlines
	if tests == 0 {
		return nil
	}
	needed, _ := stats.BlocksWithin(reach, (1-confidence)/float64(tests))
	if needed <= p.Blocks {
		return nil
	}
	return &TooFew{tests, needed}
}

// Blocks is the number of blocks that shows a difference of share with 80 % power. high
// is that number if the spread is at the upper end of its interval. Not ok beyond 100,000.
func (s Sensitivity) Blocks(share float64) (n, high int, ok bool) {
	n, ok = stats.BlocksFor(size(share, s.Ratio)/s.Spread.Estimate, s.Level, stats.Power)
	if ok && s.Spread.Known() {
		if high, ok = stats.BlocksFor(size(share, s.Ratio) / *s.Spread.High, s.Level, stats.Power); !ok {
			return n, 0, true
		}
	}
	return n, high, ok
}

// size is a share on the scale of the spread.
func size(share float64, ratio bool) float64 {
	if ratio {
		return math.Log1p(share)
	}
	return share
}

// StandardWeight is the reference proxy beside a baseline, and costs in its weight: CPU that it and
// they used in the same slices. A faster processor makes both lighter.
type StandardWeight struct {
	Treatment string `json:"treatment"` // the reference proxy
	Baseline  string `json:"baseline"`
	// Weight is the data-plane CPU of a request through the reference proxy.
	Weight stats.Interval `json:"weight_us"`
	N      int            `json:"n"`
	Costs  []WeightCost   `json:"costs"`
}

// WeightCost is the cost of a treatment beyond its baseline, in standard weights.
type WeightCost struct {
	Treatment string `json:"treatment"`
	Baseline  string `json:"baseline"`
	Metric    string `json:"metric"`
	// Weights is the mean over blocks of cost over weight.
	Weights stats.Interval `json:"weights"`
	N       int            `json:"n"`
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

// inWeights is one cost in standard weights, over the blocks in which it and the weight are known.
func (x *estimator) inWeights(t plan.Treatment, name string, weights map[int]float64, byTreatment map[string][]figures.Measured) (c WeightCost, ok bool) {
	c = WeightCost{Treatment: t.ID, Baseline: t.Baseline, Metric: name}
	p := x.pairs(name, byBlock(byTreatment[t.ID]), byBlock(byTreatment[t.Baseline]))
	var ratios []float64
	for i, block := range p.blocks {
		if w := weights[block]; w > 0 {
			ratios = append(ratios, (p.treatment[i]-p.baseline[i])/w)
		}
	}
	c.N, c.Weights = len(ratios), stats.MeanInterval(ratios, x.confidence).Interval
	return c, c.N > 0
}
