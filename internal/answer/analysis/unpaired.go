package analysis

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

const (
	// Unpaired compares means of runs that were not interleaved.
	Unpaired Method = "unpaired"
	// AsPublished reduces sampled figures by the method of the project that published
	// them. Like that project, it gives no intervals and no comparisons.
	AsPublished Method = "as-published"
)

// Methods lists what [Options.Method] may be.
func Methods() []Method { return []Method{Paired, Unpaired, AsPublished} }

// imported is the platform of results that another tool measured.
const imported = "import"

// OptionError is an option that does not fit the results.
type OptionError struct {
	hint.Hinted
}

func optionError(help, format string, args ...any) error {
	return &OptionError{hint.Hinted{Err: fmt.Errorf(format, args...), Text: help}}
}

// methodFor is the requested method, or the one that suits the run.
func methodFor(d *run, requested Method) (Method, error) {
	foreign := d.header.Platform.Kind == imported
	switch {
	case requested == "" && (foreign || d.plan.Order == experiment.OrderOnce):
		return Unpaired, nil
	case requested == "":
		return Paired, nil
	case !slices.Contains(Methods(), requested):
		return "", optionError("methods: paired, unpaired, as-published", "unknown method %q", requested)
	case requested == Paired && foreign:
		return "", optionError("leave the method out, or use unpaired", "imported runs were not interleaved: nothing pairs within blocks")
	case requested == Unpaired && d.plan.Order == experiment.OrderTogether:
		return "", optionError("leave the method out", "treatments were loaded at once: only their ratios within blocks are valid")
	case requested == AsPublished && !slices.ContainsFunc(d.records, sampledRecord):
		return "", optionError("leave the method out", "as-published needs imported results with sampled figures, and there are none")
	}
	return requested, nil
}

// settleBaselines makes the requested levels the baseline. Imported results
// without one are compared with the first mesh they name, so that something can
// be compared. A warning reports that it is no baseline.
func (d *run) settleBaselines(requested map[string]string) error {
	if len(requested) == 0 {
		if d.header.Platform.Kind != imported || slices.ContainsFunc(d.plan.Treatments, func(t plan.Treatment) bool { return t.Baseline != "" }) {
			return nil
		}
		first, several := d.firstMesh()
		if !several {
			return nil
		}
		d.assumed, requested = true, map[string]string{experiment.MeshFactor: first}
	}
	d.plan.Treatments = slices.Clone(d.plan.Treatments)
	found := false
	for i := range d.plan.Treatments {
		t := &d.plan.Treatments[i]
		if t.Control {
			continue
		}
		t.Baseline = ""
		for _, b := range d.plan.Treatments {
			if !b.Control && b.ID != t.ID && levelsAre(b.Factors, requested) && equalBut(t.Factors, b.Factors, requested) {
				t.Baseline, found = b.ID, true
			}
		}
	}
	if !found {
		return optionError("levels: "+d.levels(requested), "no treatment has the baseline %s and another treatment to compare", levelList(requested))
	}
	d.header.Baseline = map[string]any{}
	for _, t := range d.plan.Treatments {
		if levelsAre(t.Factors, requested) {
			for f := range requested {
				d.header.Baseline[f] = t.Factors[f]
			}
		}
	}
	return nil
}

func (d *run) firstMesh() (first string, several bool) {
	for _, t := range d.plan.Treatments {
		switch m, ok := t.Factors[experiment.MeshFactor].(string); {
		case ok && first == "":
			first = m
		case ok && m != first:
			several = true
		}
	}
	return first, several
}

func levelsAre(f plan.Factors, want map[string]string) bool {
	for name, level := range want {
		v, ok := f[name]
		if !ok || levelText(v) != level {
			return false
		}
	}
	return true
}

// equalBut reports whether a and b agree in every factor that but does not name.
func equalBut(a, b plan.Factors, but map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, v := range a {
		if _, named := but[name]; !named && b[name] != v {
			return false
		}
	}
	return true
}

func levelList(m map[string]string) string {
	var s []string
	for _, f := range slices.Sorted(maps.Keys(m)) {
		s = append(s, f+"="+m[f])
	}
	return strings.Join(s, ",")
}

