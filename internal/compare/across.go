package compare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// AcrossSchema is the schema of an [Across] as JSON.
const AcrossSchema = "tare.compare/v1"

// AcrossOptions of [CompareRuns].
type AcrossOptions struct {
	Options
	// Anyway compares runs under different conditions, and keeps the obstacles in the result.
	Anyway bool
}

// Side is one of two compared runs.
type Side struct {
	Dir        string `json:"dir"`
	Experiment string `json:"experiment"`
	Setup      Setup  `json:"setup"`
	Count      Count  `json:"count"`
}

// Across is the change from earlier runs to a new one. Trials of two runs share no block, so they cannot be paired.
//
// With one base run, intervals are Welch's, over the trials of both. They cover the variation within the two runs.
// Any other change between them, such as another day, is part of the difference. With at least [stats.MinN] base
// runs the run is the unit, and intervals cover the variation from run to run as well.
type Across struct {
	Schema     string  `json:"schema"`
	Method     Method  `json:"method"` // always unpaired
	Confidence float64 `json:"confidence"`
	Base       Side    `json:"base"` // of several: the last that was given
	New        Side    `json:"new"`
	// BaseRuns are the base runs if there are several. Base values are then means over them.
	BaseRuns []Side `json:"base_runs,omitempty"`
	// Obstacles are reasons not to compare the two, empty unless the options insist.
	Obstacles []Distinction `json:"obstacles"`
	// Distinctions are differences that may be the subject of the comparison: versions, the number of blocks.
	Distinctions []Distinction     `json:"distinctions"`
	OnlyBase     []string          `json:"only_base"` // treatments without a partner
	OnlyNew      []string          `json:"only_new"`
	Families     map[Family]int    `json:"families"`
	Changes      []Comparison      `json:"changes"`
	Gates        []GateCheck       `json:"gates"`
	Warnings     []figures.Warning `json:"warnings"`
	// History has the change points of the series of all runs, nil of fewer than [MinHistory].
	History *History `json:"history,omitempty"`

	runs []earlier // the base runs, and the new one last
	// matched are the IDs in each of the runs of the treatments that equal one of the last base run, by its ID there.
	matched map[string][]string
}

// earlier is one of the base runs.
type earlier struct {
	dir *result.Dir
	run *Run
}

// CompareRuns computes the changes from the base runs to next. It refuses runs with other
// differences with an error, unless Anyway is set.
func CompareRuns(bases []*result.Dir, next *result.Dir, o AcrossOptions) (*Across, error) {
	n, err := Read(next, o.Options)
	if err != nil {
		return nil, err
	}
	a := &Across{
		Schema: AcrossSchema, Method: Unpaired, Confidence: n.Confidence(), New: sideOf(next, n),
		Obstacles: []Distinction{}, Distinctions: []Distinction{},
		OnlyBase: []string{}, OnlyNew: []string{}, Gates: []GateCheck{}, Warnings: []figures.Warning{}, matched: map[string][]string{},
	}
	var runs []earlier
	for _, base := range bases {
		b, err := Read(base, o.Options)
		if err != nil {
			return nil, err
		}
		obstacles, distinctions, err := ConditionsOf(base).distinguish(ConditionsOf(next))
		if err != nil {
			return nil, err
		}
		obstacles = append(obstacles, loadObstacles(obstacles, b.Setup(), n.Setup())...)
		if len(obstacles) > 0 && !o.Anyway {
			return nil, notComparable(base.Path(), next.Path(), obstacles)
		}
		a.Obstacles, a.Distinctions = lists.Add(a.Obstacles, obstacles...), lists.Add(a.Distinctions, distinctions...)
		a.Confidence = math.Min(a.Confidence, b.Confidence())
		a.Base = sideOf(base, b)
		a.BaseRuns = append(a.BaseRuns, a.Base)
		runs = append(runs, earlier{base, b})
	}
	a.runs = append(slices.Clone(runs), earlier{next, n})
	if len(runs) == 1 {
		a.BaseRuns = nil
	} else if err := distinct(a.runs); err != nil {
		return nil, err
	}
	if o.Confidence > 0 {
		a.Confidence = o.Confidence
	}
	x := estimator{confidence: a.Confidence}
	cs := a.match(&x)
	a.Families, a.Changes = x.adjust(cs, nil), comparisonsOf(cs)
	a.markGrowth()
	for _, side := range []struct {
		dir  string
		only []string
	}{{a.Base.Dir, a.OnlyBase}, {next.Path(), a.OnlyNew}} {
		if len(a.Changes) == 0 && len(side.only) == 0 {
			return nil, hint.New("`tare report "+side.dir+"` has the reasons", "%s has no valid trial to compare", side.dir)
		}
	}
	if len(a.Changes) == 0 {
		return nil, hint.New("treatments are the same if every factor has the same level: run both from one experiment file",
			"the two runs have no treatment in common: %s", differingFactors(runs[len(runs)-1].dir.Plan(), next.Plan()))
	}
	a.warn(runs, n)
	return a, nil
}

