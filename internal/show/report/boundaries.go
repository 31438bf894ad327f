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
		pair := [2]string{v.withoutRate(c.Factors), baselineWords(v.withoutRate(c.Against))}
		if found[pair] == nil {
			pairs = append(pairs, pair)
		}
		found[pair] = append(found[pair], c)
		shown[pair] = shown[pair] || c.Verdict == compare.Higher || c.Verdict == compare.Lower
	}
	for _, pair := range pairs {
		if shown[pair] && len(lines) < mostAnswers {
			words := strings.Replace(verdictsByRate(found[pair]), "all of them", "all rates", 1)
			lines = append(lines, fmt.Sprintf("The data plane of %s uses %s times as much CPU as %s's (%s)%s.", pair[0], strings.TrimSuffix(ratioRange(found[pair]), "x"), pair[1], words, boundaryTotals(v, found[pair])))
		}
	}
	return lines
}

// boundaryTotals are the CPU of both meshes at the first and the last rate: ": 269 instead of 155 millicores at 60 requests/s".
func boundaryTotals(v view, cs []compare.Comparison) string {
	var parts []string
	for i, c := range cs {
		rate := Level(c.Factors[experiment.RateFactor]) + " requests/s"
		if of, base := v.value(c.Treatment, c.Metric), v.value(c.Baseline, c.Metric); of > 0 && base > 0 && (i == 0 || i == len(cs)-1) {
			parts = append(parts, fmt.Sprintf("%s instead of %s millicores at %s", fixed(1000*of, 0), fixed(1000*base, 0), rate))
		}
	}
	if parts == nil {
		return ""
	}
	return ": " + printable.And(parts)
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
		t.page.heading("One headline a boundary: CPU of " + pair)
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
