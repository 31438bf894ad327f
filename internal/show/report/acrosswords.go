package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// AcrossWords are the words of two runs compared. Comparisons are in the order of the changes.
func AcrossWords(a *compare.Across) Words {
	l := acrossLabels(a)
	w := Words{Names: map[string]string{}, Shown: shownMetrics, Comparisons: []ComparisonWords{}}
	seen := map[string]bool{}
	for _, c := range a.Changes {
		w.Names[c.Treatment] = l.withControl(compare.Treatment{ID: c.Treatment, Factors: c.Factors, Control: c.Control})
		w.Comparisons = append(w.Comparisons, comparisonWords(compare.Comparison{Metric: c.Metric, Difference: c.Difference, Ratio: c.Ratio, Verdict: c.Verdict}))
		if last := &w.Comparisons[len(w.Comparisons)-1]; c.NewGrowth != nil || c.BaseGrowth != nil {
			last.Difference = spaced(spaced(last.Difference, sided("base", c.BaseGrowth)), sided("new", c.NewGrowth))
		}
		if !seen[c.Metric] {
			seen[c.Metric] = true
			q := quantityOf(c.Metric)
			w.Metrics = append(w.Metrics, MetricWords{c.Metric, q.name, q.unit, q.scale})
		}
	}
	return w
}

// acrossResults are the metrics of the result of compared runs: of each line the first known one. Lines after the first are of runs of
// requests without CPU times.
var acrossResults = [][]struct{ metric, name string }{
	append([]struct{ metric, name string }{{answerCost, "CPU per request"}, {metric.WallTime, "wall time"}}, answerTimes...),
	{{metric.Rate, "rate of answers"}},
	{{metric.ErrorRatio, "share of failed requests"}},
}

// isAcrossResult reports whether a metric may be in the result of compared runs.
func isAcrossResult(name string) bool {
	return slices.ContainsFunc(slices.Concat(acrossResults...), func(x struct{ metric, name string }) bool { return x.metric == name })
}

// AcrossAnswer is the result of comparing runs, a sentence a claim.
func AcrossAnswer(a *compare.Across) []string {
	return firstOf(sentencesOf(acrossClaims(a)), mostAnswers)
}

// acrossClaims are the gate that matters most, and what changed with each treatment, shown changes first and baselines last.
func acrossClaims(a *compare.Across) (all []Claim) {
	l, before := acrossLabels(a), a.Base.Dir
	if n := len(a.BaseRuns); n > 1 {
		before = printable.Counted(n, "base run")
	}
	found, treatments := map[string]compare.Comparison{}, []compare.Comparison{}
	for _, c := range a.Changes {
		if c.Runs == nil || c.Control || c.Difference == nil {
			continue
		}
		if !slices.ContainsFunc(treatments, func(t compare.Comparison) bool { return t.Treatment == c.Treatment }) {
			treatments = append(treatments, c)
		}
		found[c.Treatment+"\x00"+c.Metric] = c.Judged(a.Confidence)
	}
	ranks := map[string]int{}
	for _, t := range treatments {
		name := l.withControl(compare.Treatment{ID: t.Treatment, Factors: t.Factors})
		for i, line := range acrossResults {
			at := slices.IndexFunc(line, func(x struct{ metric, name string }) bool { _, ok := found[t.Treatment+"\x00"+x.metric]; return ok })
			if at < 0 {
				continue
			}
			c := found[t.Treatment+"\x00"+line[at].metric]
			if _, seen := ranks[t.Treatment]; !seen {
				ranks[t.Treatment] = verdictRank(c.Verdict) + map[bool]int{true: 3}[c.Reference]
			}
			if i == 0 || *c.Base != 0 || *c.New != 0 {
				all = append(all, acrossClaim(a, c, name, line[at].name, before))
			}
			if c.Metric == answerCost || c.Metric == metric.WallTime {
				break
			}
		}
	}
	slices.SortStableFunc(all, func(x, y Claim) int { return ranks[x.Subject] - ranks[y.Subject] })
	if all = append(acrossGate(a, l, before), all...); all == nil {
		all = []Claim{{Form: acrossNone, Relation: compare.Insufficient, Baseline: before, Reason: acrossNone.words, Sentence: acrossNone.words}}
	}
	return all
}

