package figures

import (
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// startFigures computes how long a pod took to start and to stop, and the requests that a stop lost.
func startFigures(f *figures, r *result.Record) {
	if len(r.Starts) == 0 {
		return
	}
	lost := 0
	for _, s := range r.Starts {
		lost += s.Lost
	}
	f.set(metric.StopLost, float64(lost)/float64(len(r.Starts)))
	for _, part := range metric.StartParts {
		for base, of := range map[string]func(result.Start) map[string]float64{
			metric.StartTime:  func(s result.Start) map[string]float64 { return s.FirstMS },
			metric.StartLeast: func(s result.Start) map[string]float64 { return s.LeastMS },
			metric.StopTime:   func(s result.Start) map[string]float64 { return s.GoneMS },
		} {
			var all []float64
			for _, s := range r.Starts {
				if ms, known := of(s)[part]; known {
					all = append(all, ms)
				}
			}
			if len(all) > 0 {
				f.set(metric.Of(base, part), stats.Quantile(all, 0.5))
			}
		}
	}
}
