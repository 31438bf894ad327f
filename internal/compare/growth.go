package compare

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// MemoryGrows is the code of the warning that memory was still growing at the end of the measure phase.
const MemoryGrows = "memory-grows"

// VisibleGrowth is the growth in the second half of the measure phase, as a share of the memory, from which the figure
// depends on the length of the phase. Programs that have just begun grow a little for minutes.
const VisibleGrowth = 0.02

// memories are the figures of memory that a longer measure phase would change.
var memories = []string{metric.Memory, metric.PeakMemory, metric.ProportionalMemory}

// StillGrows reports whether memory surely and visibly grew at the end of a measure phase with some seconds of load.
// The growth is in units of the memory per minute.
func StillGrows(growth stats.Interval, memory, seconds float64) bool {
	return growth.Known() && *growth.Low*seconds/60/2 > VisibleGrowth*memory
}

// MarkGrowth adds the warning [MemoryGrows] to the figures of memory that [StillGrows]. A longer phase would have other
// figures.
func MarkGrowth(treatments []Treatment, seconds float64) {
	for _, t := range treatments {
		for _, part := range metric.IdleParts {
			growth := t.Metrics[metric.Of(metric.MemoryGrowth, part)]
			if !StillGrows(growth.Interval, t.Metrics[metric.Of(metric.Memory, part)].Estimate, seconds) {
				continue
			}
			words := fmt.Sprintf("still growing at the end by %.0f MiB a minute (%.0f to %.0f)", growth.Estimate, *growth.Low, *growth.High)
			if per := t.Metrics[metric.Of(metric.MemoryGrowthPerRequest, part)]; per.N > 0 {
				words += fmt.Sprintf(", %.2f KiB a request", per.Estimate/1000)
			}
			for _, base := range memories {
				if e, known := t.Metrics[metric.Of(base, part)]; known {
					e.Warnings = append(slices.Clip(e.Warnings), figures.Warning{Code: MemoryGrows, Message: words})
					t.Metrics[metric.Of(base, part)] = e
				}
			}
		}
	}
}

// Growing returns the warning [MemoryGrows] of a figure of memory, and the growth in MiB a minute.
func (t Treatment) Growing(name string) (growth stats.Interval, w figures.Warning, ok bool) {
	e := t.Metrics[name]
	i := slices.IndexFunc(e.Warnings, func(w figures.Warning) bool { return w.Code == MemoryGrows })
	if i < 0 {
		return growth, w, false
	}
	return t.Metrics[GrowthOf(name)].Interval, e.Warnings[i], true
}

// GrowthOf is the metric of the growth of a memory metric.
func GrowthOf(memory string) string {
	part, _ := metric.PartOf(metric.Base(memory), memory)
	return metric.Of(metric.MemoryGrowth, part)
}

// LoadedSeconds is the longest time of a trial's measure phase in which it had the load.
func LoadedSeconds(records []result.Record) (most float64) {
	for i := range records {
		if l := records[i].Load; l != nil {
			most = max(most, l.LoadedSeconds())
		}
	}
	return most
}

// markGrowth adds the growth of memory in either run to the changes of the treatments.
func (a *Across) markGrowth() {
	for i, r := range a.runs {
		treatments := r.run.Treatments()
		MarkGrowth(treatments, LoadedSeconds(r.run.Records))
		for j := range a.Changes {
			c := &a.Changes[j]
			k := slices.IndexFunc(treatments, func(t Treatment) bool { return t.ID == a.matched[c.Treatment][i] })
			if k < 0 {
				continue
			}
			name, to := "base run", &c.BaseGrowth
			if i == len(a.runs)-1 {
				name, to = "new run", &c.NewGrowth
			}
			if growth, w, ok := treatments[k].Growing(c.Metric); ok && *to == nil {
				*to, w.Message = &growth, name+": "+w.Message
				c.Warnings = append(slices.Clip(c.Warnings), w)
			}
		}
	}
}