func sideOf(d *result.Dir, run *Run) Side {
	return Side{d.Path(), run.Name(), run.Setup(), run.Count()}
}

// distinct refuses a run that occurs twice, as itself or as a copy: it has no variation to itself.
func distinct(runs []earlier) error {
	seen := map[string]string{}
	for _, r := range runs {
		var figures strings.Builder
		measured := false
		for i := range r.run.Trials {
			measured = measured || len(r.run.Trials[i].Metrics) > 0
			fmt.Fprint(&figures, r.run.Trials[i].Metrics) // maps are printed in the order of their keys
		}
		if !measured {
			continue // nothing to recognise it by
		}
		if other, twice := seen[figures.String()]; twice {
			return hint.New("give each run once, and the new one last", "%s and %s contain the same run", other, r.dir.Path())
		}
		seen[figures.String()] = r.dir.Path()
	}
	return nil
}

// differingFactors lists the factors whose levels differ between two plans.
func differingFactors(base, next plan.Plan) string {
	x, y := levelsByFactor(base), levelsByFactor(next)
	var all []string
	for _, f := range slices.Sorted(maps.Keys(x)) {
		if !slices.Equal(x[f], y[f]) {
			all = append(all, fmt.Sprintf("%s is %s in one and %s in the other", f, printable.Listed(x[f], 4), cmp.Or(printable.Listed(y[f], 4), "absent")))
		}
	}
	for _, f := range slices.Sorted(maps.Keys(y)) {
		if x[f] == nil {
			all = append(all, fmt.Sprintf("%s is absent in one and %s in the other", f, printable.Listed(y[f], 4)))
		}
	}
	if all == nil {
		return "their factors agree, but not the combinations or the settings behind them"
	}
	return strings.Join(all, "; ")
}

// levelsByFactor lists the levels of each factor, sorted.
func levelsByFactor(p plan.Plan) map[string][]string {
	all := map[string][]string{}
	for _, t := range p.Treatments {
		for f, v := range t.Factors {
			if level := LevelText(v); f != plan.ControlFactor && !slices.Contains(all[f], level) {
				all[f] = append(all[f], level)
			}
		}
	}
	for _, levels := range all {
		slices.Sort(levels)
	}
	return all
}

// match pairs the treatments of all runs, and compares them.
func (a *Across) match(x *estimator) (cs []compared) {
	plans := lists.Map(a.runs, func(r earlier) plan.Plan { return r.dir.Plan() })
	key, n := keyOf(plans...), len(plans)-1
	ids, valid := make([]map[string]string, len(plans)), make([]map[string][]figures.Measured, len(plans)) // by key, by ID
	for i, p := range plans {
		ids[i], valid[i] = map[string]string{}, a.runs[i].run.validByTreatment()
		for _, t := range p.Treatments {
			ids[i][key(t)] = t.ID
		}
	}
	last := plans[n-1]
	references := map[string]bool{}
	for _, t := range last.Treatments {
		if !t.Control { // a mesh that is measured again is no reference
			references[t.Baseline] = true
		}
	}
	taken := map[string]bool{}
	for _, t := range last.Treatments {
		var of []string
		var trials [][]figures.Measured
		for i := range plans {
			id := ids[i][key(t)]
			of, trials = append(of, id), append(trials, valid[i][id])
		}
		if of[n] == "" {
			a.OnlyBase = append(a.OnlyBase, t.ID)
			continue
		}
		taken[of[n]], a.matched[t.ID] = true, of
		cs = append(cs, changes(x, t, references[t.ID], trials[:n:n], trials[n])...)
	}
	for _, t := range plans[n].Treatments {
		if !taken[t.ID] {
			a.OnlyNew = append(a.OnlyNew, t.ID)
		}
	}
	return cs
}

