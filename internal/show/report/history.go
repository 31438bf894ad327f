package report

import (
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// history adds the change points of the series of all runs, if there are enough.
func (x across) history() {
	if x.a.History != nil {
		writeHistory(x.a.History, x.page)
	}
}

func writeHistory(h *compare.History, p *page) {
	first, last := h.Runs[0], h.Runs[len(h.Runs)-1]
	p.heading(fmt.Sprintf("%s from %s to %s", printable.Counted(len(h.Runs), "run"), first.Began.UTC().Format(time.DateOnly), last.Began.UTC().Format(time.DateOnly)))
	g := gridOf([]int{0, 1, 2}, "treatment", "metric", "from run", "before", "after", "change", "p")
	l := labelsOf(nil, factorsOf(h.Series, func(s compare.Series) plan.Factors { return s.Factors }))
	quiet, followed := 0, 0
	var dependent []string
	for _, s := range h.Series {
		if !s.Followed {
			continue
		}
		followed++
		if len(s.Changes) == 0 {
			quiet++
		}
		q := seriesQuantity(s)
		if s.Autocorrelation != nil {
			dependent = append(dependent, fmt.Sprintf("%s of %s (%.2f)", q.name, l.withControl(compare.Treatment{ID: s.Treatment, Factors: s.Factors}), *s.Autocorrelation))
		}
		for _, c := range s.Changes {
			share := none
			if c.Before > 0 {
				share = signed(100*(c.After/c.Before-1), 1) + " %"
			}
			value := func(v float64) string { return fixed(v*q.scale, decimals(v*q.scale, 0, false)) + q.unitText() }
			g.row(l.withControl(compare.Treatment{ID: s.Treatment, Factors: s.Factors}), q.name, h.Runs[c.Run].Dir, value(c.Before), value(c.After), share, pValue(c.P))
		}
	}
	if g.empty() {
		p.item("no change")
	} else {
		p.table(g, 2)
	}
	if len(h.Obstacles) > 0 {
		p.heading("Conditions that changed between the runs, a possible cause of a change above")
		for _, d := range h.Obstacles {
			p.item(h.Runs[d.Run].Dir + ": " + d.What + " changed from " + d.Base + " to " + d.New)
		}
	}
	if len(h.Warnings) > 0 {
		p.heading("Warnings about the series")
		for _, w := range h.Warnings {
			p.warning(fmt.Sprintf("%s (%s): %s", w.Code, h.Runs[w.Run].Dir, w.Message), w.Hint)
		}
	}
	if len(dependent) > 0 {
		p.heading("Neighbouring runs depend on one another: their changes are more frequent than the significance level")
		for _, s := range dependent {
			p.item(s)
		}
	}
	p.note(fmt.Sprintf("The run is the unit. %d of %d series show no change. CPU and times of a treatment are relative to its baseline in the same run, so that a faster machine is no change; JSON has the values themselves. "+
		"Each series is tested by itself (E-divisive, 999 permutations) at %g: about %.3g %% of the series of independent runs without a change show one.",
		quiet, followed, h.Alpha, 100*h.Alpha))
}

// seriesQuantity is the metric of a series. A relative one has no unit.
func seriesQuantity(s compare.Series) quantity {
	q := quantityOf(s.Metric)
	switch s.RelativeTo {
	case "":
		return q
	case s.Metric:
		return quantity{name: q.name + " over the baseline's", scale: 1}
	}
	return quantity{name: q.name + " over the baseline's " + quantityOf(s.RelativeTo).name, scale: 1}
}
