package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// boundaryNames are the boundaries as a person reads them.
var boundaryNames = map[string]string{
	"data": "data plane", "mesh": "mesh", "business": "mesh + app + load", "cluster": "whole cluster",
}

// isImported reports whether the runs were another tool's: they are compared
// unpaired, and each boundary gets a headline.
func (t *text) isImported() bool { return t.r.Method != analysis.Paired }

// boundaries says, for each boundary, what the treatments burn and which burns
// more: from what the mesh burns itself to all that is burnt where it runs.
func (t *text) boundaries() {
	parts := slices.DeleteFunc(analysis.Boundaries(), func(p string) bool { return !t.known("cpu_cores/" + p) })
	if t.r.Method != analysis.Unpaired || len(parts) == 0 {
		return
	}
	t.title(fmt.Sprintf("CPU by boundary, millicores (mean of n trials ± half of its %s interval)", t.percent()))
	columns := t.label.columns(t.r.Treatments)
	labels := len(columns)
	for _, p := range parts {
		c := column{heads: []string{boundaryNames[p]}}
		for _, tr := range t.r.Treatments {
			c.cells = append(c.cells, cell(tr, "cpu_cores/"+p, 1000))
		}
		columns = append(columns, c)
	}
	t.table(columns, labels, "  ")
	t.headlines(parts)
}

func (t *text) known(metric string) bool {
	return slices.ContainsFunc(t.r.Treatments, func(tr analysis.Treatment) bool { _, ok := tr.Metrics[metric]; return ok })
}

// headlines are one sentence a boundary and pair of meshes.
func (t *text) headlines(parts []string) {
	var pairs []string
	found := map[string][]analysis.Comparison{}
	for _, c := range t.r.Comparisons {
		part, ok := strings.CutPrefix(c.Metric, "cpu_cores/")
		if !ok || c.Control || !slices.Contains(parts, part) || c.Ratio == nil {
			continue
		}
		pair := fmt.Sprintf("%s against %s", t.withoutRate(c.Factors), t.withoutRate(c.Against))
		if !slices.Contains(pairs, pair) {
			pairs = append(pairs, pair)
		}
		found[pair+"/"+part] = append(found[pair+"/"+part], c)
	}
	for _, pair := range pairs {
		t.title("One headline a boundary: CPU of " + pair)
		names, low, verdicts := column{heads: []string{"boundary"}, left: true}, column{heads: []string{"ratio"}}, column{heads: []string{"verdict at each rate"}, left: true}
		rank := map[string]bool{}
		for _, p := range parts {
			cs := found[pair+"/"+p]
			if len(cs) == 0 {
				continue
			}
			names.cells = append(names.cells, boundaryNames[p])
			low.cells = append(low.cells, spanOf(cs))
			s, ranks := t.verdicts(cs)
			verdicts.cells = append(verdicts.cells, s)
			rank[ranks] = true
		}
		t.table([]column{names, low, verdicts}, 1, "  ")
		if len(rank) > 1 {
			t.line("")
			t.wrapped("The boundaries do not rank the two alike: which of them costs less depends on what is counted.")
		}
	}
}

// spanOf is the range of the ratios over rates.
func spanOf(cs []analysis.Comparison) string {
	least, most := cs[0].Ratio.Estimate, cs[0].Ratio.Estimate
	for _, c := range cs {
		least, most = min(least, c.Ratio.Estimate), max(most, c.Ratio.Estimate)
	}
	if len(cs) == 1 {
		return fixed(least, 2) + "x"
	}
	return fixed(least, 2) + " to " + fixed(most, 2) + "x"
}

// verdicts are told rate by rate, equal ones together; ranks is what they say in short.
func (t *text) verdicts(cs []analysis.Comparison) (told, ranks string) {
	var order []analysis.Verdict
	at := map[analysis.Verdict][]string{}
	for _, c := range cs {
		if at[c.Verdict] == nil {
			order = append(order, c.Verdict)
		}
		at[c.Verdict] = append(at[c.Verdict], level(c.Factors["rate"]))
	}
	var words []string
	for _, v := range order {
		if len(at[v]) == len(cs) && len(cs) > 1 {
			return string(v) + " at all of them", string(v)
		}
		words = append(words, fmt.Sprintf("%s at %s", v, strings.Join(at[v], ", ")))
	}
	return strings.Join(words, "; "), strings.Join(words, "; ")
}

func (t *text) withoutRate(f plan.Factors) string {
	return t.label.phrase(f, slices.DeleteFunc(slices.Clone(t.label.factors), func(n string) bool { return n == "rate" }))
}

