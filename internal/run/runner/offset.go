package runner

import (
	"fmt"
	"math"
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// offset is how far the readings are from the edges, over all tasks.
type offset struct {
	before, after time.Duration // the worst distances to begin and end, either way
	fewest        int           // readings that a task has between its two, these included
	used, unsure  float64       // CPU between the readings, and how much of it the distance may have wrong; ns
}

// add takes one task. The readings cover other moments than the measure phase: a
// part of its time is not covered, and as much is that lies beside it. What is
// wrong is at most that part, times how much the task's use differed between
// refreshes under the same load.
func (o *offset) add(readings []result.Reading, i, j int, s span) {
	a, b := readings[i], readings[j]
	o.before, o.after = max(o.before, s.begin.Sub(a.At).Abs()), max(o.after, s.end.Sub(b.At).Abs())
	if n := j - i + 1; o.fewest == 0 || n < o.fewest {
		o.fewest = n
	}
	covered := b.At.Sub(a.At)
	if covered <= 0 {
		return
	}
	mean := float64(b.CPU-a.CPU) / float64(covered)
	differs := 0.0
	for k := 1; k < len(readings); k++ {
		was, is := readings[k-1], readings[k]
		if was.At.Before(s.loaded) || is.At.After(b.At) {
			continue
		}
		differs = max(differs, math.Abs(float64(is.CPU-was.CPU)/float64(is.At.Sub(was.At))-mean))
	}
	length := float64(s.end.Sub(s.begin))
	beside := float64(s.begin.Sub(a.At).Abs() + s.end.Sub(b.At).Abs())
	o.used += float64(b.CPU - a.CPU)
	o.unsure += differs * min(beside, length) / length * float64(covered)
}

func (o offset) warning(refresh time.Duration) (result.Warning, bool) {
	if o.used <= 0 || max(o.before, o.after) < promptly {
		return result.Warning{}, false
	}
	round := func(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
	return result.Warning{Code: "counters-paced",
		Message: fmt.Sprintf("%s: the readings used lie up to %v from the beginning and %v from the end of the measure phase, under the same load, with %d independent readings or more a task; CPU is off by %.1f %% at most, going by how it varied between refreshes",
			pace(refresh), round(o.before), round(o.after), o.fewest, 100*o.unsure/o.used),
		Hint:    "a longer measure phase makes it less",
		Metrics: cpus}, true
}

// pace says how often counters move. Containers' may be read whenever they are asked for and those of a node's own
// tasks still be refreshed at times of their own.
func pace(refresh time.Duration) string {
	if refresh <= 0 {
		return "containers' counters are read when they are asked for, but not all of a node's own are"
	}
	return fmt.Sprintf("counters are refreshed every %v at least", refresh)
}
