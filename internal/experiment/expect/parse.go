package expect

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/condition"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

type word struct {
	text   string
	column int
}

// parser reads words, which spaces and comparisons separate.
type parser struct{ condition.Text }

// Parse reads one condition. The error is a
// [strict.Problem] with a column.
//
//	success_ratio >= 0.999 during fault
//	p99 < 250ms after 5s
//	status(5xx) == 0
//	error_ratio < 1% from 10s to 20s
//	recovers within 3s of heal
//	change.last_old.p99 < 1s
//	change.failed_share(endpoint-removed) < 1%
func Parse(text string) (Condition, error) {
	p := &parser{condition.New(text)}
	c := Condition{Text: strings.Join(strings.Fields(text), " ")}
	first, err := p.next("a metric", "such as "+strings.Join(subjectNames(), ", "))
	if err != nil {
		return Condition{}, err
	}
	quantity, aboutChanges := changesOf(first.text)
	switch {
	case first.text == "recovers":
		c.recovery, err = p.recovery()
	case aboutChanges:
		c.changes = &quantity
		err = p.bounded(&c, quantity.subject)
	default:
		err = p.comparison(&c, first)
	}
	if last := p.peek(); err == nil && last.text != "" && aboutChanges {
		err = p.wrong(last, "the end", "it is about all changes of the measure phase")
	} else if err == nil && last.text != "" {
		err = p.wrong(last, "the end, or a window: during fault, before fault, after fault, after 5s, before 5s, from 5s to 10s", "")
	}
	if err != nil {
		return Condition{}, err
	}
	return c, nil
}

func (p *parser) comparison(c *Condition, first word) (err error) {
	if c.subject, err = p.subject(first); err != nil {
		return err
	}
	if err = p.bounded(c, c.subject); err != nil {
		return err
	}
	c.window, err = p.window()
	return err
}

func (p *parser) bounded(c *Condition, quantity subject) error {
	w, err := p.next("a comparison", "one of >= <= == != > <")
	if err != nil {
		return err
	}
	var known bool
	if c.compare, known = condition.Compare(w.text); !known {
		return p.wrong(w, "one of >= <= == != > <", "")
	}
	c.bound, err = p.value(quantity)
	return err
}

func (p *parser) subject(w word) (subject, error) {
	if s, known := lists.First(slices.Concat(subjects, startSubjects), func(s subject) bool { return s.name == w.text }); known {
		return s, nil
	}
	if strings.HasPrefix(w.text, "status(") && strings.HasSuffix(w.text, ")") {
		s, err := statusSubject(w.text)
		if err != nil {
			return s, strict.Problem{Column: w.column + len("status("), Message: err.Error()}
		}
		return s, nil
	}
	return subject{}, p.wrong(w, "a metric", "known: "+strings.Join(subjectNames(), ", "))
}

// value reads a bound in the unit of its subject: times with their unit, ratios also in percent.
func (p *parser) value(s subject) (float64, error) {
	if s.unit == "ms" {
		d, err := p.time("a time such as 250ms or 3s", "")
		return float64(d) / float64(time.Millisecond), err
	}
	w, err := p.next("a value", "")
	if err != nil {
		return 0, err
	}
	number, percent := strings.CutSuffix(w.text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0, p.wrong(w, "a number", "")
	}
	isRatio := strings.HasSuffix(s.name, "_ratio") || strings.HasPrefix(s.name, failedShare)
	if percent {
		v /= 100
		if !isRatio {
			return 0, p.wrong(w, "a number without %", s.name+" is not a ratio")
		}
	}
	if isRatio && v > 1 {
		return 0, p.wrong(w, "a ratio from 0 to 1", "write 0.999 or 99.9%")
	}
	return v, nil
}

func (p *parser) recovery() (*recovery, error) {
	const help = "write: recovers within 3s"
	if err := p.must("within", help); err != nil {
		return nil, err
	}
	within, err := p.time("a time such as 250ms or 3s", help)
	r := &recovery{within: within}
	if err != nil || !p.accept("of") {
		return r, err
	}
	w, err := p.next("fault or heal", "")
	if r.ofHeal = w.text == "heal"; err == nil && !r.ofHeal && w.text != "fault" {
		err = p.wrong(w, "fault or heal", "")
	}
	return r, err
}

