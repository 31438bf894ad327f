package predict

import (
	"slices"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// Growing is memory of proxies that was still growing at the end of the measure phase: longer trials have more.
type Growing struct {
	PerMinute stats.Interval `json:"mib_per_minute"` // of the mean proxy
	Rate      float64        `json:"rate"`           // requests/s at which it grew fastest, 0 if the rate is no factor
}

// growths are the growths of the mean proxy of a kind, in the trials at each place.
type growths struct {
	places  []grown
	seconds float64 // of load, the longest
}

type grown struct {
	at                []float64
	perMinute, memory []float64 // MiB, of each trial
}

// add adds the proxies of a trial.
func (g *growths) add(r *result.Record, at []float64, tasks []result.TaskUsage) {
	perMinute, ok := figures.MemoryGrowth(r, tasks)
	if !ok {
		return
	}
	g.seconds = max(g.seconds, r.Load.LoadedSeconds())
	i := slices.IndexFunc(g.places, func(p grown) bool { return slices.Equal(p.at, at) })
	if i < 0 {
		i = len(g.places)
		g.places = append(g.places, grown{at: at})
	}
	p, n := &g.places[i], float64(len(tasks))
	var memory float64
	for _, t := range tasks {
		memory += float64(t.End.RSS) / (1 << 20) / n
	}
	p.perMinute, p.memory = append(p.perMinute, perMinute/n), append(p.memory, memory)
}

// fastest returns the fastest growth that [compare.StillGrows], or nil.
func (g *growths) fastest(confidence float64) (found *Growing) {
	for _, p := range g.places {
		growth := stats.MeanInterval(p.perMinute, confidence).Interval
		if !compare.StillGrows(growth, stats.Mean(p.memory), g.seconds) || found != nil && growth.Estimate <= found.PerMinute.Estimate {
			continue
		}
		found = &Growing{PerMinute: growth}
		if len(p.at) > 0 {
			found.Rate = p.at[0]
		}
	}
	return found
}

// growing returns the fastest growth of memory in the sources of sidecars, or nil.
func (c *Costs) growing(proxies []proxy) (fastest *Growing) {
	for _, x := range partsOf(proxies, weights{1, 1}) {
		for _, g := range x.source.growths {
			if found := g.fastest(c.confidence); found != nil && (fastest == nil || found.PerMinute.Estimate > fastest.PerMinute.Estimate) {
				fastest = found
			}
		}
	}
	return fastest
}
