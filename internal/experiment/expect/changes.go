package expect

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// changes are the subject of a condition such as "change.last_old.p99(endpoint-removed) < 1s".
type changes struct {
	changeSubject
	kind string // "" for all
}

// changeSubject is a quantity of the changes of a trial.
type changeSubject struct {
	subject
	times  func(Change) []stats.Bounded // of a quantile
	bounds func([]stats.Bounded, float64) (low, high float64, known bool)
	q      float64          // of times
	least  int              // changes that it needs
	mean   func(Change) int // instead of times
}

// failedShare is the share of changes during which requests failed.
const failedShare = "change.failed_share"

// changeSubjects by name: times as in [metric.ChangeQuantiles], and means per change.
var changeSubjects = func() (all []changeSubject) {
	for _, q := range metric.ChangeQuantiles {
		all = append(all,
			changeSubject{subject: subject{name: "change.first_new." + q.Name, unit: "ms"}, times: func(c Change) []stats.Bounded { return c.FirstNew }, bounds: stats.EarliestBounds, q: q.Q, least: q.From},
			changeSubject{subject: subject{name: "change.last_old." + q.Name, unit: "ms"}, times: func(c Change) []stats.Bounded { return c.LastOld }, bounds: stats.LatestBounds, q: q.Q, least: q.From})
	}
	return append(all,
		changeSubject{subject: subject{name: failedShare}, mean: func(c Change) int { return min(1, c.Failed) }},
		changeSubject{subject: subject{name: "change.failed"}, mean: func(c Change) int { return c.Failed }},
		changeSubject{subject: subject{name: "change.flaps"}, mean: func(c Change) int { return c.Flaps }})
}()

// changesOf reads the name of a quantity of changes, and the kind of changes after it.
func changesOf(text string) (changes, bool) {
	name, kind, some := strings.Cut(text, "(")
	kind, closed := strings.CutSuffix(kind, ")")
	i := slices.IndexFunc(changeSubjects, func(s changeSubject) bool { return s.name == name })
	if i < 0 || some != closed {
		return changes{}, false
	}
	found := changes{changeSubject: changeSubjects[i], kind: kind}
	found.name = text
	return found, true
}

// changed measures a condition about changes.
func (c Condition) changed(t Trial) Outcome {
	o := Outcome{Expect: c.Text, Unit: c.changes.unit}
	n, failing, sum := 0, 0, 0
	var times []stats.Bounded
	for _, one := range t.Changes {
		switch {
		case c.changes.kind != "" && c.changes.kind != one.Kind:
			continue
		case c.changes.times != nil:
			times = append(times, c.changes.times(one)...)
			n = len(times)
			continue
		}
		n++
		sum += c.changes.mean(one)
		failing += min(1, one.Failed)
	}
	if least := max(1, c.changes.least); n < least {
		o.Detail = fmt.Sprintf("%d changes, and it needs %d", n, least)
		return o
	}
	if c.changes.times != nil {
		return c.bounded(o, times)
	}
	v := float64(sum) / float64(n)
	o.Detail = fmt.Sprintf("%s is %s over %d changes", c.changes.name, number(v, ""), n)
	if c.boundsShare() {
		v = stats.ShareBound(int64(failing), int64(n), shareLevel)
		o.Detail = fmt.Sprintf("%d of %d changes have failures: at most %.2g %% (95 %%)", failing, n, 100*v)
	}
	o.Value, o.OK = &v, c.compare.Holds(v, c.bound)
	return o
}

// bounded decides a condition about a quantile of times, which observations bound. It is decided if both bounds decide it alike.
func (c Condition) bounded(o Outcome, times []stats.Bounded) Outcome {
	low, high, _ := c.changes.bounds(times, c.changes.q)
	o.Value = &low
	o.Detail = fmt.Sprintf("%s is at least %s over %d changes", c.changes.name, number(low, "ms"), len(times))
	if !math.IsInf(high, 1) {
		o.AtMost = &high
		o.Detail = fmt.Sprintf("%s is at least %s and at most %s over %d changes", c.changes.name, number(low, "ms"), number(high, "ms"), len(times))
	}
	o.OK = c.compare.Holds(low, c.bound) && c.compare.Holds(high, c.bound)
	if low < high && (c.compare.Holds(low, c.bound) != c.compare.Holds(high, c.bound) || low < c.bound && c.bound < high) {
		o.OK, o.Undecided = false, true
		o.Detail += ": the limit is between them"
	}
	return o
}

// shareLevel is the probability that the share of changes with failures exceeds its bound.
const shareLevel = 0.05

// Changes returns the kind of changes that the condition is about, "" for all, and the number of them that a trial must
// have for it to hold. It is false if the condition is not about changes.
func (c Condition) Changes() (kind string, least int, about bool) {
	if c.changes == nil {
		return "", 0, false
	}
	least = max(1, c.changes.least)
	if c.boundsShare() {
		for c.bound > 0 && !c.compare.Holds(stats.ShareBound(0, int64(least), shareLevel), c.bound) {
			least = max(least+1, int(math.Floor(math.Log(shareLevel)/math.Log1p(-c.bound))))
		}
		if c.bound == 0 {
			least = math.MaxInt
		}
	}
	return c.changes.kind, least, true
}

// BoundsTime returns the limit of a condition about a time of changes, ms.
func (c Condition) BoundsTime() (ms float64, about bool) {
	if c.changes == nil || c.changes.times == nil {
		return 0, false
	}
	return c.bound, true
}

// boundsShare reports whether the condition is an upper bound of a share, which no failure in a few changes does not show.
func (c Condition) boundsShare() bool {
	return strings.HasPrefix(c.changes.name, failedShare) && c.compare.Upper()
}