// warn adds the limits of the comparison.
func (a *Across) warn(runs []earlier, n *Run) {
	for _, d := range a.Obstacles {
		a.Warnings = append(a.Warnings, figures.Warning{Code: "not-comparable", Message: d.String(),
			Hint: "this may cause the difference: run both under the same conditions"})
	}
	var moved []string
	for _, c := range a.Changes {
		if (c.Reference || c.Control) && c.Family != Others && c.Family != OthersAA && (c.Verdict == Higher || c.Verdict == Lower) {
			moved = append(moved, c.Treatment+" "+c.Metric)
		}
	}
	if len(moved) > 0 {
		a.Warnings = append(a.Warnings, figures.Warning{Code: "baseline-moved",
			Message: "the baseline itself changed: " + printable.Listed(moved, 4),
			Hint:    "the machine or the application changed, which can also cause a change of that size in a mesh"})
	}
	if len(a.OnlyBase)+len(a.OnlyNew) > 0 {
		a.Warnings = append(a.Warnings, figures.Warning{Code: "without-partner",
			Message: fmt.Sprintf("not compared: %s", printable.Listed(append(slices.Clone(a.OnlyBase), a.OnlyNew...), 6)),
			Hint:    "they are in one of the two runs only"})
	}
	name := func(r earlier) string {
		if len(runs) > 1 {
			return "base run " + r.dir.Path()
		}
		return "base run"
	}
	for _, r := range runs {
		a.warnOf(name(r), r.run)
	}
	a.warnOf("new run", n)
	if !slices.ContainsFunc(a.Changes, func(c Comparison) bool { return c.Base == nil || c.New == nil || *c.Base != *c.New }) {
		a.Warnings = append(a.Warnings, figures.Warning{Code: "same-run", Message: "every figure is the same to the last digit: both directories contain the same run", Hint: "give two runs"})
	}
}

// warnOf adds the limits of one of the runs.
func (a *Across) warnOf(name string, run *Run) {
	if c := run.Count(); c.Used < c.Planned {
		a.Warnings = append(a.Warnings, figures.Warning{Code: "trials-lost", Trials: c.Planned - c.Used,
			Message: fmt.Sprintf("of the %s %d of %s are used (%d invalid, %d failed, %d not recorded)", name, c.Used, printable.Counted(c.Planned, "trial"), c.Invalid, c.Failed, c.Missing),
			Hint:    "`tare report DIR` prints the reasons"})
	}
	for _, w := range figures.Distrusted(run.Trials) {
		w.Message = fmt.Sprintf("%s: %s", name, w.Message)
		a.Warnings = append(a.Warnings, w)
	}
}

// Gate judges the changes by gates. The error names a gate that no treatment or metric answers to.
func (a *Across) Gate(gates []Gate) error {
	var errs []error
	for _, g := range gates {
		n := len(a.Gates)
		for i := range a.Changes {
			if c := &a.Changes[i]; !c.Control && c.Metric == g.Metric && levelsAre(c.Factors, g.Where) {
				if check, ok := a.checkCounts(g, c); ok {
					a.Gates = append(a.Gates, check)
				} else {
					a.Gates = append(a.Gates, g.check(c))
				}
			}
		}
		if len(a.Gates) == n {
			errs = append(errs, a.noneFor(g))
		}
	}
	return errors.Join(errs...)
}

