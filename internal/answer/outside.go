package answer

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
)

// outsideDiffers names treatments with which processes outside the trial used more or less CPU than with their baseline, unless
// the baseline differs from itself too.
func outsideDiffers(all []compare.Comparison) []figures.Warning {
	var differ []string
	for _, c := range all {
		if c.Metric != metric.OutsideCPU || c.Verdict != compare.Higher && c.Verdict != compare.Lower {
			continue
		}
		if c.Control {
			return nil
		}
		if c.Difference != nil && c.Difference.Known() {
			differ = append(differ, fmt.Sprintf("%s by %+.0f µs a request (%+.0f to %+.0f)", c.Treatment, c.Difference.Estimate, *c.Difference.Low, *c.Difference.High))
		}
	}
	if differ == nil {
		return nil
	}
	return []figures.Warning{{Code: "outside-differs", Metrics: []string{metric.OutsideCPU},
		Message: "CPU of this machine outside the trial differs from the baseline: " + printable.Listed(differ, 4),
		Hint:    "a process that the trial did not start, or the kernel, works for the treatment: the cost lacks it; `tare doctor` lists busy processes"}}
}
