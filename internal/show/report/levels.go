package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// crossingClaims are one claim where the cheapest of several treatments depends on the level: at each level those that no other is
// shown to be cheaper than.
func crossingClaims(v view) []Claim {
	t := levelTableOf(v)
	var least []string
	c := Claim{Form: levelClaim, Metric: answerCost}
	everywhere := lists.Map(t.rows, func(r levelRow) string { return r.name })
	for at, level := range t.levels {
		for _, r := range t.rows {
			of := r.costs[at]
			if of.Difference == nil || of.Verdict != compare.Higher {
				return nil
			}
			c.Of = append(c.Of, partOf(of, r.name+" "+amountWithin(*of.Difference, quantityOf(answerCost))))
		}
		names, from, to := t.cheapest(at)
		words := fmt.Sprintf("%s (%s)", strings.Join(names, " or "), betweenWords(from, to))
		if len(names) == len(t.rows) {
			words = "no clear winner"
		}
		least = append(least, fmt.Sprintf("at %s %s", levelIn(t.factor, level, false), words))
		everywhere = slices.DeleteFunc(everywhere, func(name string) bool { return !slices.Contains(names, name) })
	}
	if least == nil || len(everywhere) > 0 {
		return nil
	}
	return []Claim{c.fill(sentenceWords{"least": strings.Join(least, "; ")})}
}

// betweenWords are two CPU times in a sentence: "253 to 304 µs".
func betweenWords(from, to float64) string {
	unit := quantityOf(answerCost).unitText()
	if first, last := strings.TrimSuffix(threeDigits(from), unit), threeDigits(to); first+unit != last {
		return first + " to " + last
	}
	return threeDigits(to)
}

// below reports whether a difference is shown to be smaller than another: the intervals are apart.
func below(a, b compare.Comparison) bool {
	return a.Difference.Known() && b.Difference.Known() && *a.Difference.High < *b.Difference.Low
}

// levelTable has the differences in CPU of several questions with one baseline, over the levels of one factor.
type levelTable struct {
	factor, base string
	levels       []any
	rows         []levelRow
}

// levelRow is a question, with a comparison for each level.
type levelRow struct {
	name  string
	costs []compare.Comparison
}

// cheapest are the rows that no other row is shown to be below at a level, and their smallest and largest difference in µs.
func (t levelTable) cheapest(at int) (names []string, from, to float64) {
	scale := quantityOf(answerCost).scale
	for _, r := range t.rows {
		if slices.ContainsFunc(t.rows, func(other levelRow) bool { return below(other.costs[at], r.costs[at]) }) {
			continue
		}
		us := r.costs[at].Difference.Estimate * scale
		if names = append(names, r.name); len(names) == 1 {
			from, to = us, us
		}
		from, to = min(from, us), max(to, us)
	}
	return names, from, to
}

// levelTableOf is empty for reports without two such questions.
func levelTableOf(v view) (all levelTable) {
	if sweeps(v.r) < 2 || sweeps(v.r) < len(v.r.Questions) {
		return levelTable{}
	}
	for i, q := range v.r.Questions {
		f, one := varying(v, q)
		name, base, _ := strings.Cut(v.questionWords(q), " against ")
		row := levelRow{name: name}
		var levels []any
		for _, id := range q.Treatments {
			c, _ := v.r.Find(id, answerCost)
			levels, row.costs = append(levels, v.treatment(id).Factors[f]), append(row.costs, c)
		}
		if i == 0 {
			all = levelTable{factor: f, base: base, levels: levels}
		}
		if !one || f != all.factor || base != all.base || !slices.Equal(levels, all.levels) {
			return levelTable{}
		}
		all.rows = append(all.rows, row)
	}
	return all
}

// TextTable is a table of texts with its title. The first column names the rows. A row of one cell is the title of those below it.
type TextTable struct {
	Title string
	Heads []string
	Rows  [][]string
	Notes []string // below the table
}

// LevelsOf are the differences in CPU: a row for each question and a column for each level. It is nil for reports without levels.
func LevelsOf(r *answer.Report) *TextTable {
	v := newView(r)
	t := levelTableOf(v)
	if t.rows == nil {
		return nil
	}
	all := &TextTable{Title: fmt.Sprintf("CPU added to a request, in µs, by %s (mean ± half of the %s interval)", factorWords(t.factor), v.percent()), Heads: []string{""}}
	for _, level := range t.levels {
		all.Heads = append(all.Heads, spacedLevel(t.factor, level)+map[bool]string{true: "/s"}[t.factor == experiment.RateFactor])
	}
	for _, r := range t.rows {
		row := []string{r.name}
		for _, c := range r.costs {
			row = append(row, strings.TrimSuffix(increment(c.Difference, quantityOf(answerCost).scale), " ±"+unknown))
		}
		all.Rows = append(all.Rows, row)
	}
	return all
}