// checkCounts judges a change by the counts of all trials of its treatment, valid or not. They need no variation from run to
// run: requests fail for the same reasons on every day. Not ok if the metric is not a count in one of the runs.
func (a *Across) checkCounts(g Gate, c *Comparison) (out GateCheck, ok bool) {
	var both counts
	for i, r := range a.runs {
		known := false
		for j := range r.run.Records {
			record := &r.run.Records[j]
			events, counted := eventsOf(g.Metric, record)
			if record.Treatment != a.matched[c.Treatment][i] || !counted {
				continue
			}
			known = true
			if i < len(a.runs)-1 {
				both.baseline = append(both.baseline, events)
			} else {
				both.treatment = append(both.treatment, events)
			}
		}
		if !known {
			return out, false
		}
	}
	t, b := stats.Dispersed(both.treatment), stats.Dispersed(both.baseline)
	if g.Metric == metric.Rate && t.Scale != b.Scale {
		return out, false
	}
	out = GateCheck{Gate: g.Text, Treatment: c.Treatment, Factors: c.Factors, Metric: c.Metric, Limit: g.Limit, Unit: c.Unit, Upper: g.Upper, Why: both.words(g.Metric)}
	if g.Relative {
		out.Unit = "%"
	}
	change := g.changeOfCounts(t, b, (1-a.Confidence)/2)
	if out.Outcome = g.judgeBounds(change); !math.IsNaN(change.Estimate) && !math.IsInf(change.Estimate, 0) {
		out.Change = &change
	}
	return out, true
}

func (a *Across) noneFor(g Gate) error {
	if len(g.Where) == 0 {
		return &GateError{Gate: g.Text, Column: 1, Message: "neither run has " + g.Metric, Hinted: hint.Hinted{Text: "`tare report DIR --all` lists the metrics of a run"}}
	}
	levels := map[string]bool{}
	for _, c := range a.Changes {
		for f, v := range c.Factors {
			levels[f+"="+LevelText(v)] = true
		}
	}
	names := slices.Sorted(maps.Keys(levels))
	return &GateError{Gate: g.Text, Column: strings.IndexByte(g.Text, '{') + 1,
		Message: "it selects no treatment of both runs, or none with " + g.Metric, Hinted: hint.Hinted{Text: "the runs have " + printable.Listed(names, 8)}}
}

// changes compares all metrics of one treatment that are known on at least one side.
func changes(x *estimator, t plan.Treatment, reference bool, base [][]figures.Measured, next []figures.Measured) (cs []compared) {
	for _, m := range metric.Known(append(metricsOf(slices.Concat(base...)), metricsOf(next)...)...) {
		c := changeIn(x, t, reference, m, base, next)
		var warmBase [][]figures.Measured
		cold := 0
		for _, trials := range append(slices.Clone(base), next) {
			warm := warmIn(trials, m.Name)
			warmBase, cold = append(warmBase, warm), cold+len(trials)-len(warm)
		}
		if cold > 0 {
			warm := changeIn(x, t, reference, m, warmBase[:len(base)], warmBase[len(base)])
			c.Warm = &warm.Comparison
		}
		cs = append(cs, c)
	}
	return cs
}

func changeIn(x *estimator, t plan.Treatment, reference bool, m metric.Metric, base [][]figures.Measured, next []figures.Measured) compared {
	var runs [][]float64
	var means []float64
	for _, trials := range base {
		if v := valuesOf(trials, m.Name); len(v) > 0 {
			runs, means = append(runs, v), append(means, stats.Mean(v))
		}
	}
	n := valuesOf(next, m.Name)
	c := compared{Comparison: Comparison{
		Treatment: t.ID, Factors: t.Factors, Control: t.Control, Metric: m.Name, Unit: m.Unit,
		Runs: &Runs{Reference: reference, NBase: len(slices.Concat(runs...)), NNew: len(n), Base: number(stats.Mean(means)),
			New: number(stats.Mean(n)), BaseRuns: len(runs), BetweenRuns: number(stats.SD(means))},
		Family: familyOf(m, t.Control), Verdict: Insufficient,
		Warnings: figures.UnionWarnings(warnedOf(slices.Concat(base...)).about(m.Name), warnedOf(next).about(m.Name)),
	}}
	change(x, &c, runs, n, len(base) > 1)
	c.boundChange(x, base, next)
	return c
}

