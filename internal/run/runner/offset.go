package runner

import (
	"fmt"
	"math"
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// offset is the distance of the readings from the edges, over all tasks.
type offset struct {
	before, after time.Duration // the greatest distances to begin and end, in either direction
	fewest        int           // readings of a task from its first used to its last
	used, unsure  float64       // CPU between the readings, and the part of it that is uncertain because of the distance, in ns
}

// add adds one task. The readings are shifted from the measure phase: they miss a part of it, and
// include as much time outside it. The max error is that part, times the variation of the task's
// CPU between refreshes under the same load.
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

// text describes the distance and the error, false if the readings are at the edges.
func (o offset) text() (string, bool) {
	if o.used <= 0 || max(o.before, o.after) < promptly {
		return "", false
	}
	round := func(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
	return fmt.Sprintf(". The readings are up to %v from the beginning and %v from the end of the measure phase, under the same load. Each task has %d or more independent readings. The error of CPU is at most %.1f %%, by its variation between refreshes",
		round(o.before), round(o.after), o.fewest, 100*o.unsure/o.used), true
}

const measureHint = "a longer measure phase reduces the error"

// nodeRefreshText describes the refresh interval of the nodes' own counters.
func nodeRefreshText(refresh time.Duration) string {
	if refresh <= 0 {
		return "the nodes' own counters are current"
	}
	return fmt.Sprintf("the nodes' own counters have a refresh interval of up to %v", refresh)
}

// refreshText describes the refresh interval of containers' counters.
func refreshText(refresh time.Duration) string {
	if refresh <= 0 {
		return "containers' counters are current"
	}
	return fmt.Sprintf("the counter refresh interval is up to %v", refresh)
}