// acrossClaim is a change of a metric: "istio: the median response time is higher: 3.3 ms, before 2.0 ms (+1.30 ±0.02 ms)."
func acrossClaim(a *compare.Across, c compare.Comparison, subject, name, before string) Claim {
	q := quantityOf(c.Metric)
	was, is := apart(*c.Base*q.scale, *c.New*q.scale)
	words := sentenceWords{"subject": subject, "name": name, "was": was, "is": is, "unit": q.unitText(), "verdict": string(c.Verdict), "change": comparisonWords(c).Both()}
	if c.OnRatio && !c.Difference.Known() {
		words["change"] += ratioText(c.Ratio)
	}
	x := Claim{Form: acrossMoved, Subject: c.Treatment, Baseline: before, Metric: c.Metric, Relation: c.Verdict, Amount: c.Difference}
	switch {
	case c.Verdict == compare.Insufficient:
		x.Form, x.Reason = acrossFew, "too few trials for a verdict"
		switch {
		case len(a.BaseRuns) > 1:
			x.Reason = fmt.Sprintf("%s, and an interval needs %d", printable.Counted(c.BaseRuns, "base run"), stats.MinN)
		case c.NBase == 1 && c.NNew == 1:
			x.Reason = "one run each, so no interval"
		}
		words["reason"] = x.Reason
	case !isShown(c.Verdict):
		x.Form = acrossOpen
	}
	return x.fill(words)
}

// acrossGate has the claim about the gate that matters most.
func acrossGate(a *compare.Across, l labels, before string) []Claim {
	if len(a.Gates) == 0 {
		return nil
	}
	size := func(g compare.GateCheck) float64 {
		if g.Change == nil {
			return 0
		}
		return math.Abs(g.Change.Estimate)
	}
	g := slices.SortedStableFunc(slices.Values(a.Gates), func(x, y compare.GateCheck) int {
		return cmp.Or(outcomeRank[x.Outcome]-outcomeRank[y.Outcome], cmp.Compare(size(y), size(x)))
	})[0]
	c := Claim{Form: gateClaim, Subject: g.Treatment, Baseline: before, Metric: g.Metric, Relation: compare.Verdict(g.Outcome), Amount: g.Change, Unit: g.Unit}
	words := sentenceWords{"gate": g.Gate, "outcome": outcomeVerbs[g.Outcome], "sides": l.withControl(compare.Treatment{ID: g.Treatment, Factors: g.Factors})}
	if g.Outcome == compare.Undecided {
		c.Reason, words["settle"] = g.Why, " "+capital(g.Why)+"."
	}
	if g.Change != nil {
		words["change"] = ChangeWords(compare.Decision{Change: g.Change, Unit: g.Unit, Metric: g.Metric}) + ", "
	}
	return []Claim{c.fill(words)}
}

// SeriesWords are a followed series with its name and unit as reports print them.
type SeriesWords struct {
	compare.Series
	Title string  `json:"title"`
	Unit  string  `json:"unit"`
	Scale float64 `json:"scale"`
}

// HistoryWords are the series that show changes of treatments, those with a change first.
func HistoryWords(h *compare.History) []SeriesWords {
	var changed, quiet []SeriesWords
	for _, s := range h.Series {
		if !s.Followed {
			continue
		}
		q := seriesQuantity(s)
		w := SeriesWords{s, s.Treatment + ", " + q.name, q.unit, q.scale}
		if len(s.Changes) > 0 {
			changed = append(changed, w)
		} else {
			quiet = append(quiet, w)
		}
	}
	return append(changed, quiet...)
}
