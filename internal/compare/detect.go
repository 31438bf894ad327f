package compare

import (
	"math"
	"slices"
	"time"

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

// NoiseSource is the noise of one difference of interleaved trials, by its source. Standard
// deviations are of the difference in one block.
type NoiseSource struct {
	Treatment string `json:"treatment"`
	Baseline  string `json:"baseline"`
	Metric    string `json:"metric"`
	Unit      string `json:"unit"`
	Blocks    int    `json:"blocks"`
	Slices    int    `json:"slices"` // of each treatment in a block
	// Slice is the standard deviation because of the finite number of slices. Longer blocks reduce it.
	Slice float64 `json:"slice"`
	// Deployment is that between deployments, absent with fewer than two blocks. Only more blocks
	// reduce the interval that it causes.
	Deployment *float64 `json:"deployment,omitempty"`
	// Price is the cost of a block of this run.
	Price *BlockPrice `json:"price,omitempty"`
	// BestSlices is the number of slices of each treatment in a block that narrows the interval most in a given
	// time. Absent if a source has no noise, or without a price.
	BestSlices *float64 `json:"best_slices,omitempty"`
	// These is the difference of these deployments alone, with its interval over slices. Only
	// a run of one block has it. It does not hold for other deployments.
	These *stats.Interval `json:"these_deployments,omitempty"`
}

// Noise divides the noise of the comparisons of interleaved trials.
func (run *Run) Noise() []NoiseSource {
	if !run.estimator.hasCosts() {
		return nil
	}
	return run.estimator.noiseSources(run.Plan.Treatments, run.validByTreatment(), priceOfBlocks(run))
}

// noiseSources divides the noise of the comparisons of interleaved trials.
func (x *estimator) noiseSources(treatments []plan.Treatment, byTreatment map[string][]figures.Measured, price *BlockPrice) []NoiseSource {
	var all []NoiseSource
	for _, t := range treatments {
		for _, part := range figures.SliceParts {
			if n, ok := x.noiseSource(t, part, byTreatment, price); ok {
				all = append(all, n)
			}
		}
	}
	return all
}

func (x *estimator) noiseSource(t plan.Treatment, part string, byTreatment map[string][]figures.Measured, price *BlockPrice) (n NoiseSource, ok bool) {
	name := metric.Of(metric.CPUPerRequest, part)
	m, _ := metric.Lookup(name)
	n = NoiseSource{Treatment: t.ID, Baseline: t.Baseline, Metric: name, Unit: m.Unit}
	var blocks, variances []float64
	var rows []float64
	for _, a := range byTreatment[t.ID] {
		for _, b := range byTreatment[t.Baseline] {
			if a.Block != b.Block {
				continue
			}
			// A row has one slice of each: what changes slowly cancels.
			both := rowDifferences(a.Slices[part], b.Slices[part])
			d, known := difference(a, b, name)
			if len(both) < 2 || !known {
				continue
			}
			rows = both
			blocks, n.Slices = append(blocks, d), len(rows)
			variances = append(variances, variance(rows)/float64(len(rows)))
		}
	}
	if n.Blocks = len(blocks); n.Blocks == 0 {
		return n, false
	}
	within := stats.Mean(variances)
	if n.Slice = math.Sqrt(within); n.Slice == 0 {
		return n, false // both have no such tasks
	}
	if n.Blocks == 1 {
		n.These = new(stats.MeanInterval(rows, x.confidence).Interval)
		return n, true
	}
	between := math.Sqrt(max(0, variance(blocks)-within))
	n.Deployment = &between
	if n.Price = price; price != nil && between > 0 {
		n.BestSlices = new(price.BestSlices(n.Slice*math.Sqrt(float64(n.Slices)), between))
	}
	return n, true
}

func difference(a, b figures.Measured, name string) (float64, bool) {
	x, ok1 := a.Metrics[name]
	y, ok2 := b.Metrics[name]
	return x - y, ok1 && ok2
}

// rowDifferences are the differences of slices of the same row, where both are known.
func rowDifferences(a, b []float64) (rows []float64) {
	for i := range min(len(a), len(b)) {
		if d := a[i] - b[i]; !math.IsNaN(d) {
			rows = append(rows, d)
		}
	}
	return rows
}

func variance(x []float64) float64 { return math.Pow(stats.SD(x), 2) }

// BlockPrice is the time of a block with order interleaved, in seconds. A row has one slice of each treatment.
type BlockPrice struct {
	Block float64 `json:"block_s"` // without its rows
	Row   float64 `json:"row_s"`
}

// BestSlices is the number of rows in a block that gives the smallest variance in a given time, for the
// standard deviations of the difference of a row and between deployments. It is the optimum of a nested
// design with two stages (Kempthorne, "The Design and Analysis of Experiments", 1952; Kalibera, Jones,
// "Rigorous benchmarking in reasonable time", ISMM 2013).
func (p BlockPrice) BestSlices(row, deployment float64) float64 {
	return math.Sqrt(p.Block/p.Row) * row / deployment
}

// priceOfBlocks returns the seconds that a block and a row of the run take. Nil means that the run has no rounds.
// It is the median, because a resumed run has a gap.
func priceOfBlocks(run *Run) *BlockPrice {
	if run.Plan.Slices == nil || run.Plan.Slices.Measure == 0 {
		return nil
	}
	rounds := map[string]int{}
	for _, t := range run.Plan.Trials {
		rounds[t.ID] = t.Round
	}
	type span struct {
		start, end time.Time
		measure    float64
	}
	spans := map[int]*span{}
	for i := range run.Records {
		r := &run.Records[i]
		if rounds[r.ID] == 0 || r.Load == nil {
			continue
		}
		s := spans[rounds[r.ID]]
		if s == nil {
			s = &span{start: r.Started, end: r.Ended}
			spans[rounds[r.ID]] = s
		}
		if r.Started.Before(s.start) {
			s.start = r.Started
		}
		if r.Ended.After(s.end) {
			s.end = r.Ended
		}
		s.measure = max(s.measure, r.Load.MeasureSeconds)
	}
	var blocks, rows []float64
	for round, s := range spans {
		end := s.end
		if next := spans[round+1]; next != nil {
			end = next.start // the removal of the deployments included
		}
		blocks = append(blocks, end.Sub(s.start).Seconds()-s.measure)
		rows = append(rows, s.measure/float64(run.Plan.Slices.Measure))
	}
	if len(blocks) == 0 {
		return nil
	}
	slices.Sort(blocks)
	slices.Sort(rows)
	p := BlockPrice{Block: blocks[len(blocks)/2], Row: rows[len(rows)/2]}
	if p.Block <= 0 || p.Row <= 0 {
		return nil
	}
	return &p
}
