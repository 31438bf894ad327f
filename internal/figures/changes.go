package figures

import (
	"fmt"
	"math"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// changeQuantiles are the quantiles of the times of changes, by the end of a metric's part, with the number of changes
// from which a trial has them.
var changeQuantiles = []struct {
	end  string
	q    float64
	from int
}{{"", 0.5, 30}, {metric.ChangeP99, 0.99, 1000}}

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
			first, last = appendSpan(first, c.FirstNew), appendSpan(last, c.LastOld)
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
	for _, q := range changeQuantiles {
		if len(times) < q.from {
			continue
		}
		v, known := stats.CensoredQuantile(times, q.q)
		if !known {
			f.warn("change-unfinished", []string{metric.Base(name)}, fmt.Sprintf("the %g %% quantile of %s is unknown: too many changes had not reached every connection when the next ended them", 100*q.q, name),
				"leave more time between changes (changes.every), and after the last")
			continue
		}
		f.set(name+q.end, v)
	}
}

func appendSpan(all []stats.Censored, s *result.Span) []stats.Censored {
	if s == nil {
		return all
	}
	c := stats.Censored{After: s.AfterMS, Before: math.Inf(1)}
	if s.BeforeMS != nil {
		c.Before = *s.BeforeMS
	}
	return append(all, c)
}
