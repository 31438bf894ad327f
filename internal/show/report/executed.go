package report

import (
	"slices"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// executedVerbs begin what a program that ends has more or less of.
var executedVerbs = map[string]string{metric.WallTime: "takes", metric.CPUTime: "uses", metric.PeakOfExecution: "has"}

// executedSection is a sentence and a few rows about programs that end.
func executedSection(t text) {
	for _, c := range append(executedClaims(t.view, metric.WallTime), emptyClaims(t.view.r)...) {
		t.page.prose(c.Sentence)
	}
	if len(t.view.r.Executed) > 0 {
		executedTable(t)
		t.page.line("")
	}
}

// executedClaims are a claim for each program that ends and metric: "new takes more wall time than old: +3.1 % (+2.2 to +4.0),
// 103 ms instead of 100 ms."
func executedClaims(v view, metrics ...string) (all []Claim) {
	for _, name := range metrics {
		for _, d := range v.r.Executed {
			if _, gated := gateOn(v.r, d); d.Metric != name || d.A == nil || d.B == nil || gated {
				continue // the sentence of the gate has it
			}
			q := quantityOf(d.Metric)
			was, is := apart(*d.A*q.scale, *d.B*q.scale)
			c := Claim{Form: executedMoved, Subject: d.Treatment, Baseline: d.Baseline, Metric: d.Metric, Relation: compare.Higher, Amount: d.Change, Unit: d.Unit}
			switch {
			case !d.Change.Excludes(0):
				c.Form, c.Relation = executedOpen, compare.NotShown
			case d.Change.Estimate < 0:
				c.Relation = compare.Lower
			}
			words := inWords(nameOf(v, d.Treatment), c.Relation, sentenceWords{"base": nameOf(v, d.Baseline), "does": executedVerbs[name], "name": q.name, "change": ChangeWords(d), "was": was, "is": is, "unit": q.unitText()})
			all = append(all, c.fill(words))
		}
	}
	return all
}

// gateOn is the gate on a figure of programs that end. Its interval is the only one of the figure.
func gateOn(r *answer.Report, of compare.Decision) (compare.Decision, bool) {
	i := slices.IndexFunc(r.Decisions, func(d compare.Decision) bool {
		return d.Metric == of.Metric && d.Treatment == of.Treatment && d.Baseline == of.Baseline && d.Change != nil && d.Unit == of.Unit
	})
	if i < 0 {
		return of, false
	}
	return r.Decisions[i], true
}

// emptyClaims has the claim about the time that is subtracted from executions, none without such a time.
func emptyClaims(r *answer.Report) []Claim {
	e := r.Setup.Empty
	if e == nil {
		return nil
	}
	amount := func(i stats.Interval) string { return amountWithin(i, quantityOf(metric.WallTime)) }
	return []Claim{Claim{Form: executedEmpty, Metric: metric.WallTime, Amount: &e.Wall, Unit: "ms"}.fill(sentenceWords{"wall": amount(e.Wall), "cpu": amount(e.CPU)})}
}

// executedTable has a row for each figure of programs that end.
func executedTable(t text) {
	r := t.view.r
	g := gridOf([]int{0}, "", "A", "B", "change")
	for _, d := range r.Executed {
		q := quantityOf(d.Metric)
		name := q.name
		if len(executedBy(r)) > 1 {
			name += ", " + nameOf(t.view, d.Treatment)
		}
		a, b := apart(*d.A*q.scale, *d.B*q.scale)
		shown, _ := gateOn(r, d)
		g.row(name, a+q.unitText(), b+q.unitText(), ChangeWords(shown))
	}
	t.page.table(g, 1)
}

// executedBy are the programs that end which are compared with others.
func executedBy(r *answer.Report) map[string]bool {
	all := map[string]bool{}
	for _, d := range r.Executed {
		all[d.Treatment] = true
	}
	return all
}
