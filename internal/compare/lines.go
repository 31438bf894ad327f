package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// Line is the cost of a part as a straight line over the rate: a fixed cost and a
// cost per request.
type Line struct {
	Factors   plan.Factors `json:"factors"` // of the treatments it goes through, without the rate
	Part      string       `json:"part"`
	Role      string       `json:"role,omitempty"`
	Component string       `json:"component,omitempty"`
	// FixedCores is the cost without load, PerRequestUS the cost of each request, with
	// intervals over trials.
	FixedCores   stats.Interval `json:"fixed_cores"`
	PerRequestUS stats.Interval `json:"per_request_us"`
	N            int            `json:"n"` // trials
	Rates        int            `json:"rates"`
	From         float64        `json:"from"` // 1/s, the measured range
	To           float64        `json:"to"`
	Middle       float64        `json:"middle,omitempty"` // the weighted mean of the rates, where the line is known best
	// Misfit is the p-value of the line's own check: that the rates' means lie on it.
	Misfit   *float64          `json:"misfit,omitempty"`
	Warnings []figures.Warning `json:"warnings"`
}

// linedParts are the parts that get a line.
var linedParts = []string{"data", "control", "app", "load", "platform", "node", "mesh", "total", "cluster"}

// minRates is the number of rates of a line. With two every line would fit.
const MinRates = 3

// Lines fits a line for every part of treatments that differ in rate alone.
func (run *Run) Lines() []Line {
	if !run.estimator.hasCosts() {
		return []Line{}
	}
	return run.estimator.lines(run.Plan.Treatments, run.validByTreatment())
}

func (x *estimator) lines(treatments []plan.Treatment, byTreatment map[string][]figures.Measured) []Line {
	lines := []Line{}
	seen := map[string]bool{}
	for _, t := range treatments {
		if t.Control {
			continue
		}
		rest := WithoutRate(t.Factors)
		key := fmt.Sprint(rest)
		if seen[key] {
			continue
		}
		seen[key] = true
		var groups [][]figures.Measured
		for _, o := range treatments {
			if _, numeric := o.Factors[experiment.RateFactor].(float64); numeric && !o.Control && fmt.Sprint(WithoutRate(o.Factors)) == key {
				groups = append(groups, byTreatment[o.ID])
			}
		}
		lines = append(lines, x.linesThrough(rest, groups)...)
	}
	return lines
}

func (x *estimator) linesThrough(factors plan.Factors, groups [][]figures.Measured) []Line {
	var out []Line
	add := func(l Line, of func(figures.Measured) (float64, bool)) {
		if l, ok := x.line(l, groups, of); ok {
			out = append(out, l)
		}
	}
	for _, p := range linedParts {
		add(Line{Factors: factors, Part: p}, func(t figures.Measured) (float64, bool) {
			v, ok := t.Metrics[metric.CPUCores+"/"+p]
			return v, ok
		})
	}
	var roles []figures.TaskRole
	for _, g := range groups {
		for _, t := range g {
			for r := range t.Roles {
				roles = lists.Add(roles, r)
			}
		}
	}
	slices.SortFunc(roles, func(a, b figures.TaskRole) int { return strings.Compare(a.Role+a.Component, b.Role+b.Component) })
	for _, r := range roles {
		add(Line{Factors: factors, Part: string(r.Plane), Role: r.Role, Component: r.Component}, func(t figures.Measured) (float64, bool) {
			v, ok := t.Roles[r][metric.CPUCores]
			return v, ok
		})
	}
	return out
}

