package answer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// MemoryGrows is the code of the warning that memory was still growing at the end of the measure phase.
const MemoryGrows = compare.MemoryGrows

// markGrowth marks figures of memory that was surely growing at the end of the measure phase, and their comparisons. The
// phase has some seconds of load.
func (r *Report) markGrowth(seconds float64) {
	compare.MarkGrowth(r.Treatments, seconds)
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		for _, t := range r.Treatments {
			if _, w, ok := t.Growing(c.Metric); ok && (t.ID == c.Treatment || t.ID == c.Baseline) {
				c.Warnings = append(slices.Clip(c.Warnings), w)
				break
			}
		}
	}
}

// GrowingApart is the difference in growth of a comparison of memory of which a side was still growing, MiB a minute, or nil.
func (r *Report) GrowingApart(c compare.Comparison) *stats.Interval {
	if !slices.ContainsFunc(c.Warnings, func(w figures.Warning) bool { return w.Code == MemoryGrows }) {
		return nil
	}
	g, _ := r.Find(c.Treatment, compare.GrowthOf(c.Metric))
	return g.Difference
}

// memoryGrows is the warning of the report about the planes of treatments with a mark of [Report.markGrowth].
func memoryGrows(treatments []compare.Treatment) []figures.Warning {
	var grown, about []string
	for i := range treatments {
		t := &treatments[i]
		for _, p := range metric.Parts() {
			name := metric.Of(metric.Memory, p.Name)
			if t.Control || len(p.Planes) > 1 {
				continue
			}
			for _, w := range t.Metrics[name].Warnings {
				if w.Code == MemoryGrows {
					grown = append(grown, fmt.Sprintf("%s of %s %s", p.Title, t.ID, strings.TrimPrefix(w.Message, "still growing at the end ")))
					about = append(about, name)
				}
			}
		}
	}
	if grown == nil {
		return nil
	}
	return []figures.Warning{{Code: MemoryGrows, Metrics: about,
		Message: "memory was still growing at the end: " + printable.Listed(grown, 3),
		Hint:    "run longer, with `phases.soak`, to see whether it levels off, or search for a leak"}}
}
