package answer

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// MemoryGrows is the code of the warning that memory was still growing at the end of the measure phase.
const MemoryGrows = "memory-grows"

// visibleGrowth is the growth in the second half of the measure phase, as a share of the memory, from which the figure
// depends on the length of the phase. Programs that have just begun grow a little for minutes.
const visibleGrowth = 0.02

// memoryGrows warns of treatments whose memory was surely growing at the end of a measure phase of some seconds of load:
// its figure is of that moment, and a longer phase would have another.
func memoryGrows(treatments []compare.Treatment, seconds float64) []figures.Warning {
	var grown, about []string
	for i := range treatments {
		if treatments[i].Control {
			continue
		}
		for _, p := range metric.Parts() {
			if len(p.Planes) > 1 || !slices.Contains(metric.IdleParts, p.Name) {
				continue
			}
			of := func(base string) compare.Estimate { return treatments[i].Metrics[metric.Of(base, p.Name)] }
			growth := of(metric.MemoryGrowth)
			if !growth.Known() || *growth.Low*seconds/60/2 <= visibleGrowth*of(metric.Memory).Estimate {
				continue
			}
			text := fmt.Sprintf("%s of %s by %.0f MiB a minute (%.0f to %.0f)", p.Title, treatments[i].ID, growth.Estimate, *growth.Low, *growth.High)
			if per := of(metric.MemoryGrowthPerRequest); per.N > 0 {
				text += fmt.Sprintf(", %.2f KiB a request", per.Estimate/1000)
			}
			grown, about = append(grown, text), append(about, metric.Of(metric.Memory, p.Name))
		}
	}
	if grown == nil {
		return nil
	}
	return []figures.Warning{{Code: MemoryGrows, Metrics: about,
		Message: "memory was still growing at the end: " + printable.Listed(grown, 3),
		Hint:    "raise phases.measure to see whether it levels off, or search for a leak"}}
}

// loadedSeconds is the longest time of a trial's measure phase in which it had the load.
func loadedSeconds(records []result.Record) (most float64) {
	for i := range records {
		if l := records[i].Load; l != nil {
			most = max(most, l.LoadedSeconds())
		}
	}
	return most
}
