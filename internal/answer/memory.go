package answer

import (
	"fmt"
	"slices"
	"strings"

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

// memories are the figures of memory that a longer measure phase would change.
var memories = []string{metric.Memory, metric.PeakMemory, metric.ProportionalMemory}

// markGrowth adds the warning [MemoryGrows] to figures of memory that was surely growing at the end of the measure phase, and to
// their comparisons. A longer phase would have other figures. The phase has some seconds of load.
func (r *Report) markGrowth(seconds float64) {
	grown := map[string]map[string]figures.Warning{} // by treatment and metric
	for i := range r.Treatments {
		t := &r.Treatments[i]
		grown[t.ID] = map[string]figures.Warning{}
		for _, part := range metric.IdleParts {
			words, ok := growthWords(t.Metrics, part, seconds)
			for _, base := range memories {
				name := metric.Of(base, part)
				if e, known := t.Metrics[name]; ok && known {
					w := figures.Warning{Code: MemoryGrows, Message: "still growing at the end " + words}
					e.Warnings = append(slices.Clip(e.Warnings), w)
					t.Metrics[name], grown[t.ID][name] = e, w
				}
			}
		}
	}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		for _, id := range []string{c.Treatment, c.Baseline} {
			if w, ok := grown[id][c.Metric]; ok {
				c.Warnings = append(slices.Clip(c.Warnings), w)
				break
			}
		}
	}
}

// growthWords is the growth of a part's memory: "by 192 MiB a minute (182 to 202), 32.00 KiB a request". It is not ok if the
// memory did not surely grow, or too little to be seen.
func growthWords(of map[string]compare.Estimate, part string, seconds float64) (words string, ok bool) {
	growth := of[metric.Of(metric.MemoryGrowth, part)]
	if !growth.Known() || *growth.Low*seconds/60/2 <= visibleGrowth*of[metric.Of(metric.Memory, part)].Estimate {
		return "", false
	}
	words = fmt.Sprintf("by %.0f MiB a minute (%.0f to %.0f)", growth.Estimate, *growth.Low, *growth.High)
	if per := of[metric.Of(metric.MemoryGrowthPerRequest, part)]; per.N > 0 {
		words += fmt.Sprintf(", %.2f KiB a request", per.Estimate/1000)
	}
	return words, true
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

// loadedSeconds is the longest time of a trial's measure phase in which it had the load.
func loadedSeconds(records []result.Record) (most float64) {
	for i := range records {
		if l := records[i].Load; l != nil {
			most = max(most, l.LoadedSeconds())
		}
	}
	return most
}