// ImportedOf are the differences of an import as the text has them, or nil for other reports and without differences.
func ImportedOf(r *answer.Report) *TextTable {
	v := newView(r)
	if !v.imported() || !v.compares() {
		return nil
	}
	g, _ := differencesOf(v)
	_, uniform := v.pairs()
	columns := differenceColumns(g, Options{All: true}, uniform)
	all := &TextTable{Title: differencesTitle(v)}
	for _, c := range columns {
		all.Heads = append(all.Heads, c.heads[0])
	}
	for i := range columns[0].cells {
		row := lists.Map(columns, func(c column) string { return c.cells[i] })
		all.Rows = append(all.Rows, row)
	}
	return all
}

// levelIn is a level in a sentence: "request size 16 B", "100 requests/s". Only the first one has the factor.
func levelIn(factor string, level any, first bool) string {
	words := spacedLevel(factor, level)
	switch {
	case !first:
		return words
	case factor == experiment.RateFactor:
		return words + " requests/s"
	}
	return factorWords(factor) + " " + words
}

// sweepRow is the CPU time per request of a question over several levels: the mean of levels that are alike, otherwise at two of them.
func (v view) sweepRow(q compare.Question) row {
	name, base, _ := strings.Cut(v.questionWords(q), " against ")
	first := v.treatment(q.Treatments[0])
	subject := sidecarsOf(v, first, name)
	levels := "level"
	if f, ok := varying(v, q); ok && (f == experiment.RateFactor || strings.HasSuffix(f, "Size")) {
		levels = factorWords(f)
	}
	over := "over " + printable.Counted(len(q.Treatments), levels)
	mean := func(name string) (c compare.Comparison) {
		if i := slices.IndexFunc(q.Pooled, func(p compare.Pooled) bool { return p.Metric == name }); i >= 0 {
			p := q.Pooled[i].Judged(v.r.Confidence)
			c = compare.Comparison{Metric: name, Difference: p.Difference, Ratio: p.Ratio, N: p.N, Verdict: p.Verdict}
		}
		return c
	}
	c := costs{mean(answerCost), mean(dataCost), mean(metric.Of(metric.CPUPerRequest, string(metric.App)))}
	if c.total.Metric == "" {
		x := row{Claim: Claim{Form: noVerdict, Subject: first.ID, Baseline: first.Baseline, Metric: answerCost, Relation: compare.Insufficient, Reason: fmt.Sprintf("no mean %s, since no block has all levels", over)}, name: name, base: base, short: "without a mean"}
		x.Claim = x.fill(sentenceWords{"subject": subject, "reason": x.Reason})
		return x
	}
	var of totals
	n := float64(len(q.Treatments))
	for _, id := range q.Treatments {
		one := totalsOf(v, v.treatment(id))
		of.baseline, of.treatment = of.baseline+one.baseline/n, of.treatment+one.treatment/n
	}
	x := v.costOf(first, subject, name, base, c, ", on average "+over, of)
	x.Subject, x.Baseline = q.ID, ""
	if first, last, apart := apartAt(v, q); apart && isShown(c.total.Verdict) {
		x.apart, x.short = true, first+" and "+last
		x.Claim = Claim{Form: levelsApart, Subject: q.ID, Metric: answerCost, Relation: c.total.Verdict, Amount: c.total.Difference}.fill(inWords(subject, c.total.Verdict, sentenceWords{"first": first, "last": last}))
	}
	return x
}

// mostApart is the largest ratio between differences at levels for which their mean is printed.
const mostApart = 1.5

// apartAt are the differences at the first and the last level, where these are shown to differ so much that their mean has no
// meaning: "795 ±169 µs at 100 requests/s", "298 ±68 µs at 1200". No level is called the highest: noise would choose it.
func apartAt(v view, q compare.Question) (first, last string, apart bool) {
	factor, one := varying(v, q)
	a, _ := v.r.Find(q.Treatments[0], answerCost)
	b, _ := v.r.Find(q.Treatments[len(q.Treatments)-1], answerCost)
	if !one || a.Difference == nil || b.Difference == nil || !below(a, b) && !below(b, a) {
		return "", "", false
	}
	ratio := a.Difference.Estimate / b.Difference.Estimate
	at := func(c compare.Comparison, first bool) string {
		return amountWithin(*c.Difference, quantityOf(answerCost)) + " at " + levelIn(factor, c.Factors[factor], first)
	}
	return at(a, true), at(b, false), ratio > mostApart || 0 < ratio && ratio < 1/mostApart
}