// change puts Welch's comparison of next with the trials of the base run into c, or of several with the runs.
func change(x *estimator, c *compared, runs [][]float64, next []float64, several bool) {
	if len(runs) == 0 || len(next) == 0 {
		m, _ := metric.Lookup(c.Metric)
		c.Warnings = append(c.Warnings, figures.Warning{Code: "unknown-on-one-side", Message: m.Title() + " is known in one of the two runs only",
			Hint: "see the reports of the two runs"})
		return
	}
	base := slices.Concat(runs...)
	d, r := againstRuns(next, runs, several, x.confidence)
	exact := stats.ExactApart(len(next), len(base))
	if several {
		exact = stats.ExactApart(1, len(runs))
	}
	c.N, c.Difference, c.P, c.test = d.N, &d.Interval, d.P, d
	if v, ok := stats.WelchDetectable(next, base, x.alpha(), stats.Power); ok && !several {
		c.Detectable = &v
	}
	switch w, ok := absent(d.Why, d.N, "trial of the run that has fewer"); {
	case ok && several && d.Why == stats.TooFew:
		c.Warnings = append(c.Warnings, figures.Warning{Code: "few-runs", Message: fmt.Sprintf("no interval: %s, and it needs %d", printable.Counted(d.N, "base run"), stats.MinN),
			Hint: "give more base runs"})
	case ok:
		c.Warnings = append(c.Warnings, w)
	}
	if !math.IsNaN(r.Estimate) {
		c.Ratio = &r.Interval
		x.judge(c, r)
	}
	if d.Why == stats.NoSpread {
		c.constant(d.Estimate, exact, pairs{treatment: next, baseline: base})
	}
}

// MemoryGrows is the code of the warning that memory was still growing at the end of the measure phase.
const MemoryGrows = "memory-grows"

// VisibleGrowth is the growth in the second half of the measure phase, as a share of the memory, from which the figure
// depends on the length of the phase. Programs that have just begun grow a little for minutes.
const VisibleGrowth = 0.02

// memories are the figures of memory that a longer measure phase would change.
var memories = []string{metric.Memory, metric.PeakMemory, metric.ProportionalMemory}

// StillGrows reports whether memory surely and visibly grew at the end of a measure phase with some seconds of load.
// The growth is in units of the memory per minute.
func StillGrows(growth stats.Interval, memory, seconds float64) bool {
	return growth.Known() && *growth.Low*seconds/60/2 > VisibleGrowth*memory
}

// MarkGrowth adds the warning [MemoryGrows] to the figures of memory that [StillGrows]. A longer phase would have other
// figures.
func MarkGrowth(treatments []Treatment, seconds float64) {
	for _, t := range treatments {
		for _, part := range metric.IdleParts {
			growth := t.Metrics[metric.Of(metric.MemoryGrowth, part)]
			if !StillGrows(growth.Interval, t.Metrics[metric.Of(metric.Memory, part)].Estimate, seconds) {
				continue
			}
			words := fmt.Sprintf("still growing at the end by %.0f MiB a minute (%.0f to %.0f)", growth.Estimate, *growth.Low, *growth.High)
			if per := t.Metrics[metric.Of(metric.MemoryGrowthPerRequest, part)]; per.N > 0 {
				words += fmt.Sprintf(", %.2f KiB a request", per.Estimate/1000)
			}
			for _, base := range memories {
				if e, known := t.Metrics[metric.Of(base, part)]; known {
					e.Warnings = append(slices.Clip(e.Warnings), figures.Warning{Code: MemoryGrows, Message: words})
					t.Metrics[metric.Of(base, part)] = e
				}
			}
		}
	}
}

