package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// Recorded are arrivals at the instants of the requests.
const Recorded = "recorded"

// MaxInstants bounds the instants of all requests together, because the recorded experiment contains each one.
const MaxInstants = 40_000

// LastInstant bounds each instant.
const LastInstant = 30 * 24 * time.Hour

const (
	// maxRepeated bounds the recorded time that a trial repeats: more does not fit into 64 bits of ns.
	maxRepeated = 100 * 365 * 24 * time.Hour
	// MaxReplayed bounds the requests of one trial: a profile has at most 16 MiB.
	MaxReplayed = 400_000
)

// Instants of a request, with a precision of 1 µs. The file has seconds with spaces between.
type Instants []time.Duration

const instantsForm = `^[0-9.]+( [0-9.]+)*$`

// Wants describes the text for messages.
func (Instants) Wants() string { return "seconds with spaces between, such as 0 0.25 1.5" }

// UnmarshalScalar reads instants.
func (x *Instants) UnmarshalScalar(text string) error {
	var all Instants
	for word := range strings.FieldsSeq(text) {
		s, err := strict.Number(word)
		if err != nil || !(s >= 0) {
			return fmt.Errorf("found %.40q, expected %s", word, x.Wants())
		}
		if s > LastInstant.Seconds() {
			return fmt.Errorf("%.40s s is more than %v", word, LastInstant)
		}
		all = append(all, time.Duration(math.Round(s*1e6))*time.Microsecond)
	}
	if all == nil {
		return errors.New("there is no instant; expected " + x.Wants())
	}
	*x = all
	return nil
}

// MarshalText writes what UnmarshalScalar reads.
func (x Instants) MarshalText() ([]byte, error) {
	var b []byte
	for i, at := range x {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendFloat(b, float64(at.Round(time.Microsecond).Microseconds())/1e6, 'f', -1, 64)
	}
	return b, nil
}

// UnmarshalText reads what MarshalText has written.
func (x *Instants) UnmarshalText(text []byte) error { return x.UnmarshalScalar(string(text)) }

// completeRate gives a load at recorded instants the rate of the recording, if the file has none.
func (f *File) completeRate() {
	e := f.Experiment
	r := e.Load.Recording()
	if !recorded(e) || f.Has("factors.rate") || r.cycle() == 0 || e.Phases.Measure <= 0 {
		return
	}
	if e.Factors == nil {
		e.Factors = Factors{}
	}
	e.Factors["rate"] = []RateLevel{{Rate: Rate(r.rate(time.Duration(e.Phases.Measure)))}}
}

// Recording has the requests of a load in the order of their instants. It repeats.
type Recording struct {
	At      []time.Duration // the first at 0
	Request []int           // places in [Load.Requests]
}

// rate returns the mean rate in the first part of the recording, at its own speed. It is rounded to the fewest
// decimals, min 4, that keep the number of requests.
func (r Recording) rate(part time.Duration) float64 {
	k := 0
	for {
		if at, _ := r.dueTime(k); at >= part || k > MaxReplayed {
			break
		}
		k++
	}
	exact := float64(k) / part.Seconds()
	for unit := 1e4; unit <= 1e12; unit *= 10 {
		if rounded := math.Round(exact*unit) / unit; rounded*part.Seconds() >= 1 && math.Round(rounded*part.Seconds()) == float64(k) {
			return rounded
		}
	}
	if exact*part.Seconds() < float64(k) { // validation refuses less than one request
		return math.Nextafter(exact, math.Inf(1))
	}
	return exact
}

func (v loadRules) instants() {
	l, r := v.e.Load, v.e.Load.Recording()
	total, without, late := 0, -1, -1
	for i, q := range l.Requests {
		total += len(q.At)
		if len(q.At) > 0 && slices.Max(q.At) > LastInstant {
			late = i
		}
		if len(q.At) == 0 {
			without = i
		}
	}
	if !recorded(v.e) {
		if total > 0 {
			v.report("load.requests", "write load: {arrivals: recorded}, or remove at", "the requests have instants, and the arrivals are %s", l.Arrivals)
		}
		return
	}
	switch {
	case total == 0:
		v.report("load.arrivals", "write at for each of load.requests, or load.targets with a log, HAR, or JSON lines with \"at\"", "the requests have no instants")
	case without >= 0:
		v.report(fmt.Sprintf("load.requests[%d]", without), "write at, such as at: 0 0.25 1.5", "other requests have instants, and this one has none")
	case total > MaxInstants:
		v.report("load.requests", "a recording repeats until the load ends", "%d instants, max %d", total, MaxInstants)
	case late >= 0:
		v.report(fmt.Sprintf("load.requests[%d]", late), "write the seconds after the first request", "an instant is more than %v", LastInstant)
	case r.cycle() == 0:
		v.report("load.requests", "write two instants or more", "a single instant has no rate")
	}
	for _, bad := range []struct {
		found              bool
		field, why, remedy string
	}{
		{l.Profile.Cycle() > 0, "load.profile", "the rate is that of the instants", "remove load.profile, or arrivals"},
		{v.e.closedLoop() || v.e.searches(), "factors.rate", "instants need a rate", "remove it: the default is the recorded rate"},
		{l.Workers > 1, "load.workers", "one worker sends a recording", "remove it"},
		{l.Cookies, "load.cookies", "the recording has the order of the requests, and each user would have another", "remove cookies, or arrivals"},
	} {
		if bad.found {
			v.report(bad.field, bad.remedy, "%s", bad.why)
		}
	}
	if total == 0 || total > MaxInstants || late >= 0 || r.cycle() == 0 || v.e.Phases.Measure <= 0 || v.e.Phases.Warmup < 0 {
		return
	}
	for i, level := range LevelsOf[RateLevel](v.e.Factors, "rate") {
		if level.Rate > 0 {
			v.repeated(fmt.Sprintf("factors.rate[%d]", i), float64(level.Rate), r)
		}
	}
}

