package compare

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// Ladder has the increments of treatments that build on each other: the levels of the factor
// mesh in the order of the experiment file, with the baseline first.
type Ladder struct {
	Factors plan.Factors `json:"factors"` // common to the steps: those without the mesh
	// Steps are treatments, the baseline first.
	Steps   []string       `json:"steps"`
	Metrics []LadderMetric `json:"metrics"`
}

// LadderMetric is a ladder by one metric.
type LadderMetric struct {
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	// Increments are in the order of the steps, from the second on.
	Increments []Increment `json:"increments"`
	// Sum adds up the known increments. Whole is the last step less the baseline, over the N
	// blocks that have both. Rest is Whole less Sum: zero if every block has every step.
	Sum   float64         `json:"sum"`
	Whole *stats.Interval `json:"whole,omitempty"`
	N     int             `json:"n"`
	Rest  *float64        `json:"rest,omitempty"`
	// RestInterval is Rest with its interval, and absent if Rest is zero. It contains zero if the rest is noise of
	// the blocks without a step.
	RestInterval *stats.Interval `json:"rest_interval,omitempty"`
}

// Increment is a step less the step before it, over the blocks that have both.
type Increment struct {
	Treatment string `json:"treatment"`
	Before    string `json:"before"`
	// Difference is absent if no block has both.
	Difference *stats.Interval `json:"difference,omitempty"`
	N          int             `json:"n"`
	PairsLost  int             `json:"pairs_lost,omitempty"`
	P          *float64        `json:"p,omitempty"`
	PAdjusted  *float64        `json:"p_adjusted,omitempty"` // Holm, over the steps by this metric
	// Adjusted is Difference with the interval of the verdict: all steps of a metric at once have the report's confidence.
	Adjusted *stats.Interval `json:"adjusted,omitempty"`
	Verdict  Verdict         `json:"verdict"`
}

// Judged is the difference with the interval of the verdict, or nil if no block has both steps.
func (c Increment) Judged() *stats.Interval { return cmp.Or(c.Adjusted, c.Difference) }

// errNoLadder: the results have no steps that differ by their mesh, or no blocks to compare them in.
var errNoLadder = errors.New("no ladder: it needs a baseline and another level of factors.mesh, run in blocks")

// Ladders are the ladders of the run, one for each combination of the other factors.
func (run *Run) Ladders() ([]Ladder, error) { return run.ladders(run.validByTreatment()) }

