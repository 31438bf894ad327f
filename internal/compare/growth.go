package compare

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/plan"
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
func (a *Across) markGrowth(runs []earlier, next earlier) {
	key := keyOf(append(plansOf(runs), next.dir.Plan())...)
	marked := func(r earlier) map[string]Treatment {
		treatments := r.run.Treatments()
		MarkGrowth(treatments, LoadedSeconds(r.run.Records))
		byID, byKey := map[string]Treatment{}, map[string]Treatment{}
		for _, t := range treatments {
			byID[t.ID] = t
		}
		for _, t := range r.dir.Plan().Treatments {
			byKey[key(t)] = byID[t.ID]
		}
		return byKey
	}
	keys := map[string]string{} // by treatment of the last base run, which names changes
	for _, t := range runs[len(runs)-1].dir.Plan().Treatments {
		keys[t.ID] = key(t)
	}
	mark := func(of map[string]Treatment, name string, to func(*Runs) **stats.Interval) {
		for i := range a.Changes {
			c := &a.Changes[i]
			growth, w, ok := of[keys[c.Treatment]].Growing(c.Metric)
			if !ok || *to(c.Runs) != nil {
				continue
			}
			*to(c.Runs) = &growth
			w.Message = name + ": " + w.Message
			c.Warnings = append(slices.Clip(c.Warnings), w)
		}
	}
	for _, r := range runs {
		mark(marked(r), "base run", func(r *Runs) **stats.Interval { return &r.BaseGrowth })
	}
	mark(marked(next), "new run", func(r *Runs) **stats.Interval { return &r.NewGrowth })
}

func plansOf(runs []earlier) (all []plan.Plan) {
	for _, r := range runs {
		all = append(all, r.dir.Plan())
	}
	return all
}
