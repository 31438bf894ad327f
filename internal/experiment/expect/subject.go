package expect

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// subject is the quantity of a condition. measure computes it from the seconds of
// a window, or returns the reason why it cannot.
type subject struct {
	name    string
	unit    string
	measure func(t Trial, in []Second, whole bool) (float64, error)
}

// subjects by name. Statuses are made by [statusSubject].
var subjects = []subject{
	{"success_ratio", "", ratio(func(s Second) int64 { return s.OK })},
	{"error_ratio", "", ratio(func(s Second) int64 { return s.all() - s.OK })},
	{"rate", "1/s", perSecond},
	{"lost", "", count(func(s Second) int64 { return s.all() - s.OK })},
	{"mean", "ms", latency((*hdrhistogram.Histogram).Mean)},
	{"p50", "ms", quantile(50)},
	{"p90", "ms", quantile(90)},
	{"p99", "ms", quantile(99)},
	{"p99.9", "ms", quantile(99.9)},
	{"p99.99", "ms", quantile(99.99)},
	{"max", "ms", latency(func(h *hdrhistogram.Histogram) float64 { return float64(h.Max()) })},
}

func subjectNames() []string {
	names := lists.Map(subjects, func(s subject) string { return s.name })
	for _, s := range startSubjects {
		names = append(names, s.name)
	}
	for _, s := range changeSubjects {
		names = append(names, s.name)
	}
	return append(names, "status(5xx)", "recovers")
}

func ratio(counted func(Second) int64) func(Trial, []Second, bool) (float64, error) {
	return func(t Trial, in []Second, whole bool) (float64, error) {
		all, _ := count(Second.all)(t, in, whole)
		some, _ := count(counted)(t, in, whole)
		if all == 0 {
			return 0, fmt.Errorf("no request ended in this time")
		}
		return some / all, nil
	}
}

func perSecond(t Trial, in []Second, whole bool) (float64, error) {
	ok, _ := count(func(s Second) int64 { return s.OK })(t, in, whole)
	return ok / float64(len(in)), nil
}

func quantile(q float64) func(Trial, []Second, bool) (float64, error) {
	return latency(func(h *hdrhistogram.Histogram) float64 { return float64(h.ValueAtPercentile(q)) })
}

// Latencies merges the response times of seconds: percentiles are never averaged. It is nil without an answer with 2xx.
func Latencies(of []Second) (sum *hdrhistogram.Histogram) {
	for _, s := range of {
		switch {
		case s.Latency == nil:
		case sum == nil:
			sum = hdrhistogram.Import(s.Latency.Export())
		default:
			sum.Merge(s.Latency)
		}
	}
	return sum
}

// latency is a figure of the response times of the seconds.
func latency(figure func(*hdrhistogram.Histogram) float64) func(Trial, []Second, bool) (float64, error) {
	return func(_ Trial, in []Second, _ bool) (float64, error) {
		sum := Latencies(in)
		if sum == nil || sum.TotalCount() == 0 {
			return 0, fmt.Errorf("no request was answered in this time")
		}
		return figure(sum) / float64(time.Millisecond), nil
	}
}

// statusSubject is "status(503)" or "status(5xx)": the number of answers with it.
func statusSubject(name string) (subject, error) {
	pattern := strings.TrimSuffix(strings.TrimPrefix(name, "status("), ")")
	if !isStatus(pattern) {
		return subject{}, fmt.Errorf("found %.20q, expected a status such as 503 or 5xx", pattern)
	}
	return subject{name: name, measure: func(t Trial, in []Second, whole bool) (float64, error) {
		var these, others int64
		for code, n := range t.Status {
			switch {
			case len(code) != 3:
			case code[:1] == pattern[:1] && (pattern[1:] == "xx" || code == pattern):
				these += n
			case code[:1] != "2":
				others += n
			}
		}
		// Seconds are counted by class, codes only for the whole phase. The counts
		// agree if all failures match the pattern, or none does.
		switch {
		case whole, these == 0:
			return float64(these), nil
		case pattern[0] == '2':
			return 0, fmt.Errorf("statuses of 2xx are not kept by the second; ask for rate or success_ratio")
		case others > 0:
			return 0, fmt.Errorf("there were %d other statuses, and codes are not kept by the second: leave out the window, or ask for success_ratio", others)
		}
		return count(func(s Second) int64 { return s.Status })(t, in, whole)
	}}, nil
}

func count(of func(Second) int64) func(Trial, []Second, bool) (float64, error) {
	return func(_ Trial, in []Second, _ bool) (float64, error) {
		n := int64(0)
		for _, s := range in {
			n += of(s)
		}
		return float64(n), nil
	}
}

func isStatus(p string) bool {
	if len(p) != 3 || p[0] < '1' || p[0] > '5' {
		return false
	}
	_, err := strconv.Atoi(p)
	return p[1:] == "xx" || err == nil
}

// Start is one stop and start of a pod. Times are in milliseconds, by part.
type Start struct {
	First map[string]float64 // from exec to the first answer
	Gone  map[string]float64 // from SIGTERM to the end of the process
	Lost  int                // requests
}

// startSubjects are of all starts of a trial: the longest time, or the most requests.
var startSubjects = []subject{
	{"start.app", "ms", most(func(s Start) float64 { return s.First["app"] })},
	{"start.sidecar", "ms", most(func(s Start) float64 { return s.First["sidecar"] })},
	{"start.through", "ms", most(func(s Start) float64 { return s.First["through"] })},
	{"start.outbound", "ms", most(func(s Start) float64 { return s.First["outbound"] })},
	{"stop.app", "ms", most(func(s Start) float64 { return s.Gone["app"] })},
	{"stop.sidecar", "ms", most(func(s Start) float64 { return s.Gone["sidecar"] })},
	{"stop.lost", "", most(func(s Start) float64 { return float64(s.Lost) })},
}

// most returns the largest value of all starts. A part that no start has, such as the sidecar without a mesh, is 0.
func most(part func(Start) float64) func(Trial, []Second, bool) (float64, error) {
	return func(t Trial, _ []Second, whole bool) (float64, error) {
		switch {
		case !whole:
			return 0, errors.New("it is about the starts after the load, not a time of the measure phase")
		case len(t.Starts) == 0:
			return 0, errors.New("the trial has no starts")
		}
		largest := lists.Most(t.Starts, part)
		return largest, nil
	}
}

// NeedsStarts reports whether the condition is about starts.
func (c Condition) NeedsStarts() bool {
	return strings.HasPrefix(c.subject.name, "start.") || strings.HasPrefix(c.subject.name, "stop.")
}

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
