package compare

import (
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// Treatments are the estimates of every treatment over its valid trials.
func (run *Run) Treatments() []Treatment {
	byTreatment := run.validByTreatment()
	return lists.Map(run.Plan.Treatments, func(t plan.Treatment) Treatment { return run.treatment(t, byTreatment[t.ID]) })
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
	inBaseline, warned, baseWarned := metric.Names(metricsOf(baseTrials)...), warnedOf(trials), warnedOf(baseTrials)
	for _, m := range metric.Known(metricsOf(trials)...) {
		if !inBaseline[m.Name] {
			continue
		}
		c := compared{Comparison: Comparison{
			Treatment: t.ID, Factors: t.Factors, Baseline: base.ID, Against: base.Factors, Control: t.Control,
			Metric: m.Name, Unit: m.Unit, Family: familyOf(m, t.Control),
			Warnings: figures.UnionWarnings(warned.about(m.Name), baseWarned.about(m.Name)),
		}}
		switch {
		case x.method != Unpaired:
			x.fill(&c, x.pairs(m.Name, treatment, baseline))
			c.withinBounds(x, treatment, baseline)
		case slices.ContainsFunc(metric.Boundaries(), func(p metric.Part) bool { return m.Name == metric.Of(metric.CPUCores, p.Name) }):
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
	ratio = x.position(c, p, ratio)
	x.atMeanSpeed(c, p)
	x.judge(c, ratio)
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
	warned := warnedOf(trials)
	for _, m := range metric.Known(metricsOf(trials)...) {
		out.Metrics[m.Name] = run.estimator.estimate(m, valuesOf(trials, m.Name), trials, warned)
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
		out.Warnings = append(out.Warnings, figures.Warning{Code: "few-trials", Message: fmt.Sprintf("treatment %s has %s, and an interval needs %d", t.ID, printable.Counted(out.N, "valid trial"), stats.MinN),
			Hint: MoreBlocks})
	}
	return out
}

func (x *estimator) estimate(m metric.Metric, values []float64, trials []figures.Measured, warned warnings) Estimate {
	if x.method == AsPublished {
		// The plain mean over runs, as plotted.
		return Estimate{Interval: stats.Interval{Estimate: stats.Mean(values)}, Unit: m.Unit, N: len(values), SD: number(stats.SD(values)), CV: number(stats.CV(values)), Warnings: warned.about(m.Name)}
	}
	r := stats.MeanInterval(values, x.confidence)
	e := Estimate{Interval: widened(r.Interval, limitOf(trials, m.Name)), Unit: m.Unit, N: r.N, SD: number(r.SD), CV: number(stats.CV(values))}
	e.Warnings = warned.about(m.Name)
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

// warnings are the trials' own warnings about metrics, by the full or base name that they have.
type warnings map[string][]trialWarning

type trialWarning struct {
	*figures.Warning
	trial string
	place int // among the warnings of all trials
}

func warnedOf(trials []figures.Measured) warnings {
	all, place := warnings{}, 0
	for i := range trials {
		for j := range trials[i].Warnings {
			w := trialWarning{&trials[i].Warnings[j], trials[i].ID, place}
			for _, name := range w.Metrics {
				all[name] = append(all[name], w)
			}
			place++
		}
	}
	return all
}

// about are the warnings about one metric.
func (all warnings) about(name string) []figures.Warning {
	found := all[name]
	if base := metric.Base(name); base != name && len(all[base]) > 0 {
		found = slices.Concat(found, all[base])
		slices.SortStableFunc(found, func(a, b trialWarning) int { return a.place - b.place })
	}
	var t figures.Tally // counts one of a trial that has both names once
	for _, w := range found {
		t.Add(w.trial, *w.Warning)
	}
	return t.Warnings()
}

// rounding bounds the rounding of a figure, as a share of it: double precision has 1e-16, and figures are sums of hundreds.
const rounding = 1e-13

func metricsOf(trials []figures.Measured) []map[string]float64 {
	return lists.Map(trials, func(t figures.Measured) map[string]float64 { return t.Metrics })
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

func valuesOf(trials []figures.Measured, name string) []float64 {
	values := make([]float64, 0, len(trials))
	for i := range trials {
		if v, ok := trials[i].Metrics[name]; ok {
			values = append(values, v)
		}
	}
	return values
}

// Comparisons are the comparisons of a run, with their families.
type Comparisons struct {
	Families  map[Family]int // number of tests
	all       []compared
	questions []asked
}

// Compare compares every treatment with its baseline.
func (run *Run) Compare() *Comparisons {
	byTreatment := run.validByTreatment()
	planned := run.Plan.ByID()
	parts := make([][]compared, len(run.Plan.Treatments))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, t := range run.Plan.Treatments {
		if t.Baseline == "" || run.estimator.method == AsPublished {
			continue
		}
		base := planned[t.Baseline]
		group.Go(routine.Guarded(func() error {
			parts[i] = run.estimator.compare(t, base, byTreatment[t.ID], byTreatment[base.ID])
			return nil
		}))
	}
	_ = group.Wait() // none of them can fail
	c := &Comparisons{all: slices.Concat(parts...)}
	c.questions = run.questions(c.all, byTreatment)
	c.Families = run.estimator.adjust(c.all, c.questions)
	limit(c.all, c.questions, byTreatment)
	return c
}

// All are the comparisons, in the order of the plan and of the table of metrics.
func (c *Comparisons) All() []Comparison { return comparisonsOf(c.all) }

// Questions are families of their own, in the order of the treatments.
func (c *Comparisons) Questions() []Question {
	var all []Question
	for _, q := range c.questions {
		for _, p := range q.pooled {
			q.Pooled = append(q.Pooled, p.Pooled)
		}
		all = append(all, q.Question)
	}
	return all
}

// Floor has the comparisons of the A/A pairs.
func (c *Comparisons) Floor() []Floor {
	all := []Floor{}
	for i := range c.all {
		if c := &c.all[i]; c.Control {
			all = append(all, Floor{
				Treatment: c.Treatment, Factors: c.Factors, Metric: c.Metric, Unit: c.Unit, Difference: c.Difference, Ratio: c.Ratio,
				Detectable: c.Detectable, Smallest: c.Smallest, N: c.N, P: c.P, PAdjusted: c.PAdjusted, Family: c.Family, Verdict: c.Verdict, Warnings: c.Warnings,
			})
		}
	}
	return all
}

// Diagnoses warn of pairs that depend on one another, of an effect that changes during the run, and of outliers.
func (c *Comparisons) Diagnoses() []figures.Warning { return diagnoses(c.all) }

// comparisonsOf returns the comparisons without the values that they rest on.
func comparisonsOf(cs []compared) []Comparison {
	all := make([]Comparison, len(cs))
	for i := range cs {
		all[i] = cs[i].Comparison
	}
	return all
}

// unpaired puts Welch's comparison of two treatments' trials into c.
func (x *estimator) unpaired(c *compared, trials, baseTrials []figures.Measured) {
	t, b := valuesOf(trials, c.Metric), valuesOf(baseTrials, c.Metric)
	c.Verdict = Insufficient
	d := stats.Welch(t, b, x.confidence)
	if c.N = d.N; d.Known() {
		if v, ok := stats.WelchDetectable(t, b, x.alpha(), stats.Power); ok {
			c.Detectable = &v
		}
	}
	ratio := stats.WelchRatio(t, b, x.confidence)
	c.put(d, ratio, "trial of each", stats.ExactApart(len(t), len(b)), pairs{treatment: t, baseline: b})
	x.judge(c, ratio)
}

// Boundary is the family of the comparisons of CPU cores at the boundaries of
// [metric.Boundaries].
const Boundary Family = "boundary"

// Equivalence is the test whether treatment and baseline are the same to
// within a margin, which "no difference shown" does not imply.
type Equivalence struct {
	Margin float64 `json:"margin"` // of the ratio, 0..1
	// P of two one-sided tests, not adjusted. It is absent if every trial agrees to the last digit.
	P      *float64 `json:"p,omitempty"`
	Within bool     `json:"within"`
}

// judge takes the verdict of latencies from their ratio, and tests whether both
// sides are the same to within the margin.
func (x *estimator) judge(c *compared, ratio stats.Result) {
	if m, _ := metric.Lookup(c.Metric); m.Judged == metric.ByRatio && ratio.P != nil {
		c.P, c.OnRatio, c.test = ratio.P, true, ratio
	}
	if x.margin <= 0 {
		return
	}
	if p, ok := ratio.Within(x.margin); ok {
		c.Equivalence = &Equivalence{Margin: x.margin, P: &p, Within: p < x.alpha()}
	} else if ratio.Why == stats.NoSpread {
		c.Equivalence = &Equivalence{Margin: x.margin, Within: math.Abs(math.Log(ratio.Estimate)) <= math.Log1p(x.margin)}
	}
	c.same()
}

// same changes the verdict [NotShown] to [Same] if the ratio is within the margin.
func (c *compared) same() {
	if c.Verdict == NotShown && c.Equivalence != nil && c.Equivalence.Within {
		c.Verdict = Same
	}
}

// direction is the basis of the verdict: above zero if the treatment is higher.
func (c *compared) direction() float64 {
	if c.OnRatio && c.Ratio != nil {
		return c.Ratio.Estimate - 1
	}
	return c.Difference.Estimate
}

// Judged is the comparison with the interval that its verdict rests on, of the difference or of the ratio. An undecided
// comparison whose own interval excludes no difference has the wider one of all comparisons together. The other interval is
// absent where it contradicts the verdict.
func (c Comparison) Judged(confidence float64) Comparison {
	if c.Verdict == Insufficient || c.P == nil || c.PAdjusted == nil {
		return c
	}
	shown := c.Verdict == Higher || c.Verdict == Lower
	level := (1 - confidence) * *c.P / max(*c.PAdjusted, math.SmallestNonzeroFloat64)
	switch {
	case shown:
	case c.OnRatio && c.Ratio != nil && c.Ratio.Excludes(1) && *c.Ratio.Low > 0:
		c.Ratio = new(stats.AtLevel(c.Ratio.Map(math.Log), 0, *c.P, level, c.N).Map(math.Exp))
	case !c.OnRatio && c.Difference != nil && c.Difference.Excludes(0):
		c.Difference = new(stats.AtLevel(*c.Difference, 0, *c.P, level, c.N))
	}
	c.Difference, c.Ratio = agreeing(c.Difference, 0, shown), agreeing(c.Ratio, 1, shown)
	return c
}

// Judged is the mean over levels with the interval that its verdict rests on.
func (p Pooled) Judged(confidence float64) Pooled {
	c := Comparison{Difference: p.Difference, Ratio: p.Ratio, N: p.N, P: p.P, PAdjusted: p.PAdjusted, OnRatio: p.OnRatio, Verdict: p.Verdict}.Judged(confidence)
	p.Difference, p.Ratio = c.Difference, c.Ratio
	return p
}

// agreeing is i, without its ends if they contradict a verdict.
func agreeing(i *stats.Interval, none float64, shown bool) *stats.Interval {
	if i == nil || !i.Known() || i.Excludes(none) == shown {
		return i
	}
	return &stats.Interval{Estimate: i.Estimate}
}

// diagnosisLevel is the chance of a diagnosis of each kind in a run without any fault.
const diagnosisLevel = 0.05

// diagnosed are the headline comparisons of one treatment.
type diagnosed struct {
	treatment string
	order     stats.Order
}

// diagnoses warn of pairs that depend on one another, of an effect that changes during the
// run, and of outliers. It examines ratios in their order: a machine that becomes slower
// changes the difference, and not the ratio.
func diagnoses(cs []compared) []figures.Warning {
	var all []diagnosed
	for _, treatment := range lists.Add(nil, lists.Map(cs, func(c compared) string { return c.Treatment })...) {
		var series [][]float64
		for _, c := range cs {
			if c.Treatment == treatment && c.diagnosable() && len(c.logs) > 0 && (series == nil || len(c.logs) == len(series[0])) {
				series = append(series, c.logs)
			}
		}
		if o, ok := stats.InOrder(series); ok {
			all = append(all, diagnosed{treatment, o})
		}
	}
	var ws []figures.Warning
	lags, trends := make([]float64, len(all)), make([]float64, len(all))
	for i, d := range all {
		lags[i], trends[i] = d.order.Lag1P, d.order.TrendP
	}
	lags, trends = stats.Holm(lags), stats.Holm(trends)
	var dependent, drifting []string
	for i, d := range all {
		switch {
		case trends[i] < diagnosisLevel: // a trend is autocorrelation too
			drifting = append(drifting, fmt.Sprintf("%s (correlation %.2f, p %.2g)", d.treatment, d.order.Trend, d.order.TrendP))
		case lags[i] < diagnosisLevel:
			dependent = append(dependent, fmt.Sprintf("%s (autocorrelation %.2f, p %.2g)", d.treatment, d.order.Lag1, d.order.Lag1P))
		}
	}
	if drifting != nil {
		ws = append(ws, figures.Warning{Code: driftCode, Message: "ratios to the baseline change over the run: " + printable.Listed(drifting, 4),
			Hint: "the mean is that of several effects: find the cause that changes with time, and run again"})
	}
	if dependent != nil {
		ws = append(ws, figures.Warning{Code: "pairs-dependent", Message: "ratios to the baseline depend on the block before: " + printable.Listed(dependent, 4),
			Hint: "intervals of dependent blocks are too narrow: find what lasts from block to block, and run more blocks"})
	}
	return append(ws, outliers(cs)...)
}

// outliers warn of blocks far from all others.
func outliers(cs []compared) []figures.Warning {
	type outlier struct {
		c          *compared
		block      int
		deviations float64
	}
	var found []outlier
	var p []float64
	for i := range cs {
		c := &cs[i]
		if !c.diagnosable() {
			continue
		}
		if at, deviations, chance, ok := stats.Outlier(c.values); ok {
			found, p = append(found, outlier{c, c.blocks[at], deviations}), append(p, chance)
		}
	}
	var list, metrics []string
	named := map[string]bool{} // a block's metrics share their CPU
	for i, v := range stats.Holm(p) {
		if v >= diagnosisLevel {
			continue
		}
		f := found[i]
		if block := fmt.Sprintf("block %d of %s", f.block, f.c.Treatment); !named[block] {
			named[block] = true
			m, _ := metric.Lookup(f.c.Metric)
			list = append(list, fmt.Sprintf("%s (%s, %+.1f standard deviations)", block, m.Title(), f.deviations))
		}
		metrics = lists.Add(metrics, f.c.Metric)
	}
	if list == nil {
		return nil
	}
	return []figures.Warning{{Code: "outlier-block", Metrics: metrics, Message: "a block differs from all others: " + printable.Listed(list, 3),
		Hint: "rare outliers in one direction make intervals too narrow: read the events of its trials, and run more blocks"}}
}

// diagnosable reports whether c is a headline metric with continuous noise: counts and
// memory are equal in most blocks, and one that differs would look like an outlier.
func (c *compared) diagnosable() bool {
	m, _ := metric.Lookup(c.Metric)
	return (c.Family == Headline || c.Family == HeadlineAA) && m.SpeedSensitive
}

// Verdict is the result of a comparison in words.
type Verdict string

const (
	Higher       Verdict = "higher"
	Lower        Verdict = "lower"
	NotShown     Verdict = "no difference shown" // which is not the same as none
	Same         Verdict = "same"                // shown to be within the margin that was asked for
	Insufficient Verdict = "insufficient"        // too few pairs
)

// Method is the way in which treatments are compared.
type Method string

const Paired Method = "paired" // differences within blocks

// Estimate is a metric of a treatment: the mean over its valid trials, with
// Student's interval over them.
type Estimate struct {
	stats.Interval
	Unit     string            `json:"unit"`
	N        int               `json:"n"`
	SD       *float64          `json:"sd,omitempty"` // over trials
	CV       *float64          `json:"cv,omitempty"` // SD over mean
	Warnings []figures.Warning `json:"warnings"`
}

// Treatment is one combination of factor levels.
type Treatment struct {
	ID        string              `json:"id"`
	Factors   plan.Factors        `json:"factors"`
	Control   bool                `json:"control,omitempty"`
	Reference bool                `json:"reference,omitempty"` // the standard weight
	Baseline  string              `json:"baseline,omitempty"`  // ID of what it is compared with, absent for a baseline
	N         int                 `json:"n"`                   // valid trials
	Planned   int                 `json:"planned"`
	Metrics   map[string]Estimate `json:"metrics"`
	Roles     []Role              `json:"roles,omitempty"` // of data and control plane, where they have several
	// Sidecars is the number of sidecars, absent if the data plane has other proxies or none.
	Sidecars int               `json:"sidecars,omitempty"`
	Warnings []figures.Warning `json:"warnings"`
}

// Comparison is one metric of a treatment: within a run against its baseline, or in a new run against earlier runs.
type Comparison struct {
	Treatment string       `json:"treatment"`
	Factors   plan.Factors `json:"factors"`
	// Baseline and Against are absent between runs.
	Baseline string       `json:"baseline,omitempty"`
	Against  plan.Factors `json:"against,omitempty"`
	// Control marks the A/A pair: both sides are the baseline, and any difference is noise.
	Control bool   `json:"control,omitempty"`
	Metric  string `json:"metric"`
	Unit    string `json:"unit"`
	*Runs          // nil within a run
	// Difference is treatment minus baseline, or new minus base. It is absent if no block or run has both, or with
	// ratios only. Ratio is treatment over baseline, absent if a value is not above zero.
	Difference *stats.Interval `json:"difference,omitempty"`
	Ratio      *stats.Interval `json:"ratio,omitempty"`
	N          int             `json:"n"`                    // complete pairs; between runs the trials of the run that has fewer, or the base runs
	PairsLost  int             `json:"pairs_lost,omitempty"` // blocks in which a side failed, was invalid or is unknown
	P          *float64        `json:"p,omitempty"`          // two-sided, of the difference
	// OnRatio: P is of the ratio instead, as for latencies.
	OnRatio   bool     `json:"on_ratio,omitempty"`
	PAdjusted *float64 `json:"p_adjusted,omitempty"` // Holm, within Family
	// Equivalence is present if a margin was given and the ratio is defined.
	Equivalence *Equivalence `json:"equivalence,omitempty"`
	Family      Family       `json:"family"`
	// Question that the test belongs to, by [Question.ID]. Absent means the family of the run.
	Question string `json:"question,omitempty"`
	// Detectable is the true difference that these pairs would show with 80 % power, if
	// this were the only comparison. Smallest has the level that applied. Detectable is an approximation, 5 % too low
	// with three pairs ([stats.MinDetectable]), and Smallest is exact.
	Detectable *float64  `json:"detectable,omitempty"`
	Smallest   *Smallest `json:"smallest,omitempty"`
	// BlocksNeeded is the number of blocks that would show this difference, with this
	// spread, at the level that applied. Present if the difference would be shown by itself.
	BlocksNeeded int `json:"blocks_needed,omitempty"`
	// Position is present if the positions in the block narrowed Difference or Ratio.
	Position *Positioned `json:"position,omitempty"`
	// Speed is present if the machine's speed in the blocks narrowed Difference.
	Speed *SpeedAdjusted `json:"speed,omitempty"`
	// Limit is the part of the intervals that is not of their spread: work that may be missing in the treatments' CPU, or
	// too much in it.
	Limit    *figures.Limit    `json:"limit,omitempty"`
	Verdict  Verdict           `json:"verdict"`
	Warnings []figures.Warning `json:"warnings"`
}

// Runs has the two sides of a comparison between runs.
type Runs struct {
	// Reference marks a treatment that others are compared with in its own run. It usually has
	// no mesh: if it changes, the machine or the application changed.
	Reference bool     `json:"reference,omitempty"`
	Base      *float64 `json:"base,omitempty"` // mean over valid trials, or over the means of several runs
	New       *float64 `json:"new,omitempty"`
	// BaseRuns is the number of base runs that have the metric, and BetweenRuns the standard deviation of their means.
	BaseRuns    int      `json:"base_runs,omitempty"`
	BetweenRuns *float64 `json:"between_runs,omitempty"`
	NBase       int      `json:"n_base"` // trials
	NNew        int      `json:"n_new"`
	// BaseGrowth and NewGrowth are the growth of memory that was still growing at the end, MiB a minute.
	BaseGrowth *stats.Interval `json:"base_growth_mib_per_minute,omitempty"`
	NewGrowth  *stats.Interval `json:"new_growth_mib_per_minute,omitempty"`
	// Warm is the comparison of the trials in which programs were warm, absent if they were in all.
	Warm *Comparison `json:"warm,omitempty"`
}

// compared is a comparison with the values that it rests on.
type compared struct {
	Comparison
	test   stats.Result // of the verdict: the difference, or the ratio
	values []float64    // differences, or logarithms of ratios, by block
	logs   []float64    // logarithms of ratios, by block, empty if not positive
	blocks []int        // of values
}

// Smallest is the smallest true difference that a comparison would show four times in
// five, at the level that Holm's step-down applied to it. The interval follows the
// interval of the standard deviation.
type Smallest struct {
	stats.Interval
	// Relative: a ratio less one, where the verdict rests on the ratio.
	Relative bool    `json:"relative,omitempty"`
	Level    float64 `json:"level"`
}

// Floor is the result of an A/A pair for one metric: the difference of two
// identical treatments, and the smallest true difference a comparison as noisy
// as this one would show with 80 % power.
type Floor struct {
	Treatment  string            `json:"treatment"` // the control
	Factors    plan.Factors      `json:"factors"`
	Metric     string            `json:"metric"`
	Unit       string            `json:"unit"`
	Difference *stats.Interval   `json:"difference,omitempty"`
	Ratio      *stats.Interval   `json:"ratio,omitempty"`
	Detectable *float64          `json:"detectable,omitempty"`
	Smallest   *Smallest         `json:"smallest,omitempty"`
	N          int               `json:"n"`
	P          *float64          `json:"p,omitempty"`
	PAdjusted  *float64          `json:"p_adjusted,omitempty"`
	Family     Family            `json:"family"`
	Verdict    Verdict           `json:"verdict"`
	Warnings   []figures.Warning `json:"warnings"`
}

// Family is a set of tests adjusted together: the chance of any false claim in
// it is at most one minus the confidence.
//
// The headline metrics of all treatments against their baselines are one family, fixed before the run: a report's first lines
// name the treatments that differ. See [Question] for treatments that are levels of one change.
// About eighty others repeat them (cores for CPU per request, mesh for data plane,
// five quantiles of two latencies) and are a second family. In one family with them,
// four blocks would have almost no power, and an A/A pair that differs by a third
// would pass for equal. A/A pairs have two separate families of the same kind, since
// they make no claim.
type Family string

const (
	Headline   Family = "headline"
	Others     Family = "others"
	HeadlineAA Family = "a/a headline"
	OthersAA   Family = "a/a others"
)

func familyOf(m metric.Metric, control bool) Family {
	switch {
	case m.Headline && control:
		return HeadlineAA
	case m.Headline:
		return Headline
	case control:
		return OthersAA
	}
	return Others
}
