package analysis

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
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

// Across is the change from one run to another. Trials of two runs share no block,
// so they cannot be paired: intervals are Welch's, over the trials of both. They
// cover the variation within the runs. Any other change between the runs is part of
// the difference.
type Across struct {
	Schema     string  `json:"schema"`
	Method     Method  `json:"method"` // always unpaired
	Confidence float64 `json:"confidence"`
	Base       Side    `json:"base"`
	New        Side    `json:"new"`
	// Obstacles are reasons not to compare the two; empty unless the options insist.
	Obstacles []Distinction `json:"obstacles"`
	// Distinctions are differences that may be the subject of the comparison: versions, the number of blocks.
	Distinctions []Distinction  `json:"distinctions"`
	OnlyBase     []string       `json:"only_base"` // treatments without a partner
	OnlyNew      []string       `json:"only_new"`
	Families     map[Family]int `json:"families"`
	Changes      []Change       `json:"changes"`
	Gates        []GateCheck    `json:"gates"`
	Warnings     []Warning      `json:"warnings"`
}

// Change is one metric of one treatment in the new run against the base run.
type Change struct {
	Treatment string       `json:"treatment"`
	Factors   plan.Factors `json:"factors"`
	Control   bool         `json:"control,omitempty"`
	// Reference marks a treatment that others are compared with in its own run. It
	// holds no mesh, as a rule: when it moves the machine or the application did.
	Reference  bool            `json:"reference,omitempty"`
	Metric     string          `json:"metric"`
	Unit       string          `json:"unit"`
	Base       *float64        `json:"base,omitempty"` // mean over valid trials
	New        *float64        `json:"new,omitempty"`
	NBase      int             `json:"n_base"`
	NNew       int             `json:"n_new"`
	Difference *stats.Interval `json:"difference,omitempty"` // new minus base
	Ratio      *stats.Interval `json:"ratio,omitempty"`      // new over base
	P          *float64        `json:"p,omitempty"`
	// OnRatio: P is of the ratio instead, as for latencies.
	OnRatio    bool      `json:"on_ratio,omitempty"`
	PAdjusted  *float64  `json:"p_adjusted,omitempty"`
	Family     Family    `json:"family"`
	Detectable *float64  `json:"detectable,omitempty"`
	Smallest   *Smallest `json:"smallest,omitempty"`
	Verdict    Verdict   `json:"verdict"`
	Warnings   []Warning `json:"warnings"`

	constant bool // neither side has any spread
	test     stats.Result
}

// CompareRuns computes the changes from base to next. It refuses runs with other
// differences with a [*NotComparable], unless Anyway is set.
func CompareRuns(base, next *result.Dir, o AcrossOptions) (*Across, error) {
	obstacles, distinctions, err := distinguish(base, next)
	if err != nil {
		return nil, err
	}
	b, err := Analyze(base, o.Options)
	if err != nil {
		return nil, err
	}
	n, err := Analyze(next, o.Options)
	if err != nil {
		return nil, err
	}
	obstacles = append(obstacles, loadObstacles(obstacles, b.Setup, n.Setup)...)
	if len(obstacles) > 0 && !o.Anyway {
		return nil, &NotComparable{Base: base.Path(), New: next.Path(), Obstacles: obstacles,
			Hinted: hint.Hinted{Text: "run both under the same conditions, or use --anyway: the difference is then that of everything listed"}}
	}
	a := &Across{
		Schema: AcrossSchema, Method: Unpaired, Confidence: math.Min(b.Confidence, n.Confidence),
		Base:         Side{base.Path(), b.Experiment, b.Setup, b.Count},
		New:          Side{next.Path(), n.Experiment, n.Setup, n.Count},
		Obstacles:    append([]Distinction{}, obstacles...),
		Distinctions: append([]Distinction{}, distinctions...),
		OnlyBase:     []string{}, OnlyNew: []string{}, Changes: []Change{}, Gates: []GateCheck{}, Warnings: []Warning{},
	}
	if o.Confidence > 0 {
		a.Confidence = o.Confidence
	}
	a.match(base.Plan(), next.Plan(), b, n)
	for _, side := range []struct {
		dir  string
		only []string
	}{{base.Path(), a.OnlyBase}, {next.Path(), a.OnlyNew}} {
		if len(a.Changes) == 0 && len(side.only) == 0 {
			return nil, hint.New("`tare report "+side.dir+"` has the reasons", "%s has no valid trial to compare", side.dir)
		}
	}
	if len(a.Changes) == 0 {
		return nil, hint.New("treatments are the same if every factor has the same level: run both from one experiment file",
			"the two runs have no treatment in common: one has %s, the other %s", listed(a.OnlyBase, 4), listed(a.OnlyNew, 4))
	}
	a.adjust()
	a.warn(b, n)
	return a, nil
}

