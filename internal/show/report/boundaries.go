package report

import (
	"fmt"
	"slices"
	"strings"

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

// boundaryClaims compare the CPU of each mesh's data plane with the baseline's, over the rates of imported runs, and that of the whole
// cluster where it contradicts. There is none without a shown difference.
func boundaryClaims(v view) (all []Claim) {
	if v.r.Method != compare.Unpaired {
		return nil
	}
	pairs, found := pairsOf(v, metric.Of(metric.CPUCores, string(metric.Data)))
	for _, pair := range pairs {
		data := found[pair]
		if !slices.ContainsFunc(data, func(c compare.Comparison) bool { return isShown(c.Verdict) }) || len(all) == mostAnswers {
			continue
		}
		c := Claim{Form: boundaryClaim, Metric: data[0].Metric, Of: ratiosOf(data)}
		words := sentenceWords{"subject": pair[0], "base": pair[1], "times": strings.TrimSuffix(ratioRange(data), "x"), "verdicts": verdictsByRate(data)}
		if cluster := clusterOf(v, data); cluster != nil && verdictsByRate(cluster) != verdictsByRate(data) {
			c.Of = append(c.Of, ratiosOf(cluster)...)
			words["cluster"] = fmt.Sprintf(" The whole cluster uses %s times as much (%s).", strings.TrimSuffix(ratioRange(cluster), "x"), verdictsByRate(cluster))
		}
		all = append(all, c.fill(words))
	}
	return all
}

// ratiosOf are comparisons by their ratios.
func ratiosOf(cs []compare.Comparison) (all []Claim) {
	for _, c := range cs {
		of := partOf(c, ratioWithin(*c.Ratio))
		of.Amount, of.OfRatio = c.Ratio, true
		all = append(all, of)
	}
	return all
}

// pairsOf are the comparisons by a metric over the rates of each pair of treatments.
func pairsOf(v view, name string) (pairs [][2]string, found map[[2]string][]compare.Comparison) {
	found = map[[2]string][]compare.Comparison{}
	for _, c := range v.r.Comparisons {
		if c.Metric != name || c.Control || c.Ratio == nil {
			continue
		}
		pair := [2]string{v.withoutRate(c.Factors), v.withoutRate(c.Against)}
		if found[pair] == nil {
			pairs = append(pairs, pair)
		}
		found[pair] = append(found[pair], c)
	}
	return pairs, found
}

// clusterOf are the comparisons of the whole cluster's CPU between the same treatments, or nil if one is unknown.
func clusterOf(v view, data []compare.Comparison) (cs []compare.Comparison) {
	for _, c := range data {
		whole, ok := v.r.Find(c.Treatment, metric.Of(metric.CPUCores, clusterPart))
		if !ok || whole.Ratio == nil || whole.Baseline != c.Baseline {
			return nil
		}
		cs = append(cs, whole)
	}
	return cs
}

// clusterPart is the part of the CPU that has everything.
const clusterPart = "cluster"

// boundaryHeadlines are a table for each pair of meshes, one line a boundary.
func boundaryHeadlines(t text, parts []metric.Part) {
	tables := map[[2]string]grid{}
	var order [][2]string
	ranks := map[[2]string]map[compare.Verdict][]string{} // boundaries with a verdict
	for _, p := range parts {
		pairs, found := pairsOf(t.view, metric.Of(metric.CPUCores, p.Name))
		for _, pair := range pairs {
			if tables[pair] == nil {
				order, tables[pair], ranks[pair] = append(order, pair), gridOf([]int{0, 2}, "boundary", "ratio", "verdict at each rate"), map[compare.Verdict][]string{}
			}
			tables[pair].row(p.Boundary, ratioRange(found[pair]), verdictsByRate(found[pair]))
			for _, c := range found[pair] {
				ranks[pair][c.Verdict] = append(ranks[pair][c.Verdict], p.Name)
			}
		}
	}
	for _, pair := range order {
		t.page.heading(fmt.Sprintf("CPU at each boundary: %s against %s", pair[0], pair[1]))
		t.page.table(tables[pair], 1)
		if higher, lower := slices.Compact(ranks[pair][compare.Higher]), slices.Compact(ranks[pair][compare.Lower]); len(higher) > 0 && len(lower) > 0 && !(len(higher) == 1 && slices.Equal(higher, lower)) {
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
		words := verdictWords(compare.Comparison{Verdict: v})
		if len(rates[v]) == len(cs) && len(cs) > 1 {
			return words + " at all rates"
		}
		list = append(list, fmt.Sprintf("%s at %s", words, strings.Join(rates[v], ", ")))
	}
	return strings.Join(list, "; ")
}
