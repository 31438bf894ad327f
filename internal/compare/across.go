package compare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
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
		obstacles, distinctions, err := distinguish(base, next)
		if err != nil {
			return nil, err
		}
		obstacles = append(obstacles, loadObstacles(obstacles, b.Setup(), n.Setup())...)
		if len(obstacles) > 0 && !o.Anyway {
			return nil, notComparable(base.Path(), next.Path(), obstacles)
		}
		a.Obstacles, a.Distinctions = withOthers(a.Obstacles, obstacles), withOthers(a.Distinctions, distinctions)
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

// withOthers appends to all each distinction of more that it lacks.
func withOthers(all, more []Distinction) []Distinction {
	for _, d := range more {
		if !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
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
	var plans []plan.Plan
	for _, r := range a.runs {
		plans = append(plans, r.dir.Plan())
	}
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
		if !t.Control { // the A/A pair of a mesh makes it no reference
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
		before := len(both.baseline) + len(both.treatment)
		for j := range r.run.Records {
			record := &r.run.Records[j]
			events, counted := eventsOf(g.Metric, record)
			switch {
			case record.Treatment != a.matched[c.Treatment][i] || !counted:
			case i < len(a.runs)-1:
				both.baseline = append(both.baseline, events)
			default:
				both.treatment = append(both.treatment, events)
			}
		}
		if len(both.baseline)+len(both.treatment) == before {
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
