package engine

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
)

// TestANumberOfRequests checks the exact number of requests over workers and parts that do not divide it.
func TestANumberOfRequests(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string) {
		url := rawServer(t, replying(helloResponse))
		for _, rate := range []float64{0, 1000} {
			p := on(profile(url), engine)
			p.Rate, p.Requests, p.Workers, p.Tail, p.Warmup, p.Measure = rate, 100, 3, 0, 50*time.Millisecond, time.Minute
			r := mustRun(t, p)
			// With those sent before the window: one a connection, or as many as were due.
			most := 100 + int64(max(float64(p.Connections), rate*p.Warmup.Seconds()))
			if r.Requests != 100 || r.Completed < 100 || r.Completed > most ||
				r.Classes[load.OK] != 100 || len(r.Warnings) > 0 && r.Warnings[0][:7] == "stopped" {
				t.Errorf("rate %v: %+v", rate, r)
			}
			if took := r.MeasureEnd.Sub(r.MeasureStart); took <= 0 || took > 30*time.Second {
				t.Errorf("rate %v: took %v", rate, took)
			}
			var sum int64
			p.Parts, p.Requests, p.Warmup = 3, 7, 0
			var reports []load.Report
			for p.Part = range 3 {
				part := mustRun(t, p)
				reports = append(reports, part)
				sum += part.Requests
			}
			m, err := record.Merge(reports)
			if err != nil || sum != 7 || m.Requests != 7 {
				t.Errorf("7 requests over 3 parts are %d, merged %d: %v", sum, m.Requests, err)
			}
		}
	})
}