// differingLevels are the levels that differ between the treatments of a question.
func differingLevels(v view, q compare.Question, of plan.Factors) plan.Factors {
	levels := maps.Clone(of)
	maps.DeleteFunc(levels, func(f string, _ any) bool {
		_, fixed := q.Factors[f]
		return fixed || !slices.Contains(v.label.factors, f)
	})
	return levels
}

// varying is the factor that differs between the treatments of a question. It is not ok if several do.
func varying(v view, q compare.Question) (factor string, ok bool) {
	for _, id := range q.Treatments {
		for f := range differingLevels(v, q, v.treatment(id).Factors) {
			if factor != "" && factor != f {
				return "", false
			}
			factor = f
		}
	}
	return factor, factor != ""
}

// itemUnits are units for the cost of one of many items: a thousandth of the metric's unit or less.
var itemUnits = map[string]struct {
	unit  string
	scale float64
}{
	metric.Memory:        {"KiB", 1024},
	metric.CPUPerRequest: {"ns", 1000},
	metric.IdleCPU:       {"µcores", 1e6},
	metric.Latency:       {"ns", 1e6},
	metric.CPUCores:      {"µcores", 1e6},
	metric.Push:          {"µs", 1000},
	metric.PushLast:      {"µs", 1000},
	metric.PushSync:      {"µs", 1000},

	metric.ChangeLastOld:  {"µs", 1000},
	metric.ChangeFirstNew: {"µs", 1000},
}

// slopeItems are the items of a background in a sentence.
var slopeItems = map[string]string{
	experiment.BackgroundProxiesFactor:  "simulated proxy",
	experiment.BackgroundServicesFactor: "background service",
	experiment.BackgroundPodsFactor:     "background pod",
	experiment.BackgroundChangesFactor:  "change per second",
}

// slopeClaims are the costs of each item of a background in one claim. Of several meshes, and of several levels of the other factors,
// it has the first. A figure that lies on no line is left out.
func slopeClaims(v view) []Claim {
	var claims []Claim // an option each
	of := map[string]int{}
	first := map[string]compare.Slope{}
	for _, s := range v.r.Slopes {
		if !s.IsBackground() {
			continue
		}
		f, known := first[s.Option]
		if !known {
			f, first[s.Option], of[s.Option] = s, s, len(claims)
			claims = append(claims, Claim{Form: slopeNone, Subject: s.Mesh, Reason: s.Option})
		}
		c := &claims[of[s.Option]]
		switch {
		case s.Mesh != f.Mesh || fmt.Sprint(s.Factors) != fmt.Sprint(f.Factors):
		case len(s.Warnings) > 0: // no line
			if c.Form != slopeNone {
				continue
			}
			c.Form = slopeCurved
			if first, last, known := endsOf(v, s); known {
				q := quantityOf(s.Metric)
				c.Of = []Claim{part(last, s.Metric, last.Metrics[s.Metric].Interval, fmt.Sprintf(": %s is %s%s with %.0f and %s%s with %.0f", q.name,
					rough(first.Metrics[s.Metric].Estimate*q.scale), q.unitText(), s.From, rough(last.Metrics[s.Metric].Estimate*q.scale), q.unitText(), s.To))}
			}
		case s.PerItem.Excludes(0) && (len(c.Of) < mostSlopes || c.Form == slopeCurved):
			if c.Form == slopeCurved {
				c.Of = nil
			}
			name, part, has := strings.Cut(quantityOf(s.Metric).name, ", ")
			if has {
				name += " (" + part + ")"
			}
			c.Form, c.Of = slopeClaim, append(c.Of, Claim{Subject: s.Mesh, Metric: s.Metric, Amount: &s.PerItem, Unit: s.Unit + " each", Reason: s.Option, Sentence: slopeAmount(s) + " of " + name})
		}
	}
	for i, c := range claims {
		claims[i] = c.fill(sentenceWords{"item": slopeItems[c.Reason], "subject": c.Subject, "costs": printable.And(sentencesOf(c.Of))})
	}
	return together(slopeClaim, claims...)
}