// line fits one line. It is not ok if there are too few rates, or no CPU is used.
func (x *estimator) line(l Line, groups [][]figures.Measured, of func(figures.Measured) (float64, bool)) (Line, bool) {
	f, ok := x.fit(groups, func(t figures.Measured) (rate, y float64, ok bool) {
		y, ok = of(t)
		rate, rated := t.Metrics[metric.Rate]
		return rate, y, ok && rated
	})
	if !ok {
		return l, false
	}
	l.N, l.Middle, l.FixedCores, l.PerRequestUS, l.Misfit, l.Warnings = f.N, f.Middle, f.Intercept.Interval, f.Slope.Interval.Times(1e6), f.Misfit, []figures.Warning{}
	l.Rates, l.From, l.To = f.levels, f.from, f.to
	if x.misfits(f) {
		l.Warnings = append(l.Warnings, figures.Warning{Code: "not-a-line",
			Message: fmt.Sprintf("the means at the %d rates do not lie on a line (p %.2g): the cost per request changes with the rate", l.Rates, *f.Misfit),
			Hint:    "read the cost at each rate; do not extend the line beyond the measured rates"})
	}
	return l, true
}

// fitted is a line with the levels that it goes through.
type fitted struct {
	stats.LineFit
	levels   int
	from, to float64 // of x
}

func (x *estimator) misfits(f fitted) bool { return f.Misfit != nil && *f.Misfit < x.alpha() }

// fit fits a line through the trials of groups.
// It is not ok with fewer than three groups, or a figure that is not positive.
func (x *estimator) fit(groups [][]figures.Measured, of func(figures.Measured) (at, y float64, ok bool)) (f fitted, ok bool) {
	var points []stats.Point
	found := map[int]bool{}
	for g, trials := range groups {
		for _, t := range trials {
			at, y, ok := of(t)
			if !ok {
				continue
			}
			if !(y > 0) {
				return f, false
			}
			points = append(points, stats.Point{X: at, Y: y, Group: g})
			if len(points) == 1 || at < f.from {
				f.from = at
			}
			f.to = max(f.to, at)
			found[g] = true
		}
	}
	if f.levels = len(found); f.levels < MinRates {
		return f, false
	}
	stats.WeighByGroup(points)
	f.LineFit = stats.Line(points, x.confidence)
	return f, f.Slope.Why == stats.Computed
}

// Slope is a figure as a straight line over an option or a factor that is a number. Its slope is the cost of each item, such
// as a cluster that a sidecar has, or a proxy that a control plane configures.
type Slope struct {
	Mesh    string       `json:"mesh"`    // that the variants come from
	Option  string       `json:"option"`  // or the factor
	Factors plan.Factors `json:"factors"` // without the mesh, and without the factor
	Metric  string       `json:"metric"`
	Unit    string       `json:"unit"`
	// None is the figure without items, and PerItem what each adds, with intervals over trials.
	None    stats.Interval `json:"none"`
	PerItem stats.Interval `json:"per_item"`
	N       int            `json:"n"` // trials
	Levels  int            `json:"levels"`
	From    float64        `json:"from"` // items, the measured range
	To      float64        `json:"to"`
	// Misfit is the p-value of the line's own check, as in [Line].
	Misfit *float64 `json:"misfit,omitempty"`
	// Middle is the weighted mean of the items, as in [Line].
	Middle   float64           `json:"middle,omitempty"`
	Warnings []figures.Warning `json:"warnings"`
}

// slopeMetrics get a slope.
var slopeMetrics = []string{metric.Of(metric.Memory, "data"), metric.Of(metric.CPUPerRequest, "data"), metric.Of(metric.IdleCPU, "data"), metric.Of(metric.Latency, "p50")}

// controlMetrics get a slope over the background that a control plane has: its costs, its pushes, and the time of changes that
// requests show.
func controlMetrics() []string {
	all := []string{metric.Of(metric.CPUCores, "control"), metric.Of(metric.Memory, "control"), metric.Of(metric.PushLast, "p50"),
		metric.Of(metric.Push, "p50"), metric.PushSync, metric.Of(metric.Memory, "data")}
	for _, kind := range metric.ChangeKinds() {
		if kind.Time != "" {
			all = append(all, metric.Of(kind.Time, kind.Name))
		}
	}
	return all
}