func (run *Run) ladders(byTreatment map[string][]figures.Measured) (all []Ladder, err error) {
	if run.estimator.method == Paired {
		seen := map[string]bool{}
		for _, t := range run.Plan.Treatments {
			rest := without(t.Factors, experiment.MeshFactor)
			key := fmt.Sprint(rest)
			if t.Control || t.Reference || seen[key] {
				continue
			}
			seen[key] = true
			if steps := stepsOf(run, key); len(steps) > 1 {
				all = append(all, run.estimator.ladder(rest, steps, byTreatment))
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w", errNoLadder)
	}
	return all, nil
}

// stepsOf are the treatments with the same other factors: the baseline, and those compared with it.
func stepsOf(run *Run, key string) (steps []plan.Treatment) {
	for _, t := range run.Plan.Treatments {
		if t.Control || t.Reference || fmt.Sprint(without(t.Factors, experiment.MeshFactor)) != key {
			continue
		}
		if t.Baseline == "" {
			steps = append([]plan.Treatment{t}, steps...)
			continue
		}
		steps = append(steps, t)
	}
	return steps
}

func (x *estimator) ladder(factors plan.Factors, steps []plan.Treatment, byTreatment map[string][]figures.Measured) Ladder {
	l := Ladder{Factors: factors, Metrics: []LadderMetric{}}
	blocks := make([]map[int]figures.Measured, len(steps))
	for i, t := range steps {
		l.Steps = append(l.Steps, t.ID)
		blocks[i] = byBlock(byTreatment[t.ID])
	}
	for _, name := range ladderMetrics() {
		if m, ok := metric.Lookup(name); ok && somewhere(name, blocks) {
			l.Metrics = append(l.Metrics, x.ladderMetric(m, l.Steps, blocks))
		}
	}
	return l
}

// ladderMetrics returns the metrics of a ladder: CPU of each plane of the total, memory, response times.
func ladderMetrics() []string {
	planes := lists.Map(metric.TotalParts(), func(p metric.Part) string { return metric.Of(metric.CPUPerRequest, p.Name) })
	return append(append([]string{metric.Of(metric.CPUPerRequest, "total")}, planes...), metric.Of(metric.Memory, "data"), metric.Of(metric.Memory, "control"), metric.Of(metric.Latency, "p50"), metric.Of(metric.Latency, "p99"))
}

// somewhere reports whether a metric is known and not zero in any trial.
func somewhere(name string, steps []map[int]figures.Measured) bool {
	for _, trials := range steps {
		for _, t := range trials {
			if t.Metrics[name] != 0 {
				return true
			}
		}
	}
	return false
}

func (x *estimator) ladderMetric(m metric.Metric, steps []string, blocks []map[int]figures.Measured) LadderMetric {
	l := LadderMetric{Metric: m.Name, Unit: m.Unit, Increments: make([]Increment, len(steps)-1)}
	ps, of := make([]float64, len(l.Increments)), make([]pairs, len(l.Increments))
	for i := range l.Increments {
		c := Increment{Treatment: steps[i+1], Before: steps[i], Verdict: Insufficient}
		p := x.pairs(m.Name, blocks[i+1], blocks[i])
		c.N, c.PairsLost, ps[i], of[i] = len(p.treatment), p.lost, math.NaN(), p
		if c.N > 0 {
			d := stats.PairedDifference(p.treatment, p.baseline, x.confidence)
			c.Difference = &d.Interval
			l.Sum += d.Estimate
			switch {
			case d.P != nil:
				c.P, ps[i] = d.P, *d.P
			case d.Why != stats.NoSpread:
			case isZero(d.Estimate, p.treatment[0], p.baseline[0]):
				c.Verdict = NotShown
			default:
				exact := stats.ExactEqual(d.N)
				c.P, ps[i] = &exact, exact
			}
		}
		l.Increments[i] = c
	}
	for i, adjusted := range stats.Holm(ps) {
		if c := &l.Increments[i]; !math.IsNaN(adjusted) {
			c.PAdjusted = &adjusted
			c.Verdict = verdict(adjusted < x.alpha(), c.Difference.Estimate)
			tests := float64(len(ps)) // Bonferroni, or the factor of Holm that showed the difference
			if adjusted < x.alpha() && ps[i] > 0 {
				tests = adjusted / ps[i]
			}
			if c.Difference.Known() {
				d := stats.PairedDifference(of[i].treatment, of[i].baseline, 1-x.alpha()/tests)
				c.Adjusted = &d.Interval
			}
		}
	}
	p := x.pairs(m.Name, blocks[len(blocks)-1], blocks[0])
	if l.N = len(p.treatment); l.N > 0 {
		d := stats.PairedDifference(p.treatment, p.baseline, x.confidence)
		rest := d.Estimate - l.Sum
		if isZero(rest, d.Estimate, l.Sum) { // but for rounding
			rest = 0
		}
		l.Whole, l.Rest = &d.Interval, &rest
		if rest != 0 {
			r := x.rest(m.Name, blocks)
			l.RestInterval = &r.Interval
		}
	}
	return l
}

// rest is the whole less the known increments, as a sum over the values of the blocks. Without a pair, an increment and its
// weights are missing, and the rest contains it.
func (x *estimator) rest(name string, steps []map[int]figures.Measured) stats.Result {
	values, weights := make([][]float64, x.blocks), make([][]float64, x.blocks)
	for b := range values {
		values[b], weights[b] = make([]float64, len(steps)), make([]float64, len(steps))
		for s := range steps {
			values[b][s] = math.NaN()
			if v, ok := steps[s][b+1].Metrics[name]; ok {
				values[b][s] = v
			}
		}
	}
	add := func(sign float64, treatment, baseline int) {
		var both []int
		for b := range values {
			if !math.IsNaN(values[b][treatment]) && !math.IsNaN(values[b][baseline]) {
				both = append(both, b)
			}
		}
		for _, b := range both {
			weights[b][treatment] += sign / float64(len(both))
			weights[b][baseline] -= sign / float64(len(both))
		}
	}
	add(1, len(steps)-1, 0)
	for s := 1; s < len(steps); s++ {
		add(-1, s, s-1)
	}
	return stats.LayoutContrast(values, weights, x.confidence)
}