// Growing returns the warning [MemoryGrows] of a figure of memory, and the growth in MiB a minute.
func (t Treatment) Growing(name string) (growth stats.Interval, w figures.Warning, ok bool) {
	e := t.Metrics[name]
	i := slices.IndexFunc(e.Warnings, func(w figures.Warning) bool { return w.Code == MemoryGrows })
	if i < 0 {
		return growth, w, false
	}
	return t.Metrics[GrowthOf(name)].Interval, e.Warnings[i], true
}

// GrowthOf is the metric of the growth of a memory metric.
func GrowthOf(memory string) string {
	part, _ := metric.PartOf(metric.Base(memory), memory)
	return metric.Of(metric.MemoryGrowth, part)
}

// LoadedSeconds is the longest time of a trial's measure phase in which it had the load.
func LoadedSeconds(records []result.Record) (most float64) {
	for i := range records {
		if l := records[i].Load; l != nil {
			most = max(most, l.LoadedSeconds())
		}
	}
	return most
}

// markGrowth adds the growth of memory in either run to the changes of the treatments.
func (a *Across) markGrowth() {
	for i, r := range a.runs {
		treatments := r.run.Treatments()
		MarkGrowth(treatments, LoadedSeconds(r.run.Records))
		for j := range a.Changes {
			c := &a.Changes[j]
			k := slices.IndexFunc(treatments, func(t Treatment) bool { return t.ID == a.matched[c.Treatment][i] })
			if k < 0 {
				continue
			}
			name, to := "base run", &c.BaseGrowth
			if i == len(a.runs)-1 {
				name, to = "new run", &c.NewGrowth
			}
			if growth, w, ok := treatments[k].Growing(c.Metric); ok && *to == nil {
				*to, w.Message = &growth, name+": "+w.Message
				c.Warnings = append(slices.Clip(c.Warnings), w)
			}
		}
	}
}

// HistorySchema is the schema of a [History] as JSON.
const HistorySchema = "tare.history/v1"

// History is a series of runs with its changes. The run is the unit: what
// varies from day to day is in it, and trials of one run share their day.
type History struct {
	Schema string       `json:"schema"`
	Alpha  float64      `json:"alpha"`
	Runs   []HistoryRun `json:"runs"` // by their beginning
	Series []Series     `json:"series"`
	// Obstacles are conditions that changed between runs. They may be the cause of a change of a series at such a run.
	Obstacles []RunDistinction `json:"obstacles"`
	// Warnings are of trials that were left out because their record cannot be trusted.
	Warnings []RunWarning `json:"warnings,omitempty"`
}

// RunWarning is a warning about one of the runs.
type RunWarning struct {
	Run int `json:"run"` // index in Runs
	figures.Warning
}

// HistoryRun is one of the runs.
type HistoryRun struct {
	Dir   string    `json:"dir"`
	Began time.Time `json:"began"`
	Tare  string    `json:"tare,omitempty"`
}

// RunDistinction is something in which a run differs from the one before.
type RunDistinction struct {
	Run int `json:"run"` // index in Runs
	Distinction
}

// Series is one headline metric of one treatment over the runs. A treatment with a
// baseline has two: the value itself, and the value relative to the baseline of the same
// run. A machine that is faster by a fifth changes the first and not the second.
type Series struct {
	Treatment string       `json:"treatment"`
	Factors   plan.Factors `json:"factors"`
	Metric    string       `json:"metric"`
	Unit      string       `json:"unit"` // of a relative series: empty
	// RelativeTo is the metric of the baseline that Values are divided by. It is absent if they are not divided.
	RelativeTo string `json:"relative_to,omitempty"`
	// Followed: the series shows changes of the treatment. Reports list its changes only.
	Followed bool `json:"followed"`
	// Autocorrelation of neighbouring runs around their segments, if it is significant:
	// changes of such a series are more frequent than alpha.
	Autocorrelation *float64      `json:"autocorrelation,omitempty"`
	Runs            []int         `json:"runs"` // indices in History.Runs of the values
	Values          []float64     `json:"values"`
	Changes         []ChangePoint `json:"changes"`
}

