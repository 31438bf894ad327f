package figures_test

import (
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// Figures of executions are means of successful ones. A peak below that of the starting program is unknown.
func TestExecutionFigures(t *testing.T) {
	one := execution.Reading{Wall: 100e6, User: 60e6, System: 10e6, Peak: 32 << 20, Floor: 8 << 20, Output: 2048}
	two, failed, small := one, one, one
	two.Wall, two.User = 110e6, 80e6
	failed.Wall, failed.Exit = 1, 2
	small.Peak = small.Floor
	measure := func(all ...execution.Reading) figures.Trial {
		records := []result.Record{{ID: "a", Valid: true, Executions: all}}
		return figures.Measure(result.Environment{}, records, figures.Options{File: func(string, string) string { return "" }})[0].Trial
	}
	got := measure(one, failed, two)
	for name, want := range map[string]float64{metric.WallTime: 105, metric.CPUTime: 80, metric.UserTime: 70, metric.SystemTime: 10,
		metric.PeakOfExecution: 32, metric.OutputSize: 2, metric.ErrorRatio: 1.0 / 3} {
		if math.Abs(got.Metrics[name]-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, got.Metrics[name], want)
		}
	}
	if len(got.Warnings) != 0 {
		t.Errorf("warnings: %+v", got.Warnings)
	}
	got = measure(one, small)
	if _, known := got.Metrics[metric.PeakOfExecution]; known || len(got.Warnings) != 1 || got.Warnings[0].Code != "peak-hidden" || got.Metrics[metric.WallTime] != 100 {
		t.Errorf("%+v", got)
	}
	if got = measure(failed); len(got.Metrics) != 1 || got.Metrics[metric.ErrorRatio] != 1 {
		t.Errorf("all failed: %+v", got)
	}
}

// From times below 5 ms the empty program of the same block is subtracted. The first block decides for all of them.
func TestNetOfEmpty(t *testing.T) {
	trial := func(block int, wall int64) result.Record {
		x := execution.Reading{Wall: wall, User: wall / 2, System: wall / 4, Peak: 32 << 20, Floor: 8 << 20}
		empty := []execution.Reading{{Wall: 1e6, User: 0.1e6, System: 0.3e6}, {Wall: 2e6, User: 0.1e6, System: 0.5e6}}
		return result.Record{ID: "a", Block: block, Valid: true, Executions: []execution.Reading{x}, Empty: empty}
	}
	measure := func(records ...result.Record) (all []figures.Trial) {
		for _, m := range figures.Measure(result.Environment{}, records, figures.Options{File: func(string, string) string { return "" }}) {
			all = append(all, m.Trial)
		}
		return all
	}
	lacking := trial(2, 4e6)
	lacking.Empty = nil
	short := measure(trial(2, 8e6), trial(1, 8e6), trial(1, 4e6), lacking)
	for i, want := range []map[string]float64{{metric.WallTime: 6.5, metric.CPUTime: 5.5}, {metric.WallTime: 6.5}, {metric.WallTime: 2.5, metric.CPUTime: 2.5, metric.UserTime: 1.9, metric.SystemTime: 0.6, metric.PeakOfExecution: 32}} {
		for name, v := range want {
			if got := short[i].Metrics[name]; math.Abs(got-v) > 1e-9 {
				t.Errorf("trial %d: %s is %v, want %v", i, name, got, v)
			}
		}
	}
	if v, known := short[3].Metrics[metric.WallTime]; known {
		t.Errorf("a trial without executions of the empty program has %v ms, and others are less these", v)
	}
	long := measure(trial(2, 4e6), trial(1, 8e6))
	if long[0].Metrics[metric.WallTime] != 4 || long[1].Metrics[metric.WallTime] != 8 {
		t.Errorf("%+v", long)
	}
}
