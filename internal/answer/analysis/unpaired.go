package analysis

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

const (
	// Unpaired compares means of runs that were not interleaved.
	Unpaired Method = "unpaired"
	// AsPublished reduces sampled figures as the project that published them did,
	// and claims no more than it did: no intervals and no comparisons.
	AsPublished Method = "as-published"
)

// Methods lists what [Options.Method] may be.
func Methods() []Method { return []Method{Paired, Unpaired, AsPublished} }

// imported is the platform of results that another tool measured.
const imported = "import"

// OptionError is an option that does not fit the results.
type OptionError struct {
	Err  error
	Help string
}

func (e *OptionError) Error() string { return e.Err.Error() }
func (e *OptionError) Unwrap() error { return e.Err }

// Hint says what the user can do.
func (e *OptionError) Hint() string { return e.Help }

// settleMethod takes the method asked for, or the one the results bear.
func (a *analysis) settleMethod(asked Method) error {
	foreign := a.header.Platform.Kind == imported
	switch {
	case asked == "" && (foreign || a.plan.Order == experiment.OrderOnce):
		a.method = Unpaired
	case asked == "":
		a.method = Paired
	case !slices.Contains(Methods(), asked):
		return &OptionError{fmt.Errorf("unknown method %q", asked), "methods: paired, unpaired, as-published"}
	case asked == Paired && foreign:
		return &OptionError{errors.New("imported runs were not interleaved: nothing pairs within blocks"), "leave the method out, or use unpaired"}
	case asked == AsPublished && !slices.ContainsFunc(a.records, sampledRecord):
		return &OptionError{errors.New("as-published is for imported results with sampled figures, and there are none"), "leave the method out"}
	default:
		a.method = asked
	}
	return nil
}

// settleBaselines makes the levels asked for the baseline. Imported results
// without one are compared with the first mesh they name, so that something can
// be said; a warning tells that it is not a baseline.
func (a *analysis) settleBaselines(asked map[string]string) error {
	if len(asked) == 0 {
		if a.header.Platform.Kind != imported || slices.ContainsFunc(a.plan.Treatments, func(t plan.Treatment) bool { return t.Baseline != "" }) {
			return nil
		}
		first, several := a.firstMesh()
		if !several {
			return nil
		}
		a.assumed, asked = true, map[string]string{"mesh": first}
	}
	a.plan.Treatments = slices.Clone(a.plan.Treatments)
	found := false
	for i := range a.plan.Treatments {
		t := &a.plan.Treatments[i]
		if t.Control {
			continue
		}
		t.Baseline = ""
		for _, b := range a.plan.Treatments {
			if !b.Control && b.ID != t.ID && levelsAre(b.Factors, asked) && equalBut(t.Factors, b.Factors, asked) {
				t.Baseline, found = b.ID, true
			}
		}
	}
	if !found {
		return &OptionError{fmt.Errorf("no treatment has the baseline %s and another to be compared with", levelList(asked)), "levels: " + a.levels(asked)}
	}
	a.header.Baseline = map[string]any{}
	for _, t := range a.plan.Treatments {
		if levelsAre(t.Factors, asked) {
			for f := range asked {
				a.header.Baseline[f] = t.Factors[f]
			}
		}
	}
	return nil
}

func (a *analysis) firstMesh() (first string, several bool) {
	for _, t := range a.plan.Treatments {
		switch m, ok := t.Factors["mesh"].(string); {
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

// levels lists what the factors of asked may be.
func (a *analysis) levels(asked map[string]string) string {
	var s []string
	for _, f := range slices.Sorted(maps.Keys(asked)) {
		for _, t := range a.plan.Treatments {
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
func (a *analysis) unpaired(c *Comparison, trials, baseTrials []Trial) {
	t, b := valuesOf(trials, c.Metric), valuesOf(baseTrials, c.Metric)
	c.Verdict = Insufficient
	d := stats.Welch(t, b, a.confidence)
	c.N, c.Difference, c.P = d.N, &d.Interval, d.P
	if v, ok := stats.WelchDetectable(t, b, a.alpha(), stats.Power); ok && d.Known() {
		c.Detectable = &v
	}
	if w, ok := absent(d.Why, d.N, "trials of each"); ok {
		c.Warnings = append(c.Warnings, w)
	}
	ratio := stats.WelchRatio(t, b, a.confidence)
	if ratio.Why == stats.NotPositive {
		w, _ := absent(ratio.Why, ratio.N, "trials of each")
		c.Warnings = append(c.Warnings, w)
	} else {
		c.Ratio = &ratio.Interval
	}
	if d.Why == stats.NoSpread {
		c.Verdict = constant(d.Estimate, pairs{treatment: t, baseline: b})
	}
	a.judge(c, ratio, func(m float64) (float64, bool) { return stats.WelchWithin(t, b, m) })
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

// importWarnings are what an import cannot be asked: how large the noise between
// equal treatments is, what the application costs without a mesh, and whether
// the machine changed from one mesh to the next.
func (a *analysis) importWarnings() []Warning {
	ws := []Warning{}
	if a.assumed {
		ws = append(ws, Warning{Code: "no-baseline",
			Message: "there are no runs without a mesh: what each mesh adds is not known; they are compared with one another, " + levelText(a.header.Baseline["mesh"]) + " as the baseline",
			Hint:    "choose another with --baseline mesh=NAME"})
	}
	if meshes, changes := a.sequence(); meshes > 1 && changes < meshes {
		ws = append(ws, Warning{Code: "not-interleaved",
			Message: fmt.Sprintf("the runs of the %d meshes were made one mesh after the other: what else changed in that time is in every difference, and no interval tells of it", meshes),
			Hint:    "run the meshes in turn, in random order, as tare run does"})
	}
	return append(ws, Warning{Code: "no-floor", Message: "no A/A pair was run: how much two identical treatments differ is not known",
		Hint: "import two sequences of one mesh, and compare them"})
}

// sequence counts the meshes, and how often one followed another in time.
func (a *analysis) sequence() (meshes, changes int) {
	seen := map[string]bool{}
	last := ""
	for _, r := range slices.SortedFunc(slices.Values(a.records), func(x, y result.Record) int { return x.Started.Compare(y.Started) }) {
		m := levelText(r.Factors["mesh"])
		if r.Started.IsZero() || r.Factors["mesh"] == nil {
			continue
		}
		if last != "" && m != last {
			changes++
		}
		seen[m], last = true, m
	}
	return len(seen), changes
}
