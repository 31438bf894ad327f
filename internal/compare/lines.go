package compare

import (
	"fmt"
	"slices"
	"strings"

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
				if !slices.Contains(roles, r) {
					roles = append(roles, r)
				}
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
