package report

import (
	"math"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/stats"
)

// upward and downward begin the mark of a memory figure that was still changing at the end.
const upward, downward = "↑", "↓"

// grownWords are the meaning of the mark.
const grownWords = " ↑: memory was still growing at the end of the measure phase."

// growing is the mark of a treatment's memory that was still growing at the end: "↑192 MiB/min". It is "" for other figures.
func growing(tr compare.Treatment, name string) string {
	growth, _, ok := tr.Growing(name)
	if !ok {
		return ""
	}
	return growthMark(&growth)
}

// growingApart is the mark of a difference in memory of which a side was still growing: the difference of both growths.
func growingApart(r *answer.Report, c compare.Comparison) string {
	return growthMark(r.GrowingApart(c))
}

// growthMark is the mark of a growth in MiB a minute, "" for nil.
func growthMark(of *stats.Interval) string {
	if of == nil {
		return ""
	}
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

// sided is the mark of the growth in one of two runs.
func sided(run string, of *stats.Interval) string {
	if of == nil {
		return ""
	}
	return growthMark(of) + " in the " + run + " run"
}
