package compare

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
)

// measuredIn are trials of one treatment with the values of a metric, one a block.
func measuredIn(treatment, name string, values ...float64) (trials []figures.Measured) {
	for i, v := range values {
		trials = append(trials, figures.Measured{Trial: figures.Trial{ID: fmt.Sprint(treatment, i+1), Treatment: treatment, Block: i + 1, Valid: true, Metrics: map[string]float64{name: v}}})
	}
	return trials
}

// Two samples of different sizes: each variance is divided by its own number.
func TestUnpairedSamplesOfUnequalSize(t *testing.T) {
	x := estimator{confidence: 0.95, method: Unpaired}
	name := metric.CPUPerRequest + "/total"
	few, many := measuredIn("b", name, 110, 120, 130), measuredIn("a", name, 99, 100, 101, 99, 100, 101)
	cs := x.compare(plan.Treatment{ID: "b", Baseline: "a"}, plan.Treatment{ID: "a"}, few, many)
	c := find(cs, name)
	// Variances 100 and 0.8: error² = 100/3 + 0.8/6 = 33.4667, freedom 2.0160, its quantile 4.2781 (another program).
	half, _ := c.Difference.HalfWidth()
	if se := c.test.SE; math.Abs(se-math.Sqrt(100.0/3+0.8/6)) > 1e-9 || math.Abs(c.test.DF-33.4666667*33.4666667/(100.0/3*100/3/2+0.8/6*0.8/6/5)) > 1e-4 {
		t.Errorf("standard error %v, freedom %v", se, c.test.DF)
	}
	if c.Difference.Estimate != 20 || math.Abs(half/c.test.SE-4.2781) > 2e-2 || c.N != 3 {
		t.Errorf("%v ± %v, %d trials", c.Difference.Estimate, half, c.N)
	}
}

// Shifts are the place of the treatment less the place of the baseline. A difference that grows by 1 a place has that coefficient.
func TestShiftsOfPositions(t *testing.T) {
	name := metric.CPUPerRequest + "/total"
	run := &Run{Plan: plan.Plan{Order: experiment.OrderBalanced}}
	orders := [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c", "a"}, {"a", "c", "b"}, {"b", "a", "c"}, {"c", "a", "b"}, {"a", "b", "c"}, {"b", "c", "a"}}
	var a, b []float64
	for i, order := range orders {
		for _, id := range order {
			run.Plan.Trials = append(run.Plan.Trials, plan.Trial{ID: fmt.Sprint(id, i+1), Treatment: id, Block: i + 1})
		}
		noise := 0.01 * float64(i%3)
		a, b = append(a, 100+float64(slices.Index(order, "a"))), append(b, 150+float64(slices.Index(order, "b"))+noise)
	}
	x := estimator{confidence: 0.95, method: Paired, blocks: len(orders), places: positionsIn(run)}
	p := x.pairs(name, byBlock(measuredIn("b", name, b...)), byBlock(measuredIn("a", name, a...)))
	if want := []float64{1, -1, -2, 2, -1, 1, 1, -2}; !slices.Equal(p.shifts, want) {
		t.Errorf("shifts %v, want %v", p.shifts, want)
	}
	c := find(x.compare(plan.Treatment{ID: "b", Baseline: "a"}, plan.Treatment{ID: "a"}, measuredIn("b", name, b...), measuredIn("a", name, a...)), name)
	if c.Position == nil || c.Position.Difference == nil || math.Abs(c.Position.Difference.Coefficient-1) > 0.01 || math.Abs(c.Difference.Estimate-50) > 0.02 {
		t.Errorf("%+v, difference %v", c.Position, c.Difference.Estimate)
	}
}

// The values of a verdict are what it rests on: differences of costs, and logarithms of ratios of latencies.
func TestValuesOfVerdicts(t *testing.T) {
	x := estimator{confidence: 0.95, method: Paired, blocks: 4}
	for name, want := range map[string][]float64{
		metric.CPUPerRequest + "/total": {10, 20, 30, 41},
		metric.Latency + "/p99":         {math.Log(1.1), math.Log(1.2), math.Log(1.3), math.Log(1.41)},
	} {
		c := find(x.compare(plan.Treatment{ID: "b", Baseline: "a"}, plan.Treatment{ID: "a"}, measuredIn("b", name, 110, 120, 130, 141), measuredIn("a", name, 100, 100, 100, 100)), name)
		if c.OnRatio != (name != metric.CPUPerRequest+"/total") || len(c.values) != 4 || len(c.logs) != 4 || !slices.Equal(c.blocks, []int{1, 2, 3, 4}) {
			t.Fatalf("%s: on the ratio %v, values %v, logarithms %v", name, c.OnRatio, c.values, c.logs)
		}
		for i := range want {
			if math.Abs(c.values[i]-want[i]) > 1e-12 || math.Abs(c.logs[i]-math.Log(1+[]float64{10, 20, 30, 41}[i]/100)) > 1e-12 {
				t.Errorf("%s, block %d: value %v, want %v; logarithm %v", name, i+1, c.values[i], want[i], c.logs[i])
			}
		}
	}
}

// Three valid trials bear an interval, and two have a warning.
func TestFewTrialsAtTheLimit(t *testing.T) {
	name := metric.CPUPerRequest + "/total"
	for n, warned := range map[int]bool{2: true, 3: false} {
		run := &Run{estimator: estimator{confidence: 0.95, method: Paired, blocks: n}}
		got := run.treatment(plan.Treatment{ID: "a"}, measuredIn("a", name, []float64{10, 11, 13}[:n]...))
		has := func(ws []figures.Warning) bool {
			return slices.ContainsFunc(ws, func(w figures.Warning) bool { return w.Code == "few-trials" })
		}
		if has(got.Warnings) != warned || has(got.Metrics[name].Warnings) != warned || got.Metrics[name].Known() == warned {
			t.Errorf("%d trials: %+v", n, got)
		}
	}
}