// must reads a word that has to follow.
func (p *parser) must(text, help string) error {
	w, err := p.next(text, help)
	if err == nil && w.text != text {
		err = p.wrong(w, text, help)
	}
	return err
}

// word reads a word, which is empty at the end.
func (p *parser) word() word {
	p.Space()
	w := word{column: p.Column()}
	if w.text = p.While(condition.IsSign); w.text == "" {
		w.text = p.While(func(r rune) bool { return !condition.IsSign(r) && !unicode.IsSpace(r) })
	}
	return w
}

func (p *parser) peek() word {
	ahead := *p
	return ahead.word()
}

func (p *parser) next(expected, hint string) (word, error) {
	w := p.word()
	if w.text == "" {
		return w, strict.Problem{Column: w.column, Message: "it ends where " + expected + " was expected", Tip: hint}
	}
	return w, nil
}

func (p *parser) time(expected, help string) (time.Duration, error) {
	w, err := p.next(expected, help)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(w.text)
	if err != nil || d < 0 {
		return 0, p.wrong(w, expected, "")
	}
	return d, nil
}

func (p *parser) wrong(w word, expected, hint string) error {
	return strict.Problem{Column: w.column, Message: fmt.Sprintf("found %.40q, expected %s", w.text, expected), Tip: hint}
}

// accept reads the next word if it is text, and reports whether it was.
func (p *parser) accept(text string) bool {
	ahead := *p
	if ahead.word().text != text {
		return false
	}
	*p = ahead
	return true
}

// window is a part of the measure phase. The zero value is the whole of it.
type window struct {
	relation string // "", during, before, after: to a fault
	from, to time.Duration
	cut      bool // from and to count; to 0: to the end
}

// window reads what follows the value, if anything does.
func (p *parser) window() (w window, err error) {
	const example = "fault, or a time such as 5s"
	switch {
	case p.accept("during"):
		return window{relation: "during"}, p.must("fault", "write: during fault")
	case p.accept("from"):
		w.cut = true
		if w.from, err = p.time("a time such as 5s", ""); err == nil {
			err = p.must("to", "write: from 5s to 10s")
		}
		if err != nil {
			return w, err
		}
		at := p.peek()
		if w.to, err = p.time("a time such as 10s", ""); err == nil && w.to <= w.from {
			err = p.wrong(at, "a time after "+w.from.String(), "")
		}
	case p.accept("after"):
		if p.accept("fault") {
			return window{relation: "after"}, nil
		}
		w.cut = true
		w.from, err = p.time(example, "")
	case p.accept("before"):
		if p.accept("fault") {
			return window{relation: "before"}, nil
		}
		at := p.peek()
		w.cut = true
		if w.to, err = p.time(example, ""); err == nil && w.to == 0 {
			err = p.wrong(at, "a time above 0", "")
		}
	}
	return w, err
}

// whole reports whether it is the whole measure phase.
func (w window) whole() bool { return w == window{} }

func (w window) secondsOf(t Trial) []Second {
	var in []Second
	for i, s := range t.Seconds {
		if w.has(i, t.Faults) {
			in = append(in, s)
		}
	}
	return in
}

// has reports whether a second of the measure phase is in the window. A second belongs to a fault if any part
// of it does. So does the second before the fault: its requests may have been in
// flight when the fault began. "before" and "after" select only seconds entirely
// outside every fault, before the first and after the last.
func (w window) has(second int, faults []Fault) bool {
	from, to := float64(second), float64(second+1)
	if w.cut {
		return from >= w.from.Seconds() && (w.to == 0 || to <= w.to.Seconds())
	}
	return w.relation == "" || w.holds(faults, from, to)
}

func (w window) holds(faults []Fault, from, to float64) bool {
	during, before, after := false, true, true
	for _, f := range faults {
		during = during || (f.At-underWay < to && f.Heal > from)
		before = before && to <= f.At-underWay
		after = after && from >= f.Heal
	}
	return map[string]bool{"during": during, "before": before, "after": after && len(faults) > 0}[w.relation]
}

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
	names := lists.Map(slices.Concat(subjects, startSubjects), func(s subject) string { return s.name })
	names = append(names, lists.Map(changeSubjects, func(s changeSubject) string { return s.name })...)
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
		return float64(lists.Sum(in, of)), nil
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
		return lists.Most(t.Starts, part), nil
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
