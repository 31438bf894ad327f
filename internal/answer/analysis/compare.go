package analysis

import (
	"fmt"
	"math"

	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
)

// treatment estimates every metric of t over its valid trials.
func (a *analysis) treatment(t plan.Treatment, trials []Trial) Treatment {
	out := Treatment{ID: t.ID, Factors: t.Factors, Control: t.Control, Baseline: t.Baseline, N: len(trials), Metrics: map[string]Estimate{}, Warnings: []Warning{}}
	for _, p := range a.plan.Trials {
		if p.Treatment == t.ID {
			out.Planned++
		}
	}
	for _, m := range metric.All() {
		values := make([]float64, 0, len(trials))
		for i := range trials {
			if v, ok := trials[i].Metrics[m.Name]; ok {
				values = append(values, v)
			}
		}
		if len(values) == 0 {
			continue
		}
		out.Metrics[m.Name] = a.estimate(m, values, trials)
	}
	out.Roles = a.roles(trials)
	var all tally
	for _, trial := range trials {
		for _, w := range trial.Warnings {
			if len(w.Metrics) == 0 {
				all.add(trial.ID, w)
			}
		}
	}
	out.Warnings = append(out.Warnings, all.warnings()...)
	if out.N < stats.MinN {
		out.Warnings = append(out.Warnings, fewTrials(t.ID, out.N))
	}
	return out
}

func (x *estimator) estimate(m metric.Metric, values []float64, trials []Trial) Estimate {
	if x.method == AsPublished {
		e := estimatePublished(m, values)
		e.Warnings = append(e.Warnings, metricWarnings(trials, m.Name)...)
		return e
	}
	r := stats.MeanInterval(values, x.confidence)
	e := Estimate{Interval: r.Interval, Unit: m.Unit, N: r.N, SD: number(r.SD), CV: number(stats.CV(values))}
	e.Warnings = metricWarnings(trials, m.Name)
	if w, ok := absent(r.Why, r.N, "trials"); ok {
		e.Warnings = append(e.Warnings, w)
	}
	if lost := len(trials) - len(values); lost > 0 {
		e.Warnings = append(e.Warnings, Warning{Code: "unknown-in-trials", Trials: lost,
			Message: fmt.Sprintf("unknown in %d of %d valid trials, and estimated from the others", lost, len(trials)),
			Hint:    "see the warnings of these trials"})
	}
	return e
}

// metricWarnings are the trials' own warnings about one metric.
func metricWarnings(trials []Trial, name string) []Warning {
	var t tally
	for _, trial := range trials {
		for _, w := range trial.Warnings {
			if concerns(w, name) {
				t.add(trial.ID, w)
			}
		}
	}
	return t.warnings()
}

// number is v, or nil if it is none.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

const moreBlocks = "raise blocks in the experiment file (start with 6), or fix the cause of failed trials"

func fewTrials(treatment string, n int) Warning {
	return Warning{Code: "few-trials", Message: fmt.Sprintf("treatment %s has %d valid trials, and an interval needs %d", treatment, n, stats.MinN),
		Hint: moreBlocks}
}

// absent is the warning for an interval that cannot be computed.
func absent(why stats.Why, n int, of string) (Warning, bool) {
	switch why {
	case stats.Given:
		return Warning{}, false
	case stats.TooFew:
		return Warning{Code: "few-trials", Message: fmt.Sprintf("no interval: %d %s, and it needs %d", n, of, stats.MinN),
			Hint: moreBlocks}, true
	case stats.NoSpread:
		return Warning{Code: "no-spread", Message: fmt.Sprintf("no interval: all %d %s agree to the last digit", n, of),
			Hint: "the reading is coarser than what it measures; more trials will not help"}, true
	case stats.NotPositive:
		return Warning{Code: "ratio-undefined", Message: "no ratio: a value is zero or below", Hint: "read the difference"}, true
	}
	return Warning{Code: "no-interval", Message: "no interval: " + string(why)}, true
}

// pairs are the values of two treatments in the blocks in which both are known.
type pairs struct {
	treatment, baseline []float64
	lost                int // blocks in which only one of them is, or none
}

func (x *estimator) pairs(name string, treatment, baseline map[int]Trial) pairs {
	var p pairs
	for block := 1; block <= x.blocks; block++ {
		t, ok1 := treatment[block].Metrics[name]
		b, ok2 := baseline[block].Metrics[name]
		if !ok1 || !ok2 {
			p.lost++
			continue
		}
		p.treatment, p.baseline = append(p.treatment, t), append(p.baseline, b)
	}
	return p
}

