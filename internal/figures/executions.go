package figures

import (
	"fmt"
	"math"
	"time"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// executionMetrics are the figures of an execution, each in the unit of its metric. An import may lack times and peaks, and has no
// output and no floor.
var executionMetrics = []struct {
	name  string
	known func(execution.Reading) bool
	of    func(execution.Reading) float64
	net   bool // of the empty program
}{
	{metric.WallTime, timed, func(x execution.Reading) float64 { return float64(x.Wall) / 1e6 }, true},
	{metric.CPUTime, timed, func(x execution.Reading) float64 { return float64(x.User+x.System) / 1e6 }, true},
	{metric.UserTime, timed, func(x execution.Reading) float64 { return float64(x.User) / 1e6 }, true},
	{metric.SystemTime, timed, func(x execution.Reading) float64 { return float64(x.System) / 1e6 }, true},
	{metric.PeakOfExecution, func(x execution.Reading) bool { return x.Peak > 0 }, func(x execution.Reading) float64 { return float64(x.Peak) / mib }, false},
	{metric.OutputSize, func(x execution.Reading) bool { return x.Floor > 0 }, func(x execution.Reading) float64 { return float64(x.Output) / 1024 }, false},
}

func timed(x execution.Reading) bool { return x.Wall > 0 }

// shortExecution is the time of an execution below which the empty program's is subtracted: it is then a tenth of it or more.
const shortExecution = 5 * time.Millisecond

// NetOfEmpty reports whether the figures of a run have the empty program subtracted: if an execution in the first block with readings
// is short. The shortest one counts, since other programs delay the others. Later blocks change nothing, so that all looks at a run have
// the same metric.
func NetOfEmpty(records []result.Record) bool {
	first, shortest := 0, int64(math.MaxInt64)
	for i := range records {
		r := &records[i]
		if len(r.Empty) == 0 || first != 0 && r.Block > first {
			continue
		}
		for _, x := range r.Executions {
			if x.Exit != 0 || !timed(x) {
				continue
			}
			if r.Block != first {
				first, shortest = r.Block, x.Wall
			}
			shortest = min(shortest, x.Wall)
		}
	}
	return time.Duration(shortest) < shortExecution
}

// EmptyFigure is the mean of a figure over the executions of the empty program. It is not ok without any.
func EmptyFigure(r *result.Record, name string) (mean float64, ok bool) {
	for _, m := range executionMetrics {
		if m.name == name && m.net && len(r.Empty) > 0 {
			for _, x := range r.Empty {
				mean += m.of(x) / float64(len(r.Empty))
			}
			return mean, true
		}
	}
	return 0, false
}

// benchmarkMetrics are the figures of a Go benchmark, by its unit, and the scale to the unit of the metric.
var benchmarkMetrics = []struct {
	name, unit string
	scale      float64
}{{metric.BenchmarkTime, "sec/op", 1e9}, {metric.BenchmarkBytes, "B/op", 1}, {metric.BenchmarkAllocs, "allocs/op", 1}}

// subtractEmpty makes figures those above the empty program's in the same block. Their spread between blocks then has the error of both.
func (f *figures) subtractEmpty(r *result.Record) {
	for _, m := range executionMetrics {
		v, known := f.values[m.name]
		empty, read := EmptyFigure(r, m.name)
		switch {
		case !known || !m.net:
		case read:
			f.set(m.name, v-empty)
		default:
			delete(f.values, m.name)
		}
	}
}

// executionFigures are the means over the executions of a trial that did not fail.
func executionFigures(f *figures, r *result.Record) {
	sums, benchmarks, n, hidden, floor := map[string]float64{}, map[string][]float64{}, 0.0, 0, int64(0)
	for _, x := range r.Executions {
		if x.Exit != 0 {
			continue
		}
		n++
		for _, m := range executionMetrics {
			if m.known(x) {
				sums[m.name] += m.of(x)
			}
		}
		for name, units := range x.Benchmarks {
			for _, b := range benchmarkMetrics {
				if v, ok := units[b.unit]; ok {
					benchmarks[metric.Of(b.name, name)] = append(benchmarks[metric.Of(b.name, name)], v*b.scale)
				}
			}
		}
		if x.Floor > 0 && x.Peak <= x.Floor {
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
