package figures

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// changeFigures computes how long changes took, and the requests that failed meanwhile, by kind.
func changeFigures(f *figures, r *result.Record) {
	for _, kind := range mesh.ChangeKinds() {
		var n, failed, failing, flaps float64
		var first, last []stats.Censored
		for _, c := range r.Changes {
			if c.Kind != kind {
				continue
			}
			n++
			flaps += float64(c.Flaps)
			if failed += float64(c.Failed); c.Failed > 0 {
				failing++
			}
			if c.FirstNew != nil {
				first = append(first, c.FirstNew.Censored())
			}
			if c.LastOld != nil {
				last = append(last, c.LastOld.Censored())
			}
		}
		if n == 0 {
			continue
		}
		f.set(metric.Of(metric.ChangesMade, kind), n)
		f.set(metric.Of(metric.ChangeFailed, kind), failed/n)
		f.set(metric.Of(metric.ChangeFailing, kind), failing/n)
		if kind == mesh.RouteChanged {
			f.set(metric.Of(metric.ChangeFlaps, kind), flaps/n)
		}
		changeTimes(f, metric.Of(metric.ChangeFirstNew, kind), first)
		changeTimes(f, metric.Of(metric.ChangeLastOld, kind), last)
	}
}

func changeTimes(f *figures, name string, times []stats.Censored) {
	if len(times) == 0 {
		return
	}
	for _, q := range metric.ChangeQuantiles {
		if len(times) < q.From {
			continue
		}
		v, known := stats.CensoredQuantile(times, q.Q)
		if !known {
			f.warn("change-unfinished", []string{metric.Base(name)}, fmt.Sprintf("the %g %% quantile of %s is unknown: too many changes had not reached every connection when the next ended them", 100*q.Q, name),
				"leave more time between changes (changes.every), and after the last")
			continue
		}
		f.set(name+q.End, v)
	}
}
