package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
)

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
