package runner

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
)

// An hour of readings becomes a bounded series over the measure phase, ended by the last reading.
func TestMemoryIsThinnedOut(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	traces := memoryTraces{}
	for s := range 3700 {
		traces.add(map[string]result.Reading{"proxy": {At: began.Add(time.Duration(s) * time.Second), RSS: int64(s)}, "gone": {At: began}})
	}
	end := result.Reading{At: began.Add(3660 * time.Second), RSS: 3660}
	tasks := []result.TaskUsage{
		{Task: mesh.Task{ID: "proxy"}, Start: result.Reading{At: began.Add(60 * time.Second)}, End: end},
		{Task: mesh.Task{ID: "gone"}, Start: result.Reading{At: began}, End: result.Reading{At: end.At}},
	}
	traces.keep(tasks, true)
	memory := tasks[0].Memory
	if n := len(memory); n < maxMemoryReadings/4 || n > maxMemoryReadings {
		t.Fatalf("%d readings, want %d to %d", n, maxMemoryReadings/4, maxMemoryReadings)
	}
	for i, m := range memory {
		if m.Seconds < 0 || m.Seconds > 3600 || m.RSS != int64(m.Seconds)+60 {
			t.Errorf("reading %d is %d bytes at %v s of the phase", i, m.RSS, m.Seconds)
		}
	}
	if last := memory[len(memory)-1]; last.Seconds != 3600 {
		t.Errorf("the last reading is at %v s, want 3600", last.Seconds)
	}
	if tasks[1].Memory != nil {
		t.Errorf("a task without readings of memory has %v", tasks[1].Memory)
	}
}
