package figures

import (
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// growthReadings is the least number of readings that a slope is taken from.
const growthReadings = 3

// growthFigures adds the growth of resident memory at the end of the measure phase, per minute of load and per 1000
// requests. Programs also grow while they warm up, so the first half of the phase is left out.
func growthFigures(f *figures, r *result.Record, seconds float64) {
	if !slices.ContainsFunc(r.Tasks, func(t result.TaskUsage) bool { return len(t.Memory) > 0 }) {
		return // not read
	}
	planes := planeSums(r.Tasks, func(t result.TaskUsage) (float64, bool) { return growth(t) })
	for _, p := range metric.Parts() {
		perSecond, ok := part(p, planes)
		if !ok || !slices.Contains(metric.IdleParts, p.Name) {
			continue
		}
		f.set(metric.Of(metric.MemoryGrowth, p.Name), perSecond*dilution(r.Load, seconds)*60/mib)
		if r.Answered() > 0 && seconds > 0 {
			f.set(metric.Of(metric.MemoryGrowthPerRequest, p.Name), perSecond*seconds/float64(r.Answered())*1000/1024)
		}
	}
}

// growth is the least-squares slope of a task's resident memory over the second half of its readings' time, bytes per
// second. It is not ok with few readings.
func growth(t result.TaskUsage) (perSecond float64, ok bool) {
	n := len(t.Memory)
	if n == 0 {
		return 0, false
	}
	half := (t.Memory[0].Seconds + t.Memory[n-1].Seconds) / 2
	var x, y []float64
	for _, m := range t.Memory {
		if m.Seconds >= half {
			x, y = append(x, m.Seconds), append(y, float64(m.RSS))
		}
	}
	if len(x) < growthReadings {
		return 0, false
	}
	_, perSecond = stats.Regression(x, y)
	return perSecond, !math.IsNaN(perSecond)
}
