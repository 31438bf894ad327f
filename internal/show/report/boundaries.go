package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
)

// boundariesSection shows the CPU of the treatments at each boundary, and which
// uses more: from the data plane alone to the whole cluster.
func boundariesSection(t text) {
	parts := slices.DeleteFunc(metric.Boundaries(), func(p metric.Part) bool { return !t.view.known(metric.Of(metric.CPUCores, p.Name)) })
	if t.view.r.Method != compare.Unpaired || len(parts) == 0 {
		return
	}
	t.page.heading(fmt.Sprintf("CPU by boundary, millicores (mean of n trials ± half of the %s interval)", t.view.percent()))
	columns := t.view.label.columns(t.view.r.Treatments)
	labels := len(columns)
	for _, p := range parts {
		c := column{heads: []string{p.Boundary}}
		for _, tr := range t.view.r.Treatments {
			c.cells = append(c.cells, cell(tr, metric.Of(metric.CPUCores, p.Name), 1000))
		}
		columns = append(columns, c)
	}
	t.page.table(columns, labels)
	boundaryHeadlines(t, parts)
}

// boundaryAnswers compares the CPU of each mesh's data plane with the baseline's, over the rates of imported runs.
// It returns no line without a shown difference.
func boundaryAnswers(v view) (lines []string) {
	if v.r.Method != compare.Unpaired {
		return nil
	}
	var pairs [][2]string
	found, shown := map[[2]string][]compare.Comparison{}, map[[2]string]bool{}
	for _, c := range v.r.Comparisons {
		if c.Metric != metric.Of(metric.CPUCores, string(metric.Data)) || c.Control || c.Ratio == nil {
			continue
		}
		pair := [2]string{v.withoutRate(c.Factors), v.withoutRate(c.Against)}
		if found[pair] == nil {
			pairs = append(pairs, pair)
		}
		found[pair] = append(found[pair], c)
		shown[pair] = shown[pair] || isShown(c.Verdict)
	}
	for _, pair := range pairs {
		if shown[pair] && len(lines) < mostAnswers {
			words := strings.Replace(verdictsByRate(found[pair]), "all of them", "all rates", 1)
			lines = append(lines, fmt.Sprintf("The data plane of %s uses %s times as much CPU as %s's (%s).%s", pair[0], strings.TrimSuffix(ratioRange(found[pair]), "x"), pair[1], words, otherBoundary(v, found[pair])))
			if len(pairs) == 1 {
				lines = append(lines, boundaryTotals(v, found[pair]))
			}
		}
	}
	return lines
}

// otherBoundary compares the whole cluster where that contradicts the data plane: " The whole
// cluster uses 0.93 to 1.34 times as much: higher at 1200 requests/s, no difference shown at the others."
func otherBoundary(v view, data []compare.Comparison) string {
	cs := clusterOf(v, data)
	if cs == nil || verdictsByRate(cs) == verdictsByRate(data) {
		return ""
	}
	var parts []string
	judged := 0
	for _, verdict := range []compare.Verdict{compare.Higher, compare.Lower} {
		var rates []string
		for _, c := range cs {
			if c.Verdict == verdict {
				rates = append(rates, Level(c.Factors[experiment.RateFactor]))
			}
		}
		if rates != nil {
			parts = append(parts, fmt.Sprintf("%s at %s requests/s", verdict, printable.And(rates)))
		}
		judged += len(rates)
	}
	switch {
	case judged == 0:
		parts = []string{"no difference shown"}
	case judged < len(cs):
		parts = append(parts, "no difference shown at the others")
	}
	return fmt.Sprintf(" The whole cluster uses %s times as much: %s.", strings.TrimSuffix(ratioRange(cs), "x"), strings.Join(parts, ", "))
}

// clusterOf are the comparisons of the whole cluster's CPU between the same treatments, or nil if one is unknown.
func clusterOf(v view, data []compare.Comparison) (cs []compare.Comparison) {
	for _, c := range data {
		whole, ok := v.compared(c.Treatment, metric.Of(metric.CPUCores, clusterPart))
		if !ok || whole.Ratio == nil || whole.Baseline != c.Baseline {
			return nil
		}
		cs = append(cs, whole)
	}
	return cs
}