// levels lists the levels of the factors of requested.
func (d *run) levels(requested map[string]string) string {
	var s []string
	for _, f := range slices.Sorted(maps.Keys(requested)) {
		for _, t := range d.plan.Treatments {
			if v, ok := t.Factors[f]; ok && !slices.Contains(s, f+"="+levelText(v)) {
				s = append(s, f+"="+levelText(v))
			}
		}
	}
	if s == nil {
		return "none of these factors is in the results"
	}
	return strings.Join(s, ", ")
}

// unpaired puts Welch's comparison of two treatments' trials into c.
func (x *estimator) unpaired(c *Comparison, trials, baseTrials []Trial) {
	t, b := valuesOf(trials, c.Metric), valuesOf(baseTrials, c.Metric)
	c.Verdict = Insufficient
	d := stats.Welch(t, b, x.confidence)
	c.N, c.Difference, c.P, c.test = d.N, &d.Interval, d.P, d
	if v, ok := stats.WelchDetectable(t, b, x.alpha(), stats.Power); ok && d.Known() {
		c.Detectable = &v
	}
	if w, ok := absent(d.Why, d.N, "trial of each"); ok {
		c.Warnings = append(c.Warnings, w)
	}
	ratio := stats.WelchRatio(t, b, x.confidence)
	if math.IsNaN(ratio.Estimate) { // not positive, or beyond every number
		w, _ := absent(ratio.Why, ratio.N, "trial of each")
		c.Warnings = append(c.Warnings, w)
	} else {
		c.Ratio = &ratio.Interval
	}
	if d.Why == stats.NoSpread {
		c.constant(d.Estimate, stats.ExactApart(len(t), len(b)), pairs{treatment: t, baseline: b})
	}
	x.judge(c, ratio, func(m float64) (float64, bool) { return stats.WelchWithin(t, b, m) })
}

// Boundary is the family of the comparisons of CPU cores at the boundaries of
// [metric.Boundaries].
const Boundary Family = "boundary"

func isBoundary(name string) bool {
	part, ok := metric.PartOf(metric.CPUCores, name)
	return ok && slices.ContainsFunc(metric.Boundaries(), func(p metric.Part) bool { return p.Name == part })
}

// estimatePublished is the plain mean over runs, as plotted.
func estimatePublished(m metric.Metric, values []float64) Estimate {
	e := Estimate{Unit: m.Unit, N: len(values), SD: number(stats.SD(values)), CV: number(stats.CV(values)), Warnings: []Warning{}}
	e.Estimate = stats.Mean(values)
	return e
}

// importWarnings are the unknowns of an import: the noise between equal
// treatments, the application's cost without a mesh, and whether the machine
// changed from one mesh to the next.
func (d *run) importWarnings() []Warning {
	ws := []Warning{}
	if d.assumed {
		ws = append(ws, Warning{Code: "no-baseline",
			Message: "no run is without a mesh: the cost of each mesh is unknown; the meshes are compared with one another, " + levelText(d.header.Baseline[experiment.MeshFactor]) + " as the baseline",
			Hint:    "choose another with --baseline mesh=NAME"})
	}
	if meshes, changes := d.sequence(); meshes > 1 && changes < meshes {
		ws = append(ws, Warning{Code: "not-interleaved",
			Message: fmt.Sprintf("the meshes (%d) were measured one after another: every difference includes other changes over that time, and no interval covers them", meshes),
			Hint:    "interleave the meshes in random order, as tare run does"})
	}
	return append(ws, Warning{Code: "no-floor", Message: "no A/A pair was run: the noise between identical treatments is unknown",
		Hint: "import two sequences of one mesh, and compare them"})
}

// sequence counts the meshes, and how often one followed another in time.
func (d *run) sequence() (meshes, changes int) {
	seen := map[string]bool{}
	last := ""
	for _, r := range slices.SortedFunc(slices.Values(d.records), func(x, y result.Record) int { return x.Started.Compare(y.Started) }) {
		m := levelText(r.Factors[experiment.MeshFactor])
		if r.Started.IsZero() || r.Factors[experiment.MeshFactor] == nil {
			continue
		}
		if last != "" && m != last {
			changes++
		}
		seen[m], last = true, m
	}
	return len(seen), changes
}
