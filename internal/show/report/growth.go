package report

import (
	"math"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// upward and downward begin the mark of a memory figure that was still changing at the end.
const upward, downward = "↑", "↓"

// growing is the mark of a treatment's memory that was still growing at the end: "↑192 MiB/min". It is "" for other figures.
func growing(tr compare.Treatment, name string) string {
	if !warned(tr.Metrics[name].Warnings, answer.MemoryGrows) {
		return ""
	}
	return growthMark(tr.Metrics[growthOf(name)].Interval)
}

// growingApart is the mark of a difference in memory of which a side was still growing: the difference of both growths.
func growingApart(r *answer.Report, c compare.Comparison) string {
	if g, ok := r.Find(c.Treatment, growthOf(c.Metric)); ok && g.Difference != nil && warned(c.Warnings, answer.MemoryGrows) {
		return growthMark(*g.Difference)
	}
	return ""
}

// growthOf is the metric of the growth of a memory metric.
func growthOf(memory string) string {
	part, _ := metric.PartOf(metric.Base(memory), memory)
	return metric.Of(metric.MemoryGrowth, part)
}

func growthMark(of stats.Interval) string {
	arrow := upward
	if of.Estimate < 0 {
		arrow = downward
	}
	return arrow + rough(math.Abs(of.Estimate)) + " MiB/min"
}

// spaced joins a figure and its mark, which may be empty.
func spaced(figure, mark string) string {
	if mark == "" {
		return figure
	}
	return figure + " " + mark
}
