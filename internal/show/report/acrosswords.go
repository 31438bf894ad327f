package report

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/compare"
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

// AcrossAnswer is the result of comparing two runs, a sentence a treatment: what its CPU per request does.
func AcrossAnswer(a *compare.Across) []string {
	words := AcrossWords(a)
	q := quantityOf(answerCost)
	var lines []string
	for _, reference := range []bool{false, true} { // baselines last
		for i, c := range a.Changes {
			if c.Metric != answerCost || c.Control || c.Difference == nil || c.Reference != reference {
				continue
			}
			if len(lines) == mostAnswers {
				return append(lines, "More are below.")
			}
			name, d := words.Names[c.Treatment], words.Comparisons[i]
			switch c.Verdict {
			case compare.Higher, compare.Lower:
				lines = append(lines, filled("{subject} uses {amount} of CPU per request {more} than before.", inWords(name, c.Verdict, sentenceWords{"amount": amountWithin(*c.Difference, q)})))
			case compare.Insufficient:
				lines = append(lines, fmt.Sprintf("%s: too few trials or base runs for a verdict on CPU.", name))
			default:
				lines = append(lines, fmt.Sprintf("%s: no change in CPU per request is shown (%s).", name, d.Both()))
			}
		}
	}
	if len(lines) == 0 {
		return []string{"The CPU per request of both runs cannot be compared."}
	}
	return lines
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