func byBlock(trials []Trial) map[int]Trial {
	by := make(map[int]Trial, len(trials))
	for _, t := range trials {
		by[t.Block] = t
	}
	return by
}

// compare is every metric of t against base known in at least one trial of both.
func (x *estimator) compare(t, base plan.Treatment, trials, baseTrials []Trial) []Comparison {
	var out []Comparison
	treatment, baseline := byBlock(trials), byBlock(baseTrials)
	for _, m := range metric.All() {
		if !known(trials, m.Name) || !known(baseTrials, m.Name) {
			continue
		}
		c := Comparison{
			Treatment: t.ID, Factors: t.Factors, Baseline: base.ID, Against: base.Factors, Control: t.Control,
			Metric: m.Name, Unit: m.Unit, Family: familyOf(m, t.Control),
			Warnings: union(metricWarnings(trials, m.Name), metricWarnings(baseTrials, m.Name)),
		}
		switch {
		case x.method != Unpaired:
			x.fill(&c, x.pairs(m.Name, treatment, baseline))
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

func known(trials []Trial, name string) bool {
	for i := range trials {
		if _, ok := trials[i].Metrics[name]; ok {
			return true
		}
	}
	return false
}

// fill puts the numbers into c; its verdict waits for the adjustment.
func (x *estimator) fill(c *Comparison, p pairs) {
	c.N, c.PairsLost, c.Verdict = len(p.treatment), p.lost, Insufficient
	if p.lost > 0 {
		c.Warnings = append(c.Warnings, Warning{Code: "pairs-lost", Message: fmt.Sprintf("%d of %d blocks have no pair: one side failed, was invalid or is unknown", p.lost, x.blocks),
			Hint: "tare run --resume runs trials that are not recorded; the trials' own warnings have the reasons of invalid trials"})
	}
	if c.N == 0 {
		c.Warnings = append(c.Warnings, Warning{Code: "few-trials", Message: "no block has both sides", Hint: "raise blocks, or fix the cause of invalid trials"})
		return
	}
	d := stats.PairedDifference(p.treatment, p.baseline, x.confidence)
	c.Difference, c.P = &d.Interval, d.P
	if v, ok := stats.MinDetectable(d.SD, d.N, x.alpha(), stats.Power); ok && d.Known() {
		c.Detectable = &v
	}
	if w, ok := absent(d.Why, d.N, "pairs"); ok {
		c.Warnings = append(c.Warnings, w)
	}
	ratio := stats.PairedRatio(p.treatment, p.baseline, x.confidence)
	if ratio.Why == stats.NotPositive {
		w, _ := absent(ratio.Why, ratio.N, "pairs")
		c.Warnings = append(c.Warnings, w)
	} else {
		c.Ratio = &ratio.Interval
	}
	if d.Why == stats.NoSpread {
		c.Verdict = constant(d.Estimate, p)
	}
	x.judge(c, ratio, func(m float64) (float64, bool) { return stats.PairedWithin(p.treatment, p.baseline, m) })
}

// constant is the verdict on equal differences. Without spread there is no
// interval, and no evidence against them.
func constant(difference float64, p pairs) Verdict {
	size := math.Max(math.Abs(p.treatment[0]), math.Abs(p.baseline[0]))
	switch {
	case math.Abs(difference) <= 1e-9*size:
		return NotShown
	case difference > 0:
		return Higher
	}
	return Lower
}

// adjust corrects the p-values for their number, in each family separately, and
// gives verdicts. It returns the sizes of the families.
func adjust(cs []Comparison, alpha float64) map[Family]int {
	sizes := map[Family]int{}
	for _, family := range []Family{Headline, Boundary, Others, HeadlineAA, OthersAA} {
		p := make([]float64, len(cs))
		for i, c := range cs {
			p[i] = math.NaN()
			if c.P != nil && c.Family == family {
				p[i] = *c.P
				sizes[family]++
			}
		}
		for i, v := range stats.Holm(p) {
			if math.IsNaN(v) {
				continue
			}
			cs[i].PAdjusted = &v
			cs[i].Verdict = verdict(v < alpha, cs[i].direction())
			cs[i].same()
		}
	}
	return sizes
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
		Detectable: c.Detectable, N: c.N, P: c.P, PAdjusted: c.PAdjusted, Family: c.Family, Verdict: c.Verdict, Warnings: c.Warnings,
	}
}
