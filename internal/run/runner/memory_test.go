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

// A program that a reload executes again has a peak from then on. The peak of its usage is no lower than an earlier reading.
func TestPeakAfterReload(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	reading := func(seconds int, rss, peak int64) result.Reading {
		return result.Reading{At: began.Add(time.Duration(seconds) * time.Second), RSS: rss, Peak: peak}
	}
	for highest, start := range map[int64]int64{15: 14, 17: 17} {
		traces := memoryTraces{}
		for i, rss := range []int64{12, 15, 13} {
			traces.add(map[string]result.Reading{"proxy": reading(i, rss, 0)})
		}
		tasks := []result.TaskUsage{{Task: mesh.Task{ID: "proxy"}, Start: reading(0, 12, start), End: reading(2, 13, 13)}}
		traces.keep(tasks, false)
		if got := tasks[0].End.Peak; got != highest {
			t.Errorf("a peak of %d, want %d", got, highest)
		}
	}
}