// IsBackground reports whether the items are of the background of a control plane.
func (s Slope) IsBackground() bool {
	return slices.ContainsFunc(backgroundFactors, func(f backgroundFactor) bool { return f.name == s.Option })
}

// backgroundFactor is a factor with slopes, and its level in a treatment.
type backgroundFactor struct {
	name  string
	level func(experiment.Levels) float64
}

var backgroundFactors = []backgroundFactor{
	{experiment.BackgroundProxiesFactor, func(l experiment.Levels) float64 { return float64(l.BackgroundProxies) }},
	{experiment.BackgroundServicesFactor, func(l experiment.Levels) float64 { return float64(l.BackgroundServices) }},
	{experiment.BackgroundPodsFactor, func(l experiment.Levels) float64 { return float64(l.BackgroundPods) }},
	{experiment.BackgroundChangesFactor, func(l experiment.Levels) float64 { return float64(l.BackgroundChanges) }},
}

// settingIn is a mesh or variant as the experiment file describes it.
type setting struct {
	mesh    string // the definition's
	options map[string]string
	other   string // everything else that differs from the definition

	limits    map[string]string // of the sidecar's resources, as the file has them
	unlimited string            // other, without limits
}

// numbered is a set of treatments that differ in one number.
type numbered struct {
	mesh, option string
	metrics      []string
	factors      plan.Factors
	groups       [][]figures.Measured
	items        map[string]float64 // by treatment
	levels       map[float64]bool
}

// Slopes fits a line for every option in which treatments differ alone.
func (run *Run) Slopes() []Slope {
	if !run.estimator.hasCosts() {
		return nil
	}
	return run.slopes(run.validByTreatment())
}

func (run *Run) slopes(byTreatment map[string][]figures.Measured) (all []Slope) {
	for _, s := range sweepsOf(run, byTreatment) {
		if len(s.levels) < MinRates {
			continue
		}
		for _, name := range s.metrics {
			if slope, ok := run.estimator.slope(s, name); ok {
				all = append(all, slope)
			}
		}
	}
	return all
}

func sweepsOf(run *Run, byTreatment map[string][]figures.Measured) (all []*numbered) {
	for _, f := range backgroundFactors {
		by := map[string]*numbered{}
		for _, t := range run.Plan.Treatments {
			if _, is := t.Factors[f.name]; !is || t.Control || t.Reference {
				continue
			}
			name, _ := t.Factors[experiment.MeshFactor].(string)
			factors := without(without(t.Factors, experiment.MeshFactor), f.name)
			key := fmt.Sprint(name, factors)
			if by[key] == nil {
				by[key] = &numbered{mesh: cmp.Or(name, t.Levels.Mesh), option: f.name, metrics: controlMetrics(), factors: factors, items: map[string]float64{}, levels: map[float64]bool{}}
				all = append(all, by[key])
			}
			by[key].add(t.ID, f.level(t.Levels), byTreatment)
		}
	}
	for _, option := range run.options() {
		by := map[string]*numbered{}
		for _, t := range run.Plan.Treatments {
			name, _ := t.Factors[experiment.MeshFactor].(string)
			s := settingIn(run, name)
			n, ok := s.items(option)
			if t.Control || t.Reference || !ok {
				continue
			}
			delete(s.options, option)
			factors := without(t.Factors, experiment.MeshFactor)
			key := fmt.Sprint(s, factors)
			if by[key] == nil {
				by[key] = &numbered{mesh: s.mesh, option: option, metrics: slopeMetrics, factors: factors, items: map[string]float64{}, levels: map[float64]bool{}}
				all = append(all, by[key])
			}
			by[key].add(t.ID, n, byTreatment)
		}
	}
	return all
}

func (w *numbered) add(treatment string, items float64, byTreatment map[string][]figures.Measured) {
	w.items[treatment], w.levels[items] = items, true
	w.groups = append(w.groups, byTreatment[treatment])
}

