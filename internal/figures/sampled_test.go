package figures

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// The filter by hand: the mean of 2, 3, 8, 10, 10, 10, 11, 20 is 9.25. The values
// above it are 10, 10, 10, 11, 20. Their mean is 12.2, their population deviation 3.92.
// 10, 10, 10, 11 are within it. Zeros at the start do not count: the part was absent.
func TestPublishedFilter(t *testing.T) {
	for _, c := range []struct {
		name string
		in   series
		want float64
		ok   bool
	}{
		{"by hand", series{2, 3, 8, 10, 10, 10, 11, 20}, 10.25, true},
		{"not there at first", series{0, 0, 2, 3, 8, 10, 10, 10, 11, 20}, 10.25, true},
		{"half are above the mean", series{1, 1, 3, 3}, 3, true},
		{"fewer than half are above it", series{1, 1, 1, 9, 1}, 1, true},
		{"two of five are above it", series{1, 1, 1, 4, 4}, 1, true},
		{"all equal", series{5, 5, 5}, 5, true},
		{"unknown rows", series{math.NaN(), 5, math.NaN(), 5}, 5, true},
		{"always nothing", series{0, 0, 0}, 0, true},
		{"never known", series{math.NaN()}, 0, false},
		{"no row", series{}, 0, false},
	} {
		got, ok := publishedFilter(c.in)
		if ok != c.ok || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, %v; expected %v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

var sampledAt = time.Date(2025, 3, 27, 17, 0, 0, 0, time.UTC)

// sampledTrial is a trial of two tasks and one row every ten seconds, of which 30 to 70 s are the measure phase.
func sampledTrial(app, data []float64) *result.Record {
	s := &result.Sampled{Source: "test", Tasks: []mesh.Task{{ID: "a", Plane: metric.App}, {ID: "d", Plane: metric.Data}}}
	for i := range app {
		row := result.SampledRow{At: sampledAt.Add(time.Duration(i) * 10 * time.Second)}
		for _, v := range []float64{app[i], data[i]} {
			cell := &v
			if math.IsNaN(v) {
				cell = nil
			}
			row.Cores, row.Memory = append(row.Cores, cell), append(row.Memory, cell)
		}
		s.Rows = append(s.Rows, row)
	}
	s.Shorten()
	return &result.Record{Valid: true, Sampled: s,
		Phases: []result.Phase{{Name: "measure", Start: sampledAt.Add(30 * time.Second), End: sampledAt.Add(70 * time.Second)}},
		Load:   &result.Load{Completed: 1000, MeasureSeconds: 10, Classes: map[string]int64{"2xx": 1000}}}
}

func TestReadingsThatRepeatCountOnce(t *testing.T) {
	// The phase has 3 (first seen before it), 3, 5, 5, 9: two new readings.
	r := sampledTrial([]float64{1, 1, 3, 3, 3, 5, 5, 9, 1}, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1})
	f := trialFigures(r, false)
	if got := f.values["cpu_cores/app"]; got != 7 {
		t.Errorf("%v cores, expected 7", got)
	}
	if got := f.values["memory_mib/app"]; got != 7.0/(1<<20) {
		t.Errorf("%v MiB, expected 7 bytes", got)
	}
	if got := f.values["cpu_us_per_request/app"]; got != 7e6/100 {
		t.Errorf("%v µs a request at 100 requests/s", got)
	}
	whole := *r
	whole.Phases = nil // all readings: 1, 3, 5, 9 and 1
	if got := trialFigures(&whole, false).values["cpu_cores/app"]; math.Abs(got-3.8) > 1e-12 {
		t.Errorf("%v cores over all rows, expected 3.8", got)
	}
	var codes []string
	for _, w := range f.warnings {
		codes = append(codes, w.Code)
	}
	if !slices.Contains(codes, "repeated-readings") || !slices.Contains(codes, "few-readings") {
		t.Errorf("warnings %v", codes)
	}
}

// A plane with a gap is unknown in that row, and so is every sum with it. A plane
// without a task, or with partial data, is unknown in every row.
func TestUnknownSamplesAreNotZero(t *testing.T) {
	nan := math.NaN()
	r := sampledTrial([]float64{1, 1, 2, 3, 4, 5, 6, 7, 8}, []float64{1, 1, 1, 1, nan, 1, 2, 3, 4})
	f := trialFigures(r, false)
	if got := f.values["cpu_cores/data"]; math.Abs(got-7.0/4) > 1e-12 {
		t.Errorf("data plane %v, expected the mean of the four rows that are known", got)
	}
	for _, name := range []string{"cpu_cores/control", "cpu_cores/total", "cpu_cores/cluster", "cpu_cores/load", "mesh_ratio/cpu"} {
		if v, ok := f.values[name]; ok {
			t.Errorf("%s is %v, and no one looked", name, v)
		}
	}
	r.Sampled.Unknown = []metric.Plane{metric.Data}
	if v, ok := trialFigures(r, false).values["cpu_cores/data"]; ok {
		t.Errorf("a plane held in part is %v", v)
	}
}
