package balance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
)

// actions are the words for what happens at a point.
var actions = map[Point]string{
	Sent: "sent by", OutReceived: "received by", OutSent: "sent by", InReceived: "received by", InSent: "sent to the application by", Served: "served by",
	Waypoint: "received by", NodeOut: "sent by", NodeIn: "received by", Gateway: "received by",
}

// plurals of units in texts.
var plurals = map[Unit]string{Requests: "requests", Connections: "connections", Handshakes: "TLS handshakes"}

func (p Place) counted() string {
	text := plurals[p.Unit] + " " + actions[p.Point] + " " + p.counter()
	if p.To != "" {
		text += " to " + p.To
	}
	return text
}

// between names the part of the way between two sets of counters.
func between(before, after []Flow) string {
	from, to := names(before), names(after)
	switch {
	case from == "":
		return "at " + to + ", which nothing calls"
	case slices.ContainsFunc(slices.Concat(before, after), func(f Flow) bool { return f.Service != before[0].Service }):
		return "between " + from + " and " + to
	case before[0].counter() == after[0].counter():
		return "in " + to + after[0].direction()
	case before[0].Point == Sent:
		return "between " + from + " and " + after[0].next()
	}
	return "between " + from + " and its application"
}

// next names the proxy that a caller's requests reach first.
func (p Place) next() string {
	switch p.Point {
	case Gateway:
		return "the gateway"
	case NodeOut:
		return "its node proxy"
	}
	return "its sidecar"
}

// direction describes the direction of requests in a sidecar.
func (p Place) direction() string {
	switch {
	case p.Point == InSent:
		return " (inbound)"
	case p.To != "":
		return " (outbound to " + p.To + ")"
	}
	return " (outbound)"
}

// maxNames bounds the names in a text.
const maxNames = 3

func names(flows []Flow) string {
	var all []string
	for _, f := range flows {
		if name := f.counter(); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	if len(all) > maxNames {
		all = append(all[:maxNames-1], fmt.Sprintf("%d others", len(all)-maxNames+1))
	}
	return printable.And(all)
}

// counter names the application or proxy that counts at a point.
func (p Place) counter() string {
	switch {
	case p.Point == Waypoint:
		return "the waypoint"
	case p.Point == Gateway:
		return "the gateway"
	case p.Point == NodeOut || p.Point == NodeIn:
		return "the node proxy of " + p.Service
	case p.Point != Sent && p.Point != Served:
		return "the sidecar of " + p.Service
	case p.Service == LoadName:
		return LoadName
	}
	return "the application " + p.Service
}

func inside(e edge) string {
	return fmt.Sprintf("in the application %s, by its calls of %s (%.4g a request)", e.caller, e.service, e.times)
}

func uncounted(unit Unit, group []string) string {
	return fmt.Sprintf("%s to %s: a counter is missing on one side", plurals[unit], strings.Join(group, ", "))
}

// String describes a violation.
func (e Equation) String() string {
	verb, limit := "appeared", e.More
	if e.Counted < e.Expected {
		verb, limit = "vanished", e.Fewer
	}
	text := fmt.Sprintf("%d %s %s %s: %d expected, %d counted, allowed difference %d", e.off(), plurals[e.Unit], verb, e.Where, e.Expected, e.Counted, limit)
	if e.Retries > 0 {
		text += "; the proxy counted " + printable.Counted(int(e.Retries), "retry")
	}
	return text
}

// maxViolations bounds the violations in a message.
const maxViolations = 3

// Message describes the violations, or "" if the equations hold.
func (b Balance) Message() string {
	all := b.violated()
	texts := lists.Map(all[:min(len(all), maxViolations)], Equation.String)
	if more := len(all) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("%d more in the record (balance)", more))
	}
	if cause := b.cause(); cause != "" {
		texts = append(texts, "probable cause: "+cause)
	}
	return strings.Join(texts, "; ")
}

// Causes of violations. docs/reference/conservation.md lists them too.
const (
	causeClient  = "a client outside the trial"
	causeEither  = "a client outside the trial, or a proxy that repeats requests and does not count them"
	causeRetries = "a proxy that repeats requests, which its mesh definition does not declare"
	causeBypass  = "requests that bypass the proxies"
	causeAnswer  = "a proxy that answers itself, such as a cache"
	causeCalls   = "an application that does not call as its topology declares"
)

// cause returns the probable cause of the largest violation, or "" if the equations hold.
func (b Balance) cause() string {
	all := b.violated()
	if len(all) == 0 {
		return ""
	}
	first := all[0]
	more := first.Counted > first.Expected
	switch {
	case first.From == Served:
		return causeCalls
	case more && (first.Retries > 0 || first.inside() || b.spans(first) && b.refused(first)):
		return causeRetries
	case slices.ContainsFunc(all, func(e Equation) bool {
		return e.Unit == first.Unit && (e.Counted > e.Expected) != more && alike(e, first)
	}):
		return causeBypass
	case more && b.spans(first):
		return causeEither
	case more:
		return causeClient
	}
	return causeAnswer
}

// violated returns the equations that do not hold, the largest difference first.
func (b Balance) violated() (all []Equation) {
	all = lists.Where(b.Equations, func(e Equation) bool { return !e.OK })
	slices.SortStableFunc(all, func(x, y Equation) int { return int(y.off() - x.off()) })
	return all
}

// inside reports whether both counters are of one side of one sidecar, which no client can reach.
func (e Equation) inside() bool {
	return e.Unit == Requests && (e.From == OutReceived && e.To == OutSent || e.From == InReceived && e.To == InSent)
}

// spans reports whether a proxy between both points has no counter of what it sends, and may have sent a request again.
func (b Balance) spans(e Equation) bool {
	has := func(points ...Point) bool {
		return slices.ContainsFunc(b.Flows, func(f Flow) bool { return f.Unit == Requests && slices.Contains(points, f.Point) })
	}
	if slices.ContainsFunc(b.Flows, func(f Flow) bool { return f.Bytes > 0 && f.Point == e.To }) {
		return true
	}
	from, to := slices.Index(way, e.From), slices.Index(way, e.To)
	across := func(received, sent Point) bool {
		return from <= slices.Index(way, received) && to >= slices.Index(way, sent) && has(received, sent)
	}
	return e.Unit == Requests && (e.From == Gateway || e.From == Waypoint || from >= 0 && (across(OutReceived, OutSent) || across(InReceived, InSent)))
}

// refused reports whether the services refused as many requests as the equation has more, and the callers got none of them.
func (b Balance) refused(e Equation) bool {
	n := int64(0)
	for _, f := range b.Flows {
		switch {
		case f.Unit != Requests || f.Unknown != "":
		case f.Point == Served:
			n += f.Failed
		case f.Point == Sent:
			n -= f.Failed
		}
	}
	return n > 0 && alike(Equation{Counted: n}, e)
}

// alike reports whether two differences are equal within a tenth.
func alike(a, b Equation) bool { return 10*a.off() >= 9*b.off() && 10*b.off() >= 9*a.off() }

// off is the absolute difference.
func (e Equation) off() int64 { return max(e.Counted-e.Expected, e.Expected-e.Counted) }