// match pairs the treatments of both runs.
func (a *Across) match(basePlan, newPlan plan.Plan, b, n *Report) {
	key := keyOf(basePlan, newPlan)
	partner := map[string]plan.Treatment{}
	for _, t := range newPlan.Treatments {
		partner[key(t)] = t
	}
	references := map[string]bool{}
	for _, t := range basePlan.Treatments {
		if !t.Control { // the A/A pair of a mesh makes it no reference
			references[t.Baseline] = true
		}
	}
	baseTrials, newTrials := validTrials(b), validTrials(n)
	taken := map[string]bool{}
	for _, t := range basePlan.Treatments {
		p, ok := partner[key(t)]
		if !ok {
			a.OnlyBase = append(a.OnlyBase, t.ID)
			continue
		}
		taken[p.ID] = true
		a.changes(t, references[t.ID], baseTrials[t.ID], newTrials[p.ID])
	}
	for _, t := range newPlan.Treatments {
		if !taken[t.ID] {
			a.OnlyNew = append(a.OnlyNew, t.ID)
		}
	}
}

// keyOf identifies a treatment by the levels of all factors, or where a plan
// does not hold them (an import) by those it names.
func keyOf(plans ...plan.Plan) func(plan.Treatment) string {
	typed := true
	for _, p := range plans {
		for _, t := range p.Treatments {
			typed = typed && t.Levels.Mesh != ""
		}
	}
	return func(t plan.Treatment) string {
		var what any = t.Factors
		if typed {
			what = t.Levels
		}
		b, err := json.Marshal(what) // maps are written in the order of their keys
		if err != nil {
			return t.ID
		}
		return fmt.Sprint(t.Control, string(b))
	}
}

func validTrials(r *Report) map[string][]Trial {
	by := map[string][]Trial{}
	for _, t := range r.Trials {
		if t.Valid {
			by[t.Treatment] = append(by[t.Treatment], t)
		}
	}
	return by
}

func valuesOf(trials []Trial, name string) []float64 {
	values := make([]float64, 0, len(trials))
	for i := range trials {
		if v, ok := trials[i].Metrics[name]; ok {
			values = append(values, v)
		}
	}
	return values
}

// changes are all metrics of one treatment known on at least one side.
func (a *Across) changes(t plan.Treatment, reference bool, base, next []Trial) {
	for _, m := range metric.Known(append(metricsOf(base), metricsOf(next)...)...) {
		b, n := valuesOf(base, m.Name), valuesOf(next, m.Name)
		c := Change{
			Treatment: t.ID, Factors: t.Factors, Control: t.Control, Reference: reference, Metric: m.Name, Unit: m.Unit,
			NBase: len(b), NNew: len(n), Base: number(stats.Mean(b)), New: number(stats.Mean(n)),
			Family: familyOf(m, t.Control), Verdict: Insufficient,
			Warnings: union(metricWarnings(base, m.Name), metricWarnings(next, m.Name)),
		}
		c.fill(b, n, a.Confidence, m.Judged)
		a.Changes = append(a.Changes, c)
	}
}

func (c *Change) fill(base, next []float64, confidence float64, judged metric.Judgement) {
	if len(base) == 0 || len(next) == 0 {
		c.Warnings = append(c.Warnings, Warning{Code: "unknown-on-one-side", Message: c.Metric + " is known in one of the two runs only",
			Hint: "see the reports of the two runs"})
		return
	}
	d := stats.Welch(next, base, confidence)
	c.Difference, c.P, c.test = &d.Interval, d.P, d
	if v, ok := stats.WelchDetectable(next, base, 1-confidence, stats.Power); ok {
		c.Detectable = &v
	}
	if w, ok := absent(d.Why, d.N, "trials of the run that has fewer"); ok {
		c.Warnings = append(c.Warnings, w)
	}
	if r := stats.WelchRatio(next, base, confidence); !math.IsNaN(r.Estimate) {
		c.Ratio = &r.Interval
		if judged == metric.ByRatio && r.P != nil {
			c.P, c.OnRatio, c.test = r.P, true, r
		}
	}
	if d.Why == stats.NoSpread {
		c.constant, c.Verdict = true, NotShown
		if exact := stats.ExactApart(len(next), len(base)); !isZero(d.Estimate, next[0], base[0]) {
			c.P = &exact
		}
	}
}

// direction is above zero if the new run is higher.
func (c *Change) direction() float64 {
	if c.OnRatio {
		return c.Ratio.Estimate - 1
	}
	return c.Difference.Estimate
}