// clusterPart is the part of the CPU that has everything.
const clusterPart = "cluster"

// boundaryTotals are the CPU of both meshes at the last rate: "At 1200 requests/s: data plane 5181 instead of 2623 millicores,
// whole cluster 13531 instead of 10091."
func boundaryTotals(v view, data []compare.Comparison) string {
	last := data[len(data)-1]
	s := fmt.Sprintf("At %s requests/s the data plane uses %s instead of %s millicores", Level(last.Factors[experiment.RateFactor]), millicores(v, last.Treatment, last.Metric), millicores(v, last.Baseline, last.Metric))
	if cs := clusterOf(v, data); cs != nil {
		whole := cs[len(cs)-1]
		s += fmt.Sprintf(", the whole cluster %s instead of %s", millicores(v, whole.Treatment, whole.Metric), millicores(v, whole.Baseline, whole.Metric))
	}
	return s + "."
}

func millicores(v view, treatment, name string) string {
	return fixed(1000*v.value(treatment, name), 0)
}

// boundaryHeadlines are one line a boundary for each pair of meshes.
func boundaryHeadlines(t text, parts []metric.Part) {
	var pairs []string
	found := map[string][]compare.Comparison{}
	for _, c := range t.view.r.Comparisons {
		part, ok := metric.PartOf(metric.CPUCores, c.Metric)
		if !ok || c.Control || c.Ratio == nil || !slices.ContainsFunc(parts, func(p metric.Part) bool { return p.Name == part }) {
			continue
		}
		pair := fmt.Sprintf("%s against %s", t.view.withoutRate(c.Factors), t.view.withoutRate(c.Against))
		if !slices.Contains(pairs, pair) {
			pairs = append(pairs, pair)
		}
		found[pair+"/"+part] = append(found[pair+"/"+part], c)
	}
	for _, pair := range pairs {
		t.page.heading("CPU at each boundary: " + pair)
		names, ratios, verdicts := column{heads: []string{"boundary"}, left: true}, column{heads: []string{"ratio"}}, column{heads: []string{"verdict at each rate"}, left: true}
		order := map[compare.Verdict][]int{} // boundaries with a verdict
		for i, p := range parts {
			cs := found[pair+"/"+p.Name]
			if len(cs) == 0 {
				continue
			}
			names.cells = append(names.cells, p.Boundary)
			ratios.cells = append(ratios.cells, ratioRange(cs))
			verdicts.cells = append(verdicts.cells, verdictsByRate(cs))
			for _, c := range cs {
				if !slices.Contains(order[c.Verdict], i) {
					order[c.Verdict] = append(order[c.Verdict], i)
				}
			}
		}
		t.page.table([]column{names, ratios, verdicts}, 1)
		higher, lower := order[compare.Higher], order[compare.Lower]
		if len(higher) > 0 && len(lower) > 0 && !(len(higher) == 1 && slices.Equal(higher, lower)) {
			t.page.line("")
			t.page.prose("The boundaries rank the two differently: which one costs less depends on the boundary.")
		}
	}
}

// ratioRange is the range of the ratios over rates.
func ratioRange(cs []compare.Comparison) string {
	least, most := cs[0].Ratio.Estimate, cs[0].Ratio.Estimate
	for _, c := range cs {
		least, most = min(least, c.Ratio.Estimate), max(most, c.Ratio.Estimate)
	}
	if len(cs) == 1 {
		return fixed(least, 2) + "x"
	}
	return fixed(least, 2) + " to " + fixed(most, 2) + "x"
}

// verdictsByRate lists the verdicts, equal ones together.
func verdictsByRate(cs []compare.Comparison) string {
	var order []compare.Verdict
	rates := map[compare.Verdict][]string{}
	for _, c := range cs {
		if rates[c.Verdict] == nil {
			order = append(order, c.Verdict)
		}
		rates[c.Verdict] = append(rates[c.Verdict], Level(c.Factors[experiment.RateFactor]))
	}
	var list []string
	for _, v := range order {
		if len(rates[v]) == len(cs) && len(cs) > 1 {
			return string(v) + " at all of them"
		}
		list = append(list, fmt.Sprintf("%s at %s", v, strings.Join(rates[v], ", ")))
	}
	return strings.Join(list, "; ")
}