// endsOf are the treatments with the fewest and the most items of a slope.
func endsOf(v view, s compare.Slope) (first, last compare.Treatment, known bool) {
	for _, tr := range v.r.Treatments {
		items, err := strconv.ParseFloat(strings.TrimSuffix(Level(tr.Factors[s.Option]), "/s"), 64)
		alike := err == nil && !tr.Control && tr.Metrics[s.Metric].N > 0 && Level(tr.Factors[experiment.MeshFactor]) == s.Mesh
		for f, level := range s.Factors {
			alike = alike && Level(tr.Factors[f]) == Level(level)
		}
		switch {
		case alike && items == s.From:
			first = tr
		case alike && items == s.To:
			last = tr
		}
	}
	return first, last, first.ID != "" && last.ID != ""
}

// mostSlopes is the number of metrics in a sentence about an item.
const mostSlopes = 3

// slopeAmount is the cost of an item with its interval: "459 µcores (415 to 503)".
func slopeAmount(s compare.Slope) string {
	item := itemUnits[metric.Base(s.Metric)]
	low, high := *s.PerItem.Low*item.scale, *s.PerItem.High*item.scale
	return fmt.Sprintf("%s %s (%s to %s)", rough(s.PerItem.Estimate*item.scale), item.unit, rough(low), rough(high))
}

// slopesSection shows what each item of an option costs.
func slopesSection(t text) {
	if len(t.view.r.Slopes) == 0 {
		return
	}
	t.page.heading(fmt.Sprintf("Cost of each item of an option or a background, as a line over their number (± half of the %s interval)", t.view.percent()))
	g := gridOf([]int{0, 1, 3, 6}, "items", "of", "number", "metric", "without", "each item", "linear?")
	for _, s := range t.view.r.Slopes {
		q, item := quantityOf(s.Metric), itemUnits[metric.Base(s.Metric)]
		of := s.Mesh
		if words := t.view.label.phrase(s.Factors, t.view.label.factors); words != "" {
			of += ", " + words
		}
		g.row(s.Option, of, fmt.Sprintf("%.0f–%.0f", s.From, s.To), q.name, figure(s.None, q.scale, false)+q.unitText(),
			increment(&s.PerItem, item.scale)+" "+item.unit, fitWords(s.Misfit, s.Warnings, "value"))
	}
	t.page.table(g, 2)
	if t.view.short && t.view.r.Setup.Background != "" {
		t.page.prose(t.view.r.Setup.Background + ".")
	}
}

// backgroundSlopesSection shows the slopes of a run over backgrounds, whose question they answer.
func backgroundSlopesSection(t text) {
	if slices.ContainsFunc(t.view.r.Slopes, compare.Slope.IsBackground) {
		slopesSection(t)
	}
}

// rolesSection shows the roles of data and control plane, if there are several.
func rolesSection(t text) {
	var names, cpu, per, mem column
	var rows []compare.Treatment
	for _, tr := range t.view.r.Treatments {
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
			}{{&cpu, metric.CPUCores, 1000}, {&per, metric.CPUPerRequest, 1}, {&mem, metric.Memory, 1}} {
				c.to.cells = append(c.to.cells, t.view.estimate(r.Metrics[c.base], c.scale))
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	labels := t.view.label.columns(rows)
	t.page.heading("Parts by role")
	names.heads, names.left = []string{"role"}, true
	cpu.heads, per.heads, mem.heads = []string{"CPU,", "millicores"}, []string{"CPU/request,", "µs"}, []string{"memory,", "MiB"}
	t.page.table(append(labels, names, cpu, per, mem), len(labels)+1)
}

// linesSection shows fixed cost and cost per request, if there are enough rates.
func linesSection(t text) {
	if len(t.view.r.Lines) == 0 {
		return
	}
	t.page.heading(fmt.Sprintf("CPU as a line over the rate (± half of the %s interval)", t.view.percent()))
	g := gridOf([]int{0, 1, 4}, "treatments", "part", "fixed,\nmillicores", "a request,\nµs", "linear?")
	for _, l := range t.view.r.Lines {
		name := l.Part
		if l.Role != "" {
			name += ": " + roleName(l.Role, l.Component)
		}
		g.row(t.view.withoutRate(l.Factors), name, figure(l.FixedCores, 1000, false), figure(l.PerRequestUS, 1, false), fitWords(l.Misfit, l.Warnings, "rate"))
	}
	t.page.table(g, 2)
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

// fitWords is the check of a line over rates or values.
func fitWords(misfit *float64, warnings []figures.Warning, over string) string {
	switch {
	case misfit == nil:
		return "not checked"
	case len(warnings) > 0:
		return fmt.Sprintf("no (p %s): read it at each %s", pValue(*misfit), over)
	}
	return fmt.Sprintf("not rejected (p %s)", pValue(*misfit))
}

func pValue(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return fixed(p, 3)
}
