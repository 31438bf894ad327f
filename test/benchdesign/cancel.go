package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/answer/stats"
)

// cancelled shows how much of a change of the machine is left in standard weights. Beside busy processes
// requests cost other CPU, by more than from block to block. So the coefficient of the cost on the weight is
// known well.
func (t *table) cancelled() {
	fmt.Fprintf(t.out, "\nHow far costs follow the standard weight, over the blocks of both designs:\n\n")
	heads(t.out, "cost", "in µs, busy over alone", "in weights, busy over alone", "of the change cancels", "coefficient", "SD of a block in µs", "in weights")
	for _, x := range t.suite.comparisons {
		if x.name == standardWeight {
			continue
		}
		var points []stats.Point
		var us, weights [2][]float64 // logarithms, by design
		for i := range t.columns {
			for n, block := range t.columns[i].whole {
				cost, weight := block[x.name], block[standardWeight]
				if cost <= 0 || weight <= 0 {
					continue
				}
				us[i], weights[i] = append(us[i], math.Log(cost)), append(weights[i], math.Log(cost/weight))
				points = append(points, stats.Point{X: math.Log(weight), Y: math.Log(cost), Weight: 1, Group: 1000*i + n})
			}
		}
		slope := stats.Line(points, confidence).Slope
		coefficient := "?"
		if slope.Known() {
			coefficient = fmt.Sprintf("%.2f [%.2f, %.2f]", slope.Estimate, *slope.Low, *slope.High)
		}
		before, after := change(us), change(weights)
		row(t.out, x.name, percents(before), percents(after), fmt.Sprintf("%.0f %%", 100*(1-math.Abs(after.Estimate/before.Estimate))), coefficient, spread(us), spread(weights))
	}
}

// change is the logarithm of the ratio of the second design to the first.
func change(logs [2][]float64) stats.Interval {
	return stats.Welch(logs[1], logs[0], confidence).Interval
}

func percents(log stats.Interval) string {
	of := func(v float64) float64 { return 100 * math.Expm1(v) }
	if !log.Known() {
		return "?"
	}
	return fmt.Sprintf("%+.1f %% [%+.1f, %+.1f]", of(log.Estimate), of(*log.Low), of(*log.High))
}

func spread(logs [2][]float64) string {
	return fmt.Sprintf("%.1f %%", 100*stats.SD(slices.Concat(logs[0], logs[1])))
}
