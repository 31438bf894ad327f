package timeline

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/result"
)

// Observe adds to each change what the answers of the load show of its effect until end, ns from the start of the load.
// A connection stays at one worker of a proxy, so that each shows when its worker took over a change: after its last
// request with an old answer was sent, and before its next answer came.
func Observe(changes []result.Change, answers []record.Answer, end time.Duration) {
	connections := map[int][]seen{}
	states := map[string]state{}
	for _, a := range answers {
		s, known := states[a.Version]
		if !known {
			s = stateOf(a.Version)
			states[a.Version] = s
		}
		connections[a.Conn] = append(connections[a.Conn], seen{state: s, sent: a.Sent, end: a.End, ok: a.OK})
	}
	for _, c := range connections {
		slices.SortFunc(c, func(a, b seen) int { return cmp.Compare(a.sent, b.sent) })
	}
	for i := range changes {
		until := int64(end)
		for _, later := range changes[i+1:] {
			if changes[i].Endpoint != "" && later.Endpoint == changes[i].Endpoint {
				until = min(until, nanoseconds(later.SentSeconds)) // it is undone
				break
			}
		}
		observe(&changes[i], connections, until)
	}
	addFailures(changes, answers)
}

// mostFailures is the number of failed requests whose instants a change keeps.
const mostFailures = 200

// addFailures adds to each change when requests failed around it: from a quarter of the time to the next change before it, to as
// long before the next.
func addFailures(changes []result.Change, answers []record.Answer) {
	if len(changes) == 0 {
		return
	}
	from := make([]int64, len(changes)+1) // the time of a change, and the end of all
	var gap int64
	for i := range changes {
		sent := nanoseconds(changes[i].SentSeconds)
		if i+1 < len(changes) {
			gap = nanoseconds(changes[i+1].SentSeconds) - sent
		}
		from[i], from[i+1] = sent-gap/4, sent+gap-gap/4
	}
	for _, a := range answers {
		i, exact := slices.BinarySearch(from, a.Sent)
		if !exact {
			i--
		}
		if a.OK || i < 0 || i >= len(changes) || len(changes[i].FailedMS) == mostFailures {
			continue
		}
		changes[i].FailedMS = append(changes[i].FailedMS, milliseconds(a.Sent-nanoseconds(changes[i].SentSeconds)))
	}
	for i := range changes {
		slices.Sort(changes[i].FailedMS)
	}
}

// seen is one answer.
type seen struct {
	state
	sent, end int64
	ok        bool
}

// state is the configuration that served an answer.
type state struct {
	version  int
	endpoint string
}

// stateOf reads a value of [load.VersionHeader]. An answer without it is of the first configuration.
func stateOf(text string) state {
	version, endpoint, _ := strings.Cut(text, " ")
	n, _ := strconv.Atoi(version)
	return state{n, endpoint}
}

// shows returns whether an answer is of the configuration before a change, or after it. Both are false where it can be of
// either.
func (s state) shows(c *result.Change) (before, after bool) {
	switch c.Kind {
	case mesh.RouteChanged, mesh.WeightShifted:
		return s.version < c.Version, s.version >= c.Version
	case mesh.EndpointRemoved:
		return s.endpoint == c.Endpoint, s.endpoint != c.Endpoint
	}
	return false, s.endpoint == c.Endpoint
}

// never is an instant after all others.
const never = math.MaxInt64

// observe adds what the connections show of a change until an instant.
func observe(c *result.Change, connections map[int][]seen, until int64) {
	sent := nanoseconds(c.SentSeconds)
	first := bounds{0, never}
	last := bounds{0, 0}
	var firstSent int64 = never // of the first answer by the new configuration
	for _, all := range connections {
		one := follow(c, all, sent, until)
		c.Probes += one.answers
		c.Flaps += one.flaps
		if one.answers == 0 {
			continue
		}
		last = bounds{max(last.after, one.switched.after), max(last.before, one.switched.before)}
		if one.first.before < first.before {
			first.before, firstSent = one.first.before, one.first.after
		}
	}
	for _, all := range connections { // the last probe before it that was not served by the new one
		for _, a := range between(all, sent, firstSent) {
			if _, after := a.shows(c); a.ok && !after && a.sent >= sent {
				first.after = max(first.after, a.sent)
			}
		}
	}
	if c.Kind != mesh.EndpointRemoved && first.before != never { // the others served before too
		c.FirstNew = first.span(sent)
	}
	over := first.before
	if c.Kind != mesh.EndpointAdded && c.Probes > 0 {
		c.LastOld, over = last.span(sent), last.before
	}
	for _, all := range connections {
		for _, a := range between(all, sent, min(over, until)) {
			if !a.ok {
				c.Failed++
			}
		}
	}
}

// bounds contain an instant, ns from the start of the load. after 0: since the change.
type bounds struct{ after, before int64 }

func (b bounds) span(sent int64) *result.Span {
	s := &result.Span{AfterMS: milliseconds(max(0, b.after-sent))}
	if b.before != never {
		before := milliseconds(b.before - sent)
		s.BeforeMS = &before
	}
	return s
}

// followed is what one connection shows of a change.
type followed struct {
	answers, flaps int
	first          bounds // when the first answer by the new configuration was sent and had come
	switched       bounds // when its worker served the old configuration for the last time
}

func follow(c *result.Change, all []seen, sent, until int64) followed {
	f := followed{first: bounds{never, never}, switched: bounds{0, never}}
	for _, a := range between(all, sent, until) {
		if !a.ok {
			continue
		}
		f.answers++
		before, after := a.shows(c)
		switch {
		case before && a.sent >= sent:
			if mesh.Versioned(c.Kind) && f.first.before != never {
				f.flaps++
			}
			f.switched = bounds{a.sent, never}
		case after:
			if f.first.before == never {
				f.first = bounds{a.sent, a.end}
			}
			if f.switched.before == never {
				f.switched.before = a.end
			}
		}
	}
	return f
}

// between returns the answers that came after from, to requests that were sent until an instant.
func between(all []seen, from, until int64) []seen {
	i, _ := slices.BinarySearchFunc(all, from, func(a seen, at int64) int {
		if a.end > at {
			return 1
		}
		return -1
	})
	j := i
	for j < len(all) && all[j].sent <= until {
		j++
	}
	return all[i:j]
}

func nanoseconds(seconds float64) int64 { return int64(math.Round(seconds * 1e9)) }

func milliseconds(ns int64) float64 { return float64(ns) / 1e6 }