// Recording returns the requests with instants.
func (l *Load) Recording() Recording {
	type sent struct {
		at      time.Duration
		request int
	}
	var all []sent
	for i, q := range l.Requests {
		for _, at := range q.At {
			all = append(all, sent{at, i})
		}
	}
	slices.SortStableFunc(all, func(a, b sent) int { return cmp.Compare(a.at, b.at) })
	var r Recording
	for _, s := range all {
		r.At, r.Request = append(r.At, s.at), append(r.Request, s.request)
	}
	spread(r.At)
	for i := range r.At { // the first is not changed by spread
		r.At[i] -= all[0].at
	}
	return r
}

// precisions of instants, in descending order.
var precisions = []time.Duration{time.Second, 100 * time.Millisecond, 10 * time.Millisecond, time.Millisecond, 100 * time.Microsecond, 10 * time.Microsecond, time.Microsecond}

// spread distributes requests with the same instant evenly over the precision of all instants, in their order. So the
// requests of a log of whole seconds are spread over a second.
func spread(at []time.Duration) {
	precision := precisions[slices.IndexFunc(precisions, func(p time.Duration) bool {
		return p == time.Microsecond || !slices.ContainsFunc(at, func(x time.Duration) bool { return x%p != 0 })
	})]
	for begin := 0; begin < len(at); {
		n := 1
		for begin+n < len(at) && at[begin+n] == at[begin] {
			n++
		}
		for k := range n {
			at[begin+k] += precision * time.Duration(k) / time.Duration(n)
		}
		begin += n
	}
}

func (v loadRules) repeated(path string, rate float64, r Recording) {
	const remedy = "remove it: the default is the recorded rate"
	warmup, measure := time.Duration(v.e.Phases.Warmup), time.Duration(v.e.Phases.Measure)
	n := rate * (warmup + measure).Seconds()
	if n > MaxReplayed {
		v.report(path, "shorten phases.measure", "a trial has %.0f requests at instants, max %d", n, MaxReplayed)
	}
	if cycles := n / float64(len(r.At)); cycles*r.cycle().Seconds() > maxRepeated.Seconds() {
		v.report(path, remedy, "a trial would have the recording %.3g times, more than a century", cycles)
		return
	}
	switch speed := r.speed(rate, measure); {
	case n > MaxReplayed:
		return
	case speed <= 0:
		v.report(path, remedy, "more requests have the first instant than a trial has")
		return
	case r.cycle().Seconds()/speed > maxRepeated.Seconds():
		v.report(path, remedy, "the first requests have almost the same instant: at this rate the recording lasts more than a century")
		return
	}
	at, _ := r.Schedule(rate, warmup, measure, 0)
	if len(at) > MaxReplayed {
		v.report(path, "shorten phases.warmup: the end of the recording is in it", "a trial has over %d requests at instants, max %[1]d", MaxReplayed)
		return
	}
	begin, _ := slices.BinarySearch(at, int64(warmup))
	if found, want := len(at)-begin, requests(rate, measure); math.Abs(float64(found-want)) > float64(want)/100 {
		v.report(path, fmt.Sprintf("write %g, or remove it: the default is the recorded rate", float64(found)/measure.Seconds()),
			"requests have the same instant: the measure phase has %d, and the rate requires %d", found, want)
	}
}

// Schedule returns the requests of a load, with their instants in ns from the start of its warm-up. The
// recording begins with the measure phase, and its end precedes it. There are at most MaxReplayed+1 requests: one more
// than a trial may have.
func (r Recording) Schedule(rate float64, warmup, measure, tail time.Duration) (at []int64, request []int) {
	if r.cycle() == 0 {
		return nil, nil
	}
	speed := r.speed(rate, measure)
	due := func(k int) time.Duration {
		at, _ := r.dueTime(k)
		return time.Duration(float64(at) / speed)
	}
	first := 0
	for first > -MaxReplayed-1 && due(first-1) >= -warmup {
		first--
	}
	for k := first; len(at) <= MaxReplayed && due(k) < measure+tail; k++ {
		_, i := r.dueTime(k)
		at, request = append(at, int64(warmup+due(k))), append(request, r.Request[i])
	}
	return at, request
}

// speed is the factor by which the recording is faster than it was, so that its first part has a rate. It
// is 1 if the recording has this rate.
func (r Recording) speed(rate float64, part time.Duration) float64 {
	k := requests(rate, part)
	last, _ := r.dueTime(k - 1)
	next, _ := r.dueTime(k)
	if last < part && part <= next {
		return 1
	}
	return (last + next).Seconds() / 2 / part.Seconds()
}

// dueTime returns when request k of the repeated recording is due, and its index in the recording. k may be negative.
func (r Recording) dueTime(k int) (at time.Duration, i int) {
	n := len(r.At)
	i = (k%n + n) % n
	return time.Duration((k-i)/n)*r.cycle() + r.At[i], i
}

// cycle is the time after which the recording repeats: a mean gap after its last request. 0: it has no length.
func (r Recording) cycle() time.Duration {
	n := len(r.At)
	if n < 2 {
		return 0
	}
	return r.At[n-1] + r.At[n-1]/time.Duration(n-1)
}

// requests is the number of requests that a rate requires in a part of the trial.
func requests(rate float64, part time.Duration) int {
	return max(1, int(math.Round(rate*part.Seconds())))
}

// recorded reports whether requests are sent at their instants.
func recorded(e *Experiment) bool { return e.Load.Arrivals == Recorded }
