package figures

import (
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// growthReadings is the least number of readings that a slope is taken from.
const growthReadings = 3

// settling is how long the heap of a program that has begun grows to its working size. Its growth is then not of the load.
const settling = 15 * time.Second

// growthFigures adds the growth of resident memory at the end of the measure phase, per minute of load and per 1000
// requests. Programs also grow while they warm up, so the first half of the phase is left out.
func growthFigures(f *figures, r *result.Record, seconds float64) {
	if !slices.ContainsFunc(r.Tasks, func(t result.TaskUsage) bool { return len(t.Memory) > 0 }) || isYoung(r) {
		return // not read, or of the first seconds of the programs
	}
	planes := planeSums(r.Tasks, func(t result.TaskUsage) (float64, bool) { return growth(t) })
	for _, p := range metric.Parts() {
		perSecond, ok := part(p, planes)
		if !ok || !isIdlePart(p) {
			continue
		}
		f.set(metric.Of(metric.MemoryGrowth, p.Name), perSecond*dilution(r.Load, seconds)*60/mib)
		if r.Answered() > 0 && seconds > 0 {
			f.set(metric.Of(metric.MemoryGrowthPerRequest, p.Name), perSecond*seconds/float64(r.Answered())*1000/1024)
		}
	}
}

// MemoryGrowth is the growth of resident memory of tasks of a trial at the end of the measure phase, MiB per minute of load.
// It is not ok if a task has few readings, or has just begun.
func MemoryGrowth(r *result.Record, tasks []result.TaskUsage) (perMinute float64, ok bool) {
	var sum float64
	if isYoung(r) {
		return 0, false
	}
	for _, t := range tasks {
		perSecond, ok := growth(t)
		if !ok {
			return 0, false
		}
		sum += perSecond
	}
	return sum * dilution(r.Load, measureSeconds(r.Load)) * 60 / mib, len(tasks) > 0
}

// isYoung reports whether the second half of the measure phase begins within [settling] after the deployment. Records without
// phases are of programs that ran before.
func isYoung(r *result.Record) bool {
	i := slices.IndexFunc(r.Phases, func(p result.Phase) bool { return p.Name == "deploy" })
	if i < 0 || r.Load == nil {
		return false
	}
	half := r.Load.Start.Add(time.Duration(r.Load.MeasureSeconds / 2 * float64(time.Second)))
	return half.Sub(r.Phases[i].End) < settling
}

// growth is the least-squares slope of a task's resident memory over the second half of its readings' time, bytes per
// second. It is not ok with few readings.
func growth(t result.TaskUsage) (perSecond float64, ok bool) {
	points := make([][2]float64, len(t.Memory))
	for i, m := range t.Memory {
		points[i] = [2]float64{m.Seconds, float64(m.RSS)}
	}
	x, y := secondHalf(points)
	if len(x) < growthReadings {
		return 0, false
	}
	_, perSecond = stats.Regression(x, y)
	return perSecond, !math.IsNaN(perSecond)
}

// secondHalf returns the points in the second half of their time.
func secondHalf(points [][2]float64) (x, y []float64) {
	if len(points) == 0 {
		return nil, nil
	}
	half := (points[0][0] + points[len(points)-1][0]) / 2
	for _, p := range points {
		if p[0] >= half {
			x, y = append(x, p[0]), append(y, p[1])
		}
	}
	return x, y
}

func isIdlePart(p metric.Part) bool { return slices.Contains(metric.IdleParts, p.Name) }
