package report

import (
	"fmt"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/metric"
)

// OutsideLine is the CPU of this machine outside the trial, compared with the baseline. It is empty where
// it was not measured.
func OutsideLine(r *answer.Report) string {
	var parts []string
	v := newView(r)
	for _, c := range r.Comparisons {
		if c.Metric != metric.OutsideCPU || c.Difference == nil || !c.Difference.Known() {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %+.0f µs (%+.0f to %+.0f)", v.label.withControl(v.treatment(c.Treatment)), c.Difference.Estimate, *c.Difference.Low, *c.Difference.High))
	}
	if len(parts) == 0 {
		return ""
	}
	return "CPU of this machine that nobody in the trial used, per request: " + strings.Join(parts, ", ")
}
