package report

import (
	"fmt"

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
}
