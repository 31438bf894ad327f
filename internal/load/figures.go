package load

import "github.com/tare-mesh/tare/internal/load/capacity"

// Figures returns the figures for bounds.
func (r *Report) Figures() capacity.Figures {
	f := capacity.Figures{Success: r.Result.Success, Answered: r.Rate, GeneratorOK: r.Generator.OK,
		Intended: r.Intended, Completed: r.Completed, Growth: r.BacklogEnd - r.BacklogStart}
	if q := r.ResponseMS; q.Count > 0 {
		f.TimesMS = map[string]float64{"p50": q.P50, "p75": q.P75, "p90": q.P90, "p95": q.P95, "p99": q.P99, "p99.9": q.P999, "p99.99": q.P9999,
			"mean": q.Mean, "max": q.Max}
	}
	return f
}
