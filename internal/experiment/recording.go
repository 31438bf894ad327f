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

// MaxInstants bounds those of all requests, because the recorded experiment has them.
const MaxInstants = 40_000

const (
	maxInstant = 30 * 24 * time.Hour
	// maxRepeated bounds the recorded time that a trial repeats: more does not fit into 64 bits of ns.
	maxRepeated = 100 * 365 * 24 * time.Hour
	// maxReplayed bounds the requests of one trial: a profile has at most 16 MiB.
	maxReplayed = 400_000
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
		if s > maxInstant.Seconds() {
			return fmt.Errorf("%.40s s is more than %v", word, maxInstant)
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

// Recording has the requests of a load in the order of their instants. It repeats.
type Recording struct {
	At      []time.Duration // the first at 0
	Request []int           // places in [Load.Requests]
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
		r.At, r.Request = append(r.At, s.at-all[0].at), append(r.Request, s.request)
	}
	return r
}

// cycle is the time after which the recording repeats: a mean gap after its last request. 0: it has no length.
func (r Recording) cycle() time.Duration {
	n := len(r.At)
	if n < 2 {
		return 0
	}
	return r.At[n-1] + r.At[n-1]/time.Duration(n-1)
}

// instant is that of request k of the repeated recording, and which of the recording it is. k may be negative.
func (r Recording) instant(k int) (at time.Duration, i int) {
	n := len(r.At)
	i = (k%n + n) % n
	return time.Duration((k-i)/n)*r.cycle() + r.At[i], i
}

// rate is that of the first part of the recording at its own speed, rounded so that its requests are the same.
func (r Recording) rate(part time.Duration) float64 {
	k := 0
	for {
		if at, _ := r.instant(k); at >= part || k > maxReplayed {
			return math.Round(float64(k)/part.Seconds()*1e4) / 1e4
		}
		k++
	}
}

// speed is the factor by which the recording is faster than it was, so that its first part has a rate. It
// is 1 if the recording has this rate.
func (r Recording) speed(rate float64, part time.Duration) float64 {
	k := max(1, int(math.Round(rate*part.Seconds())))
	last, _ := r.instant(k - 1)
	next, _ := r.instant(k)
	if last < part && part <= next {
		return 1
	}
	return (last + next).Seconds() / 2 / part.Seconds()
}

// Schedule returns the requests of a load, with their instants in ns from the start of its warm-up. The
// recording begins with the measure phase, and its end precedes it.
func (r Recording) Schedule(rate float64, warmup, measure, tail time.Duration) (at []int64, request []int) {
	if r.cycle() == 0 {
		return nil, nil
	}
	speed := r.speed(rate, measure)
	due := func(k int) time.Duration {
		at, _ := r.instant(k)
		return time.Duration(float64(at) / speed)
	}
	first := 0
	for due(first-1) >= -warmup {
		first--
	}
	for k := first; due(k) < measure+tail; k++ {
		_, i := r.instant(k)
		at, request = append(at, int64(warmup+due(k))), append(request, r.Request[i])
	}
	return at, request
}

// recorded reports whether requests are sent at their instants.
func recorded(e *Experiment) bool { return e.Load.Arrivals == Recorded }

// completeRate gives a load at recorded instants the rate of the recording, if the file has none.
func completeRate(e *Experiment, doc *strict.Document) {
	r := e.Load.Recording()
	if !recorded(e) || doc.Has("factors.rate") || r.cycle() == 0 || e.Phases.Measure <= 0 {
		return
	}
	if e.Factors == nil {
		e.Factors = Factors{}
	}
	e.Factors["rate"] = []RateLevel{{Rate: Rate(r.rate(time.Duration(e.Phases.Measure)))}}
}

// instants checks a load at recorded instants.
func (v loadRules) instants() {
	l, r := v.e.Load, v.e.Load.Recording()
	total, without := 0, -1
	for i, q := range l.Requests {
		total += len(q.At)
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
	case r.cycle() == 0:
		v.report("load.requests", "", "the instants are all the same")
	}
	for _, bad := range []struct {
		found              bool
		field, why, remedy string
	}{
		{l.Profile.Cycle() > 0, "load.profile", "the rate is that of the instants", "remove load.profile, or arrivals"},
		{v.e.closedLoop() || v.e.Searches(), "factors.rate", "instants need a rate", "remove it: the default is the recorded rate"},
		{l.Workers > 1, "load.workers", "one worker sends a recording", "remove it"},
		{l.Cookies, "load.cookies", "the recording has the order of the requests, and each user would have another", "remove cookies, or arrivals"},
	} {
		if bad.found {
			v.report(bad.field, bad.remedy, "%s", bad.why)
		}
	}
	for i, level := range LevelsOf[RateLevel](v.e.Factors, "rate") {
		path := fmt.Sprintf("factors.rate[%d]", i)
		cycles := float64(level.Rate) * time.Duration(v.e.Phases.Warmup+v.e.Phases.Measure).Seconds() / float64(max(1, len(r.At)))
		if cycles*r.cycle().Seconds() > maxRepeated.Seconds() {
			v.report(path, "remove it: the default is the recorded rate", "a trial would have the recording %.3g times, more than a century", cycles)
		}
		if n := float64(level.Rate) * time.Duration(v.e.Phases.Warmup+v.e.Phases.Measure).Seconds(); n > maxReplayed {
			v.report(path, "shorten phases.measure", "a trial has %.0f requests at instants, max %d", n, maxReplayed)
		}
	}
}
