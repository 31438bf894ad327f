package figures

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// executionMetrics are the figures of an execution, each in the unit of its metric.
var executionMetrics = []struct {
	name string
	of   func(execution.Reading) float64
}{
	{metric.WallTime, func(x execution.Reading) float64 { return float64(x.Wall) / 1e6 }},
	{metric.CPUTime, func(x execution.Reading) float64 { return float64(x.User+x.System) / 1e6 }},
	{metric.UserTime, func(x execution.Reading) float64 { return float64(x.User) / 1e6 }},
	{metric.SystemTime, func(x execution.Reading) float64 { return float64(x.System) / 1e6 }},
	{metric.PeakOfExecution, func(x execution.Reading) float64 { return float64(x.Peak) / mib }},
	{metric.OutputSize, func(x execution.Reading) float64 { return float64(x.Output) / 1024 }},
}

// benchmarkMetrics are the figures of a Go benchmark, by its unit, and the scale to the unit of the metric.
var benchmarkMetrics = []struct {
	name, unit string
	scale      float64
}{{metric.BenchmarkTime, "sec/op", 1e9}, {metric.BenchmarkBytes, "B/op", 1}, {metric.BenchmarkAllocs, "allocs/op", 1}}

// executionFigures are the means over the executions of a trial that did not fail.
func executionFigures(f *figures, r *result.Record) {
	sums, benchmarks, n, hidden, floor := map[string]float64{}, map[string][]float64{}, 0.0, 0, int64(0)
	for _, x := range r.Executions {
		if x.Exit != 0 {
			continue
		}
		n++
		for _, m := range executionMetrics {
			sums[m.name] += m.of(x)
		}
		for name, units := range x.Benchmarks {
			for _, b := range benchmarkMetrics {
				if v, ok := units[b.unit]; ok {
					benchmarks[metric.Of(b.name, name)] = append(benchmarks[metric.Of(b.name, name)], v*b.scale)
				}
			}
		}
		if x.Peak <= x.Floor {
			hidden, floor = hidden+1, max(floor, x.Floor)
		}
	}
	f.set(metric.ErrorRatio, 1-n/float64(len(r.Executions)))
	if hidden > 0 {
		delete(sums, metric.PeakOfExecution)
		f.warn("peak-hidden", []string{metric.PeakOfExecution}, fmt.Sprintf("the peak of memory of %d of %d executions is below %d MiB, the memory of the program that starts them: it is unknown",
			hidden, len(r.Executions), floor/mib), "a process has at least the memory of the one that starts it; larger inputs have larger peaks")
	}
	for name, sum := range sums {
		f.set(name, sum/n)
	}
	for name, values := range benchmarks {
		f.set(name, stats.Mean(values))
	}
}