// roles shows the parts of data and control plane, where there are several.
func (t *text) roles() {
	var names, cpu, per, mem column
	var rows []analysis.Treatment
	for _, tr := range t.r.Treatments {
		for _, r := range tr.Roles {
			rows = append(rows, tr)
			name := roleName(r.Role, r.Component)
			if r.Plane == metric.Control {
				name = "control plane: " + name
			}
			names.cells = append(names.cells, name)
			for _, c := range []struct {
				to    *column
				base  string
				scale float64
			}{{&cpu, "cpu_cores", 1000}, {&per, "cpu_us_per_request", 1}, {&mem, "memory_mib", 1}} {
				c.to.cells = append(c.to.cells, t.estimate(r.Metrics[c.base], c.scale))
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	labels := t.label.columns(rows)
	t.title("Parts by role")
	names.heads, names.left = []string{"role"}, true
	cpu.heads, per.heads, mem.heads = []string{"CPU,", "millicores"}, []string{"CPU/request,", "µs"}, []string{"memory,", "MiB"}
	t.table(append(labels, names, cpu, per, mem), len(labels)+1, "  ")
}

// estimate is a figure; one that was published stands alone, without an interval.
func (t *text) estimate(e analysis.Estimate, scale float64) string {
	switch {
	case e.N == 0:
		return unknown
	case t.r.Method == analysis.AsPublished:
		return fixed(e.Estimate*scale, 1)
	}
	return figure(e.Interval, scale, warned(e.Warnings, "no-spread"))
}

func roleName(role, component string) string {
	switch {
	case role == result.RoleNamespace:
		return role + " " + component
	case component != "":
		return role + " of the " + component
	}
	return role
}

// lines shows fixed cost and cost per request, where there are rates enough.
func (t *text) lines() {
	if len(t.r.Lines) == 0 {
		return
	}
	t.title(fmt.Sprintf("CPU as a line over the rate (± half of the %s interval)", t.percent()))
	label, part := column{heads: []string{"treatments"}, left: true}, column{heads: []string{"part"}, left: true}
	fixedCost, per := column{heads: []string{"fixed,", "millicores"}}, column{heads: []string{"a request,", "µs"}}
	fits := column{heads: []string{"is it a line?"}, left: true}
	for _, l := range t.r.Lines {
		label.cells = append(label.cells, t.withoutRate(l.Factors))
		name := l.Part
		if l.Role != "" {
			name += ": " + roleName(l.Role, l.Component)
		}
		part.cells = append(part.cells, name)
		fixedCost.cells = append(fixedCost.cells, figure(l.FixedCores, 1000, false))
		per.cells = append(per.cells, figure(l.PerRequestUS, 1, false))
		fits.cells = append(fits.cells, fitWords(l))
	}
	t.table([]column{label, part, fixedCost, per, fits}, 2, "  ")
}

func fitWords(l analysis.Line) string {
	switch {
	case l.Misfit == nil:
		return "cannot be checked"
	case len(l.Warnings) > 0:
		return fmt.Sprintf("no (p %s): read it at each rate", pValue(*l.Misfit))
	}
	return fmt.Sprintf("nothing against it (p %s)", pValue(*l.Misfit))
}

// pValue writes a p-value.
func pValue(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return fixed(p, 3)
}

// published are the columns of figures that were reduced as their source did.
var published = []struct {
	metric string
	heads  [2]string
	scale  float64
}{
	{"cpu_cores/data", [2]string{"data plane", "CPU, mC"}, 1000},
	{"memory_mib/data", [2]string{"data plane", "memory, MiB"}, 1},
	{"cpu_cores/control", [2]string{"control plane", "CPU, mC"}, 1000},
	{"cpu_cores/app", [2]string{"application", "CPU, mC"}, 1000},
	{"cpu_cores/load", [2]string{"load generator", "CPU, mC"}, 1000},
	{"cpu_cores/cluster", [2]string{"cluster", "CPU, mC"}, 1000},
	{"latency_ms/p50", [2]string{"mean of pods'", "P50, ms"}, 1},
	{"latency_ms/p90", [2]string{"mean of pods'", "P90, ms"}, 1},
	{"latency_ms/p98.9", [2]string{"called P99:", "P98.9, ms"}, 1},
	{"latency_ms/p99", [2]string{"mean of pods'", "P99, ms"}, 1},
	{"rate", [2]string{"answered", "per second"}, 1},
}

// asPublished is one line a treatment: means over runs, as plotted, without an interval.
func (t *text) asPublished() {
	t.title("As published (the source's filter in each run, then the mean of n runs; the source gives no intervals)")
	columns := t.label.columns(t.r.Treatments)
	n := column{heads: []string{"n"}}
	for _, tr := range t.r.Treatments {
		n.cells = append(n.cells, fmt.Sprint(tr.N))
	}
	columns = append(columns, n)
	labels := len(columns)
	for _, p := range published {
		if !t.known(p.metric) {
			continue
		}
		c := column{heads: p.heads[:]}
		for _, tr := range t.r.Treatments {
			c.cells = append(c.cells, t.estimate(tr.Metrics[p.metric], p.scale))
		}
		columns = append(columns, c)
	}
	t.table(columns, labels, "  ")
}
