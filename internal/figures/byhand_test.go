package figures

import (
	"math"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// A trial that hands changed has the planted figures of each interval between two changes. Replicas that are changed one after
// another are one change, and seconds with a change are in no interval.
func TestHandPhases(t *testing.T) {
	r := failureRecord(150)
	for _, c := range []struct {
		target string
		at     float64
	}{{"front-0", -1}, {"back-0", 2.5}, {"back-1", 2.53}, {"back-0", 6.2}, {"front-0", 12}} {
		r.ByHand = append(r.ByHand, result.ByHand{Target: c.target, At: edge.Add(time.Duration(c.at * float64(time.Second))), Patch: "{}"})
	}
	task := &r.Tasks[0] // the application: 0.2 cores, and from the third second 0.6
	for s := 1.0; s <= 10; s++ {
		task.Memory = append(task.Memory, result.MemoryReading{Seconds: s, RSS: 1 << 20, CPU: task.Start.CPU + int64(1e9*(0.2*min(s, 3)+0.6*max(0, s-3)))})
	}
	phases := handPhases(&r, failing(t, 0, 0, 0, 50, 50, 50, 0, 0, 0, 0))
	want := []struct {
		from, to, changes      float64
		rate, errors, p50, cpu float64
	}{{0, 2.5, 1, 100, 0, 1, 2000}, {2.5, 6.2, 2, 50, 0.5, 1, 12000}, {6.2, 10, 1, 100, 0, 1, 6000}}
	if len(phases) != len(want) {
		t.Fatalf("%+v", phases)
	}
	for i, w := range want {
		p := phases[i]
		if p.From != w.from || p.To != w.to || len(p.Changes) != int(w.changes) {
			t.Errorf("phase %d: %+v, want %+v", i, p, w)
		}
		for name, value := range map[string]float64{metric.Rate: w.rate, metric.ErrorRatio: w.errors, metric.Latency + "/p50": w.p50, metric.CPUPerRequest + "/app": w.cpu} {
			if got, known := p.Metrics[name]; !known || math.Abs(got-value) > 0.001*value {
				t.Errorf("phase %d: %s is %v (known: %v), want %v", i, name, got, known, value)
			}
		}
		for _, name := range []string{metric.Latency + "/p99", metric.CPUPerRequest + "/data"} { // too few answers, no readings
			if v, known := p.Metrics[name]; known {
				t.Errorf("phase %d: %s is %v", i, name, v)
			}
		}
	}
	if r.ByHand = nil; handPhases(&r, "") != nil {
		t.Error("a trial without changes has phases")
	}
}
