package figures

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// FuzzRecord: every figure of a record is a number, or absent.
func FuzzRecord(f *testing.F) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, r := range []result.Record{{
		Load:  &result.Load{Start: at, End: at.Add(time.Second), Completed: 100, Classes: map[string]int64{"2xx": 100}, MeasureSeconds: 1},
		Tasks: []result.TaskUsage{{Start: result.Reading{At: at, CPU: 1}, End: result.Reading{At: at.Add(time.Second), CPU: 100, RSS: 5}}},
		Node:  &result.NodeUsage{Start: result.NodeReading{At: at}, End: result.NodeReading{At: at.Add(time.Second), Busy: 5}},
	}} {
		b := must.Get(json.Marshal(r))(f)
		f.Add(b)
	}
	f.Add([]byte(`{"sampled":{"source":"x","tasks":[{"id":"a","plane":"data"}],"rows":[{"at":"2026-03-01T12:00:00Z","cores":[1.5],"memory":[7]},{"at":"2026-03-01T12:00:30Z","cores":[null]}]}}`))
	f.Add([]byte(`{"probe":{"before":{"work":"w","cpus":[{"pieces":1,"ns":5}]},"after":{"work":"w","cpus":[{"pieces":2,"ns":5}]}}}`))
	f.Add([]byte(`{"load":{"completed":-1,"measureSeconds":1e-300,"classes":{"2xx":-5}},"tasks":[{"plane":"app","end":{"cpu":-9223372036854775808}}]}`))
	f.Add([]byte(`{"load":{"routes":{"GET /a":{"requests":9223372036854775807,"failed":9223372036854775807,"p50MS":-1,"p99MS":1e308}}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r result.Record
		if json.Unmarshal(b, &r) != nil {
			return
		}
		for _, published := range []bool{false, true} {
			figures := trialFigures(&r, published)
			latencyFigures(figures, &r, "/nowhere/absent", published)
			requestFigures(figures, &r)
			failureFigures(figures, &r, "/nowhere/absent")
			figures.withhold(r.Warnings)
			for name, v := range figures.values {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Errorf("%s is %v", name, v)
				}
			}
		}
	})
}