// options are the names of options in variants of this file.
func (run *Run) options() []string {
	names := map[string]bool{}
	for _, entry := range run.File.Meshes {
		options, _ := entry["options"].(map[string]any)
		for name := range options {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (x *estimator) slope(s *numbered, name string) (Slope, bool) {
	m, _ := metric.Lookup(name)
	l := Slope{Mesh: s.mesh, Option: s.option, Factors: s.factors, Metric: m.Name, Unit: m.Unit, Warnings: []figures.Warning{}}
	f, ok := x.fit(s.groups, func(t figures.Measured) (at, y float64, ok bool) {
		y, ok = t.Metrics[name]
		return s.items[t.Treatment], y, ok
	})
	if !ok {
		return l, false
	}
	l.None, l.PerItem, l.N, l.Misfit, l.Middle = f.Intercept.Interval, f.Slope.Interval, f.N, f.Misfit, f.Middle
	l.Levels, l.From, l.To = f.levels, f.from, f.to
	if x.misfits(f) {
		l.Warnings = append(l.Warnings, figures.Warning{Code: "not-a-line",
			Message: fmt.Sprintf("the means at %d values of %s do not lie on a line (p %.2g): the cost of an item changes with their number", l.Levels, cmp.Or(l.Option, "the option"), *f.Misfit),
			Hint:    "read the figure at each value; do not extend the line beyond the measured values"})
	}
	return l, true
}

// OptionsOf returns the definition that a mesh or variant comes from, the options that the run recorded for it, and what
// else the variant changes, as text.
func (run *Run) OptionsOf(name string) (definition string, options map[string]string, other string) {
	s := settingIn(run, name)
	return s.mesh, s.options, s.other
}

// LimitsOf returns the limits of the sidecar's resources that a variant has, as the file has them, and what else the
// variant changes except options, as text.
func (run *Run) LimitsOf(name string) (limits map[string]string, other string) {
	s := settingOf(run.File.Meshes, name)
	return s.limits, s.unlimited
}

// settingIn returns the setting of a mesh, with the options that the run recorded, defaults included. If the run is
// older than this record, the options come from the experiment file.
func settingIn(run *Run, name string) setting {
	s := settingOf(run.File.Meshes, name)
	if recorded, ok := run.Environment.Options[name]; ok {
		s.options = maps.Clone(recorded)
	}
	return s
}

// settingOf follows a variant to its definition. A variant's options override the options of the mesh it comes from.
func settingOf(meshes map[string]map[string]any, name string) setting {
	s := setting{mesh: name, options: map[string]string{}, limits: map[string]string{}}
	for range meshes { // no circle lasts longer
		entry, ok := meshes[s.mesh]
		if !ok {
			break
		}
		options, _ := entry["options"].(map[string]any)
		for option, value := range options {
			if _, over := s.options[option]; !over {
				s.options[option] = fmt.Sprint(value)
			}
		}
		rest := maps.Clone(entry)
		delete(rest, "options")
		delete(rest, "from")
		if len(rest) > 0 {
			s.other += fmt.Sprint(rest)
		}
		if resources, ok := rest["resources"].(map[string]any); ok {
			limits, _ := resources["limits"].(map[string]any)
			for resource, value := range limits {
				if _, over := s.limits[resource]; !over {
					s.limits[resource] = fmt.Sprint(value)
				}
			}
			delete(rest, "resources")
			if requests, ok := resources["requests"]; ok {
				rest["requests"] = requests
			}
		}
		if len(rest) > 0 {
			s.unlimited += fmt.Sprint(rest)
		}
		from, _ := entry["from"].(string)
		if from == "" {
			break
		}
		s.mesh = from
	}
	return s
}

// items is the number that an option of a mesh has: 0 if it is unknown.
func (s setting) items(option string) (float64, bool) {
	text, ok := s.options[option]
	if !ok {
		return 0, true
	}
	n, err := strconv.Atoi(text)
	return float64(n), err == nil && n >= 0
}