// adjust corrects p-values as in a report, in each family separately.
func (a *Across) adjust() {
	a.Families = map[Family]int{}
	for _, family := range []Family{Headline, Boundary, Others, HeadlineAA, OthersAA} {
		p := make([]float64, len(a.Changes))
		for i, c := range a.Changes {
			p[i] = math.NaN()
			if c.P != nil && c.Family == family {
				p[i] = *c.P
				a.Families[family]++
			}
		}
		levels, _ := stats.HolmLevels(p, 1-a.Confidence)
		x := estimator{confidence: a.Confidence}
		for i, v := range stats.Holm(p) {
			if c := &a.Changes[i]; !math.IsNaN(v) {
				c.PAdjusted, c.Smallest = &v, x.smallest(c.test, levels[i], c.OnRatio)
				c.Verdict = verdict(v < 1-a.Confidence, c.direction())
			}
		}
	}
}

// warn adds the limits of the comparison.
func (a *Across) warn(b, n *Report) {
	for _, d := range a.Obstacles {
		a.Warnings = append(a.Warnings, Warning{Code: "not-comparable", Message: d.String(),
			Hint: "this may cause the difference: run both under the same conditions"})
	}
	var moved []string
	for _, c := range a.Changes {
		if (c.Reference || c.Control) && c.Family != Others && c.Family != OthersAA && (c.Verdict == Higher || c.Verdict == Lower) {
			moved = append(moved, c.Treatment+" "+c.Metric)
		}
	}
	if len(moved) > 0 {
		a.Warnings = append(a.Warnings, Warning{Code: "baseline-moved",
			Message: "the baseline itself changed: " + listed(moved, 4),
			Hint:    "the machine or the application changed, which can also cause a change of that size in a mesh"})
	}
	if len(a.OnlyBase)+len(a.OnlyNew) > 0 {
		a.Warnings = append(a.Warnings, Warning{Code: "without-partner",
			Message: fmt.Sprintf("not compared: %s", listed(append(slices.Clone(a.OnlyBase), a.OnlyNew...), 6)),
			Hint:    "they are in one of the two runs only"})
	}
	for _, side := range []struct {
		name string
		r    *Report
	}{{"base", b}, {"new", n}} {
		c := side.r.Count
		if c.Used < c.Planned {
			a.Warnings = append(a.Warnings, Warning{Code: "trials-lost", Trials: c.Planned - c.Used,
				Message: fmt.Sprintf("of the %s run %d of %d trials are used (%d invalid, %d failed, %d not recorded)", side.name, c.Used, c.Planned, c.Invalid, c.Failed, c.Missing),
				Hint:    "see its report"})
		}
		for _, w := range distrusted(side.r) {
			w.Message = fmt.Sprintf("%s run: %s", side.name, w.Message)
			a.Warnings = append(a.Warnings, w)
		}
	}
	if !slices.ContainsFunc(a.Changes, func(c Change) bool { return c.Base == nil || c.New == nil || *c.Base != *c.New }) {
		a.Warnings = append(a.Warnings, Warning{Code: "same-run", Message: "every figure is the same to the last digit: both directories contain the same run", Hint: "give two runs"})
	}
}

// Gate judges the changes by gates. The error names a gate that no treatment or metric answers to.
func (a *Across) Gate(gates []Gate) error {
	var errs []error
	for _, g := range gates {
		n := len(a.Gates)
		for i := range a.Changes {
			if c := &a.Changes[i]; !c.Control && c.Metric == g.Metric && g.about(c.Factors) {
				a.Gates = append(a.Gates, g.check(c))
			}
		}
		if len(a.Gates) == n {
			errs = append(errs, a.noneFor(g))
		}
	}
	return errors.Join(errs...)
}

func (a *Across) noneFor(g Gate) error {
	if len(g.Where) == 0 {
		return &GateError{Gate: g.Text, Column: 1, Message: "neither run has " + g.Metric, Hinted: hint.Hinted{Text: "`tare report DIR --all` lists the metrics of a run"}}
	}
	levels := map[string]bool{}
	for _, c := range a.Changes {
		for f, v := range c.Factors {
			levels[fmt.Sprintf("%s=%v", f, v)] = true
		}
	}
	names := make([]string, 0, len(levels))
	for l := range levels {
		names = append(names, l)
	}
	slices.Sort(names)
	return &GateError{Gate: g.Text, Column: strings.IndexByte(g.Text, '{') + 1,
		Message: "it selects no treatment of both runs, or none with " + g.Metric, Hinted: hint.Hinted{Text: "the runs have " + listed(names, 8)}}
}
