package compare

import (
	"fmt"
	"math"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// Treatments are the estimates of every treatment over its valid trials.
func (run *Run) Treatments() (all []Treatment) {
	byTreatment := run.validByTreatment()
	for _, t := range run.Plan.Treatments {
		all = append(all, run.treatment(t, byTreatment[t.ID]))
	}
	return all
}

// pairs are the values of two treatments in the blocks in which both are known.
type pairs struct {
	treatment, baseline []float64
	lost                int // blocks in which only one of them is, or none
	blocks              []int
	shifts              []float64 // position in the block, treatment less baseline
}

// compare is every metric of t against base known in at least one trial of both.
func (x *estimator) compare(t, base plan.Treatment, trials, baseTrials []figures.Measured) []compared {
	var out []compared
	treatment, baseline := byBlock(trials), byBlock(baseTrials)
	for _, m := range metric.Known(metricsOf(trials)...) {
		if len(valuesOf(trials, m.Name)) == 0 || len(valuesOf(baseTrials, m.Name)) == 0 {
			continue
		}
		c := compared{Comparison: Comparison{
			Treatment: t.ID, Factors: t.Factors, Baseline: base.ID, Against: base.Factors, Control: t.Control,
			Metric: m.Name, Unit: m.Unit, Family: familyOf(m, t.Control),
			Warnings: figures.UnionWarnings(metricWarnings(trials, m.Name), metricWarnings(baseTrials, m.Name)),
		}}
		switch {
		case x.method != Unpaired:
			x.fill(&c, x.pairs(m.Name, treatment, baseline))
			c.withinBounds(x, treatment, baseline)
		case isBoundary(m.Name):
			c.Family = Boundary
			fallthrough
		default:
			x.unpaired(&c, trials, baseTrials)
		}
		out = append(out, c)
	}
	return out
}

func byBlock(trials []figures.Measured) map[int]figures.Measured {
	by := make(map[int]figures.Measured, len(trials))
	for _, t := range trials {
		by[t.Block] = t
	}
	return by
}

func (x *estimator) pairs(name string, treatment, baseline map[int]figures.Measured) pairs {
	var p pairs
	for block := 1; block <= x.blocks; block++ {
		t, ok1 := treatment[block].Metrics[name]
		b, ok2 := baseline[block].Metrics[name]
		if !ok1 || !ok2 {
			p.lost++
			continue
		}
		if math.Abs(t-b) <= rounding*math.Max(math.Abs(t), math.Abs(b)) {
			t = b // 1e-13 of a rate is rounding, not a difference
		}
		p.treatment, p.baseline = append(p.treatment, t), append(p.baseline, b)
		p.blocks = append(p.blocks, block)
		p.shifts = append(p.shifts, float64(x.places[treatment[block].ID]-x.places[baseline[block].ID]))
	}
	return p
}

// fill puts the numbers into c. Its verdict waits for the adjustment.
func (x *estimator) fill(c *compared, p pairs) {
	c.N, c.PairsLost, c.Verdict = len(p.treatment), p.lost, Insufficient
	if p.lost > 0 {
		c.Warnings = append(c.Warnings, figures.Warning{Code: "pairs-lost", Message: fmt.Sprintf("%d of %s have no pair: one side failed, was invalid or is unknown", p.lost, printable.Counted(x.blocks, "block")),
			Hint: "tare run --resume runs trials that are not recorded; the trials' own warnings have the reasons of invalid trials"})
	}
	if c.N == 0 {
		c.Warnings = append(c.Warnings, figures.Warning{Code: "few-trials", Message: "no block has both sides", Hint: "raise blocks, or fix the cause of invalid trials"})
		return
	}
	d := stats.PairedDifference(p.treatment, p.baseline, x.confidence)
	if v, ok := stats.MinDetectable(d.SD, d.N, x.alpha(), stats.Power); ok && d.Known() {
		c.Detectable = &v
	}
	ratio := stats.PairedRatio(p.treatment, p.baseline, x.confidence)
	c.put(d, ratio, "pair", stats.ExactEqual(d.N), p)
	ratio, within := x.position(c, p, ratio, func(m float64) (float64, bool) { return stats.PairedWithin(p.treatment, p.baseline, m) })
	x.atMeanSpeed(c, p)
	x.judge(c, ratio, within)
	c.keep(p)
}

// keep holds the values that the verdict rests on, by block, and the logarithms of the ratios.
func (c *compared) keep(p pairs) {
	c.blocks = p.blocks
	for i := range p.treatment {
		v := p.treatment[i] - p.baseline[i]
		if c.Ratio != nil {
			c.logs = append(c.logs, math.Log(p.treatment[i]/p.baseline[i]))
		}
		if c.OnRatio {
			v = c.logs[i]
		}
		c.values = append(c.values, v)
	}
}

// put puts a difference and a ratio into c, with a warning for each that is absent. exact is the p-value of equal differences,
// and noun an observation.
func (c *compared) put(d, ratio stats.Result, noun string, exact float64, p pairs) {
	c.Difference, c.P, c.test = &d.Interval, d.P, d
	if w, ok := absent(d.Why, d.N, noun); ok {
		c.Warnings = append(c.Warnings, w)
	}
	if math.IsNaN(ratio.Estimate) { // not positive, or beyond every number
		w, _ := absent(ratio.Why, ratio.N, noun)
		c.Warnings = append(c.Warnings, w)
	} else {
		c.Ratio = &ratio.Interval
	}
	if d.Why == stats.NoSpread {
		c.constant(d.Estimate, exact, p)
	}
}

// constant judges equal differences. Without spread there is no interval. Zero shows no
// difference. Any other has the exact p-value of its number, as small as so few
// observations without spread can show.
func (c *compared) constant(difference, p float64, of pairs) {
	if c.Verdict = NotShown; !isZero(difference, of.treatment[0], of.baseline[0]) {
		c.P = &p
	}
}

// treatment estimates every metric of t over its valid trials.
func (run *Run) treatment(t plan.Treatment, trials []figures.Measured) Treatment {
	out := Treatment{ID: t.ID, Factors: t.Factors, Control: t.Control, Reference: t.Reference, Baseline: t.Baseline, N: len(trials), Metrics: map[string]Estimate{}, Warnings: []figures.Warning{}}
	for _, p := range run.Plan.Trials {
		if p.Treatment == t.ID {
			out.Planned++
		}
	}
	for _, m := range metric.Known(metricsOf(trials)...) {
		out.Metrics[m.Name] = run.estimator.estimate(m, valuesOf(trials, m.Name), trials)
	}
	out.Roles = run.estimator.roles(trials)
	out.Sidecars = sidecars(run, t.ID)
	var all figures.Tally
	for _, trial := range trials {
		for _, w := range trial.Warnings {
			if len(w.Metrics) == 0 {
				all.Add(trial.ID, w)
			}
		}
	}
	out.Warnings = append(out.Warnings, all.Warnings()...)
	if out.N < stats.MinN {
		out.Warnings = append(out.Warnings, fewTrials(t.ID, out.N))
	}
	return out
}

func (x *estimator) estimate(m metric.Metric, values []float64, trials []figures.Measured) Estimate {
	if x.method == AsPublished {
		e := estimatePublished(m, values)
		e.Warnings = append(e.Warnings, metricWarnings(trials, m.Name)...)
		return e
	}
	r := stats.MeanInterval(values, x.confidence)
	e := Estimate{Interval: widened(r.Interval, limitOf(trials, m.Name)), Unit: m.Unit, N: r.N, SD: number(r.SD), CV: number(stats.CV(values))}
	e.Warnings = metricWarnings(trials, m.Name)
	if w, ok := absent(r.Why, r.N, "trial"); ok {
		e.Warnings = append(e.Warnings, w)
	}
	if lost := len(trials) - len(values); lost > 0 {
		e.Warnings = append(e.Warnings, figures.Warning{Code: "unknown-in-trials", Trials: lost,
			Message: fmt.Sprintf("unknown in %d of %s, and estimated from the others", lost, printable.Counted(len(trials), "valid trial")),
			Hint:    "see the warnings of these trials"})
	}
	return e
}

// number is v, or nil if it is none.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

const MoreBlocks = "raise blocks in the experiment file (start with 6), or fix the cause of failed trials"

func fewTrials(treatment string, n int) figures.Warning {
	return figures.Warning{Code: "few-trials", Message: fmt.Sprintf("treatment %s has %s, and an interval needs %d", treatment, printable.Counted(n, "valid trial"), stats.MinN),
		Hint: MoreBlocks}
}

// metricWarnings are the trials' own warnings about one metric.
func metricWarnings(trials []figures.Measured, name string) []figures.Warning {
	var t figures.Tally
	for _, trial := range trials {
		for _, w := range trial.Warnings {
			if figures.Concerns(w, name) {
				t.Add(trial.ID, w)
			}
		}
	}
	return t.Warnings()
}

// rounding bounds the rounding of a figure, as a share of it: double precision has 1e-16, and figures are sums of hundreds.
const rounding = 1e-13

func metricsOf(trials []figures.Measured) []map[string]float64 {
	all := make([]map[string]float64, len(trials))
	for i := range trials {
		all[i] = trials[i].Metrics
	}
	return all
}

// absent is the warning for an interval that cannot be computed.
func absent(why stats.Why, n int, of string) (figures.Warning, bool) {
	switch why {
	case stats.Computed:
		return figures.Warning{}, false
	case stats.TooFew:
		return figures.Warning{Code: "few-trials", Message: fmt.Sprintf("no interval: %s, and it needs %d", printable.Counted(n, of), stats.MinN),
			Hint: MoreBlocks}, true
	case stats.NoSpread:
		return figures.Warning{Code: "no-spread", Message: fmt.Sprintf("no interval: all %s agree to the last digit", printable.Counted(n, of)),
			Hint: "the reading is coarser than what it measures; more trials will not help"}, true
	case stats.NotPositive:
		return figures.Warning{Code: "ratio-undefined", Message: "no ratio: a value is zero or below", Hint: "read the difference"}, true
	}
	return figures.Warning{Code: "no-interval", Message: "no interval: " + string(why)}, true
}

// isZero reports whether a difference of two values is zero but for rounding.
func isZero(difference, a, b float64) bool {
	return math.Abs(difference) <= 1e-9*math.Max(math.Abs(a), math.Abs(b))
}

func verdict(shown bool, difference float64) Verdict {
	switch {
	case !shown:
		return NotShown
	case difference > 0:
		return Higher
	}
	return Lower
}

func floor(c *Comparison) Floor {
	return Floor{
		Treatment: c.Treatment, Factors: c.Factors, Metric: c.Metric, Unit: c.Unit, Difference: c.Difference, Ratio: c.Ratio,
		Detectable: c.Detectable, Smallest: c.Smallest, N: c.N, P: c.P, PAdjusted: c.PAdjusted, Family: c.Family, Verdict: c.Verdict, Warnings: c.Warnings,
	}
}

func valuesOf(trials []figures.Measured, name string) []float64 {
	values := make([]float64, 0, len(trials))
	for i := range trials {
		if v, ok := trials[i].Metrics[name]; ok {
			values = append(values, v)
		}
	}
	return values
}