// ChangePoint is the first run after a change of a series.
type ChangePoint struct {
	Run    int     `json:"run"` // index in History.Runs of the first run after it
	P      float64 `json:"p"`
	Before float64 `json:"before"` // means, up to the changes next to it
	After  float64 `json:"after"`
}

// MinHistory is the number of runs needed to show a change.
const MinHistory = 8

// Histories finds the changes of a series of runs. Each series is tested at alpha separately.
func Histories(dirs []*result.Dir, alpha float64, o Options) (*History, error) {
	if len(dirs) < MinHistory {
		return nil, fmt.Errorf("find changes: %d runs, and a change needs %d to be shown", len(dirs), MinHistory)
	}
	dirs = slices.Clone(dirs)
	slices.SortStableFunc(dirs, func(a, b *result.Dir) int { return a.Environment().Time.Compare(b.Environment().Time) })
	h := &History{Schema: HistorySchema, Alpha: alpha, Series: []Series{}, Obstacles: []RunDistinction{}}
	index := map[string]int{}
	for i, d := range dirs {
		e := d.Environment()
		h.Runs = append(h.Runs, HistoryRun{d.Path(), e.Time, e.Tare})
		if i > 0 {
			obstacles, _, err := ConditionsOf(dirs[i-1]).distinguish(ConditionsOf(d))
			if err != nil {
				return nil, err
			}
			for _, o := range obstacles {
				h.Obstacles = append(h.Obstacles, RunDistinction{i, o})
			}
		}
		run, err := Read(d, o)
		if err != nil {
			return nil, err
		}
		h.add(i, run, index)
		for _, w := range figures.Distrusted(run.Trials) {
			h.Warnings = append(h.Warnings, RunWarning{i, w})
		}
	}
	for i := range h.Series {
		s := &h.Series[i]
		s.Changes = []ChangePoint{}
		changes := stats.Changes(s.Values, alpha)
		for _, c := range changes {
			s.Changes = append(s.Changes, ChangePoint{s.Runs[c.At], c.P, c.Before, c.After})
		}
		if r, ok := stats.Dependent(s.Values, changes, alpha); ok {
			s.Autocorrelation = &r
		}
	}
	return h, nil
}

// relation is how a metric of a treatment is followed.
type relation struct {
	value      float64
	relativeTo string // empty: the value itself
	followed   bool
}

func (h *History) add(number int, run *Run, index map[string]int) {
	key, treatments := keyOf(run.Plan), run.Treatments()
	byID := map[string]*Treatment{}
	for i := range treatments {
		byID[treatments[i].ID] = &treatments[i]
	}
	for i, t := range treatments {
		if t.Control {
			continue
		}
		for _, name := range metric.Headlines() {
			e, ok := t.Metrics[name]
			if !ok {
				continue
			}
			for _, rel := range relations(name, e, byID[t.Baseline]) {
				k := key(run.Plan.Treatments[i]) + " " + name + " " + rel.relativeTo
				at, known := index[k]
				if !known {
					at = len(h.Series)
					index[k] = at
					s := Series{Treatment: t.ID, Factors: t.Factors, Metric: name, Unit: e.Unit, RelativeTo: rel.relativeTo, Followed: rel.followed}
					if rel.relativeTo != "" {
						s.Unit = ""
					}
					h.Series = append(h.Series, s)
				}
				s := &h.Series[at]
				s.Runs, s.Values = append(s.Runs, number), append(s.Values, rel.value)
			}
		}
	}
}

// relations of a metric's estimate. Only what grows with a slow processor is divided by the
// baseline: by its own value, or where that is zero, as for a data plane, by its total.
func relations(name string, e Estimate, baseline *Treatment) []relation {
	own := relation{value: e.Estimate, followed: true}
	m, _ := metric.Lookup(name)
	if baseline == nil || !m.SpeedSensitive {
		return []relation{own}
	}
	for _, by := range []string{name, metric.Of(metric.Base(name), "total")} {
		if b, ok := baseline.Metrics[by]; ok && b.Estimate > 0 {
			own.followed = false
			return []relation{own, {value: e.Estimate / b.Estimate, relativeTo: by, followed: true}}
		}
	}
	return []relation{own}
}
