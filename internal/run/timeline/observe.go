package timeline

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// Observe adds to each change what the answers of the load show of its effect until end, ns from the start of the load.
// A connection stays at one worker of a proxy, so that each shows when its worker took over a change: after its last
// request with an old answer was sent, and before its next answer came. workers is their number, 0 if it is unknown.
func Observe(changes []result.Change, answers []record.Answer, end time.Duration, workers int) {
	connections := map[int][]seen{}
	states := map[string]state{}
	addDropped(changes, answers, int64(end))
	answers = slices.DeleteFunc(answers, func(a record.Answer) bool { return a.Event == record.Dropped })
	for _, a := range answers {
		s, known := states[a.Version]
		if !known {
			s = stateOf(a.Version)
			states[a.Version] = s
		}
		s.denied = a.Status == http.StatusForbidden || a.Status == statusDenied
		connections[a.Conn] = append(connections[a.Conn], seen{state: s, sent: a.Sent, end: a.End, ok: a.OK})
	}
	for _, c := range connections {
		slices.SortFunc(c, bySent)
	}
	for i := range changes {
		until := int64(end)
		for _, later := range changes[i+1:] {
			if undone(&changes[i], &later) {
				until = min(until, nanoseconds(later.SentSeconds))
				break
			}
		}
		kind, _ := metric.ChangeKindOf(changes[i].Kind)
		switch kind.Shown {
		case metric.Outage:
			interrupted(&changes[i], connections, until)
		case metric.Certificate: // handshakes showed it
			changes[i].Failed += failures(connections, nanoseconds(changes[i].SentSeconds), min(until, latest(&changes[i])))
		case metric.Replacement:
			observe(&changes[i], replaced(&changes[i], connections), until)
			if c := &changes[i]; c.LastOld != nil && c.Moved != nil && len(c.Moved.Left) > 0 { // it is not complete
				c.LastOld = bounds{until, never}.span(nanoseconds(c.SentSeconds))
			}
		default:
			observe(&changes[i], connections, until)
		}
	}
	addWaits(changes, connections, end, workers)
	addFailures(changes, answers)
}

// statusDenied is the answer of gRPC to a request that a policy denies (PERMISSION_DENIED).
const statusDenied = load.StatusGRPC + 7

// addDropped adds to each change the connections that the server ended, and the requests under way whose connection or stream it ended,
// until the next change or the end.
func addDropped(changes []result.Change, answers []record.Answer, end int64) {
	for i := range changes {
		from, until := nanoseconds(changes[i].SentSeconds), end
		if i+1 < len(changes) {
			until = nanoseconds(changes[i+1].SentSeconds)
		}
		var dropped, cut int
		for _, a := range answers {
			switch {
			case a.End < from || a.End >= until:
			case a.Event == record.Dropped:
				dropped++
			case a.Event == record.Cut:
				cut++
			}
		}
		changes[i].Dropped, changes[i].Cut = &dropped, &cut
	}
}

// Widen adds the maximum error of the clock of the answers to what they show of changes. Handshakes are on the clock of the changes.
func Widen(changes []result.Change, wrong time.Duration) {
	ms := milliseconds(int64(wrong))
	for i := range changes {
		if kind, _ := metric.ChangeKindOf(changes[i].Kind); kind.Shown == metric.Certificate {
			continue
		}
		for _, s := range []*result.Span{changes[i].FirstNew, changes[i].LastOld} {
			if s == nil {
				continue
			}
			if s.AfterMS = max(0, s.AfterMS-ms); s.BeforeMS != nil {
				*s.BeforeMS += ms
			}
			for k := range s.WaitsMS { // they count from an end that was moved away
				s.WaitsMS[k] += 2 * ms
			}
		}
	}
}

// undone reports whether a later change ends what answers show of one.
func undone(c, later *result.Change) bool {
	kind, _ := metric.ChangeKindOf(c.Kind)
	switch kind.Shown {
	case metric.Endpoint, metric.Certificate:
		return later.Endpoint == c.Endpoint
	case metric.Denial:
		also, _ := metric.ChangeKindOf(later.Kind)
		return also.Shown == metric.Denial
	case metric.Outage, metric.Replacement:
		return true
	}
	return false
}

// replaced are answers with the version before a change if their endpoint answered before it, else with the version after it.
func replaced(c *result.Change, connections map[int][]seen) map[int][]seen {
	sent, old := nanoseconds(c.SentSeconds), map[string]bool{}
	for _, all := range connections {
		for _, a := range all {
			if a.end <= sent {
				old[a.endpoint] = true
			}
		}
	}
	to := map[int][]seen{}
	for conn, all := range connections {
		to[conn] = slices.Clone(all)
		for i := range to[conn] {
			if a := &to[conn][i]; old[a.endpoint] {
				a.version = c.Version - 1
			} else {
				a.version = c.Version
			}
		}
	}
	return to
}

// latest is the instant after which nothing shows the old state, ns from the start of the load.
func latest(c *result.Change) int64 {
	if c.LastOld == nil || c.LastOld.BeforeMS == nil {
		return never
	}
	return nanoseconds(c.SentSeconds + *c.LastOld.BeforeMS/1000)
}

// interrupted adds the requests that failed after a process had ended. The first effect is the first answer to a request that was sent
// after a failed one, and convergence the last failure. Without a failure both are before the first answer. Where nothing restarted,
// both are unknown. A request that is under way at the next change, and fails then, is of that one.
func interrupted(c *result.Change, connections map[int][]seen, until int64) {
	sent := nanoseconds(c.SentSeconds)
	var all []seen
	var begin, end int64 = never, 0 // when the first and the last failed request were sent
	for _, one := range connections {
		for _, a := range between(one, sent, until) {
			switch {
			case a.ok:
				c.Probes++
			case a.end > until:
				continue
			default:
				c.Failed++
				begin, end = min(begin, a.sent), max(end, a.sent)
			}
			all = append(all, a)
		}
	}
	if len(all) == 0 || c.NothingRestarted() {
		return
	}
	if c.Failed == 0 {
		begin = 0
	}
	answered := func(after int64) (first seen) { // the first answer to a request that was sent after an instant
		first = seen{sent: never, end: never}
		for _, a := range all {
			if a.ok && a.sent > after && a.end < first.end {
				first = a
			}
		}
		return first
	}
	first, last := answered(begin), bounds{end, answered(end).end}
	up := bounds{0, first.end}
	for _, a := range all {
		if !a.ok && a.sent < first.sent {
			up.after = max(up.after, a.sent)
		}
	}
	c.FirstNew, c.LastOld = up.span(sent), last.span(sent)
}

// failures are the requests that failed, of requests that were sent or under way from an instant to another.
func failures(connections map[int][]seen, from, to int64) (n int) {
	for _, all := range connections {
		for _, a := range between(all, from, to) {
			if !a.ok {
				n++
			}
		}
	}
	return n
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

type seen struct {
	state
	sent, end int64
	ok        bool
}

func bySent(a, b seen) int { return cmp.Compare(a.sent, b.sent) }

// state is the configuration that served an answer.
type state struct {
	version  int
	endpoint string
	denied   bool
}

// stateOf reads a value of [load.VersionHeader]. An answer without it is of the first configuration. A proxy may have put its
// version before the application's.
func stateOf(text string) state {
	version, endpoint, _ := strings.Cut(text, " ")
	n, _ := strconv.Atoi(version)
	return state{version: n, endpoint: endpoint[strings.LastIndexByte(endpoint, ' ')+1:]}
}

// shows returns whether an answer is of the configuration before a change, or after it. Both are false where it can be of
// either.
func (s state) shows(c *result.Change) (before, after bool) {
	switch c.Kind {
	case metric.PolicyDenied:
		return !s.denied, s.denied
	case metric.PolicyAllowed:
		return s.denied, !s.denied
	case metric.EndpointRemoved:
		return s.endpoint == c.Endpoint, s.endpoint != c.Endpoint
	case metric.EndpointAdded:
		return false, s.endpoint == c.Endpoint
	}
	return s.version < c.Version, s.version >= c.Version
}

// never is an instant after all others.
const never = math.MaxInt64

// observe adds what the connections show of a change until an instant.
func observe(c *result.Change, connections map[int][]seen, until int64) {
	sent := nanoseconds(c.SentSeconds)
	first := bounds{never, never}
	last := bounds{0, 0}
	kind, _ := metric.ChangeKindOf(c.Kind)
	replicas := map[string]bool{} // and whether one gave an answer by the new configuration
	for _, all := range connections {
		one := follow(c, all, sent, until)
		c.Probes += one.answers
		c.Flaps += one.flaps
		if one.answers == 0 {
			continue
		}
		c.Connections++
		if one.switched.before == never {
			c.Unchanged++
		}
		for _, a := range between(all, sent, until) {
			if _, after := a.shows(c); a.counts(c) && a.sent >= sent && kind.Shown != metric.Endpoint && kind.Shown != metric.Replacement && a.endpoint != "" {
				replicas[a.endpoint] = replicas[a.endpoint] || after
			}
		}
		last = bounds{max(last.after, one.switched.after), max(last.before, one.switched.before)}
		first = bounds{min(first.after, one.first.after), min(first.before, one.first.before)}
	}
	c.Replicas = len(replicas)
	for _, endpoint := range slices.Sorted(maps.Keys(replicas)) {
		if !replicas[endpoint] {
			c.UnchangedAt = append(c.UnchangedAt, endpoint)
		}
	}
	if c.Kind != metric.EndpointRemoved && first.before != never { // the others served before too
		c.FirstNew = first.span(sent)
	}
	over := first.before
	if c.Kind != metric.EndpointAdded && c.Probes > 0 {
		c.LastOld, over = last.span(sent), last.before
	}
	for _, all := range connections {
		for _, a := range between(all, sent, min(over, until)) {
			if !a.counts(c) {
				c.Failed++
			}
		}
	}
}

// counts reports whether an answer is neither a failure nor of another kind: a denial is the answer of a policy.
func (a seen) counts(c *result.Change) bool {
	return a.ok || a.denied && (c.Kind == metric.PolicyDenied || c.Kind == metric.PolicyAllowed)
}

// bounds contain an instant, ns from the start of the load. after 0: since the change.
type bounds struct{ after, before int64 }

func (b bounds) span(sent int64) *result.Span {
	s := &result.Span{AfterMS: milliseconds(max(0, b.after-sent))}
	if b.before != never {
		s.BeforeMS = new(milliseconds(b.before - sent))
	}
	return s
}

// followed is what one connection shows of a change.
type followed struct {
	answers, flaps int
	first          bounds // of the first time that its worker served the new configuration
	switched       bounds // of the last time that its worker did not: requests that fail before the first new answer count too
}

// follow reads the answers of one connection, of which several may be under way at once. An answer shows its configuration between
// its request and its end.
func follow(c *result.Change, all []seen, sent, until int64) followed {
	f := followed{first: bounds{0, never}, switched: bounds{0, never}}
	kind, _ := metric.ChangeKindOf(c.Kind)
	answers := between(all, sent, until)
	for _, a := range answers {
		if _, after := a.shows(c); a.counts(c) && after {
			f.first.before = min(f.first.before, a.end)
		}
	}
	for _, a := range answers {
		before, _ := a.shows(c)
		switch {
		case a.sent < sent:
		case !a.counts(c):
			if a.sent < f.first.before && kind.Shown != metric.Endpoint {
				f.switched.after = max(f.switched.after, a.sent)
			}
		case before:
			if kind.Shown == metric.Version && a.sent >= f.first.before {
				f.flaps++
			}
			f.switched.after = max(f.switched.after, a.sent)
		}
		if a.sent < f.first.before && kind.Shown != metric.Endpoint { // other replicas served before and after it
			f.first.after = f.switched.after
		}
	}
	for _, a := range answers {
		if !a.counts(c) {
			continue
		}
		f.answers++
		if _, after := a.shows(c); after && a.end > f.switched.after {
			f.switched.before = min(f.switched.before, a.end)
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

// underWay is how long before a fault a request may have been due that the fault hits.
const underWay = time.Second

// Window is a time in which a check is suspended.
type Window struct {
	From time.Time
	To   time.Time // zero: to the end of the trial
}

// Overlaps reports whether a part of [from, to) is in the window.
func (w Window) Overlaps(from, to time.Time) bool {
	return to.After(w.From) && (w.To.IsZero() || from.Before(w.To))
}

// Windows returns the windows in which the injected faults of a trial suspend a check, by the code of its warning.
// faults are the faults of the experiment. A fault that was not healed has a window to the end.
func Windows(check string, injected []result.Fault, faults []experiment.Fault) []Window {
	var all []Window
	for _, in := range injected {
		if in.Index < 0 || in.Index >= len(faults) { // of a changed record
			continue
		}
		f := faults[in.Index].Defaults()
		if k, _ := experiment.FaultKindOf(f.Kind); !slices.Contains(k.Suspends, check) {
			continue
		}
		w := Window{From: in.Start.Add(-underWay)}
		if !in.Healed.IsZero() {
			w.To = in.Healed.Add(time.Duration(f.Recovery))
		}
		all = append(all, w)
	}
	return all
}

// settling is how long after a change requests may fail.
const settling = 2 * time.Second

// ChangeWindows returns the windows in which the changes of a trial suspend a check, by the code of its warning. start is the start
// of the load. A denial has a window until the policy allows requests again.
func ChangeWindows(check string, changes []result.Change, start time.Time) (all []Window) {
	at := func(s float64) time.Time { return start.Add(time.Duration(nanoseconds(s))) }
	for i, c := range changes {
		kind, _ := metric.ChangeKindOf(c.Kind)
		suspends := []string{experiment.Errors} // what a change costs
		if kind.Fails {
			suspends = append(suspends, experiment.RateMissed, experiment.RateExceeded)
		}
		if kind.Plane != "" {
			suspends = append(suspends, experiment.Restarted)
		}
		if !slices.Contains(suspends, check) {
			continue
		}
		w := Window{From: at(c.SentSeconds).Add(-underWay), To: at(c.AcceptedSeconds).Add(settling)}
		if c.Kind == metric.PolicyDenied {
			w.To = time.Time{}
			for _, later := range changes[i+1:] {
				if later.Kind == metric.PolicyAllowed {
					w.To = at(later.AcceptedSeconds).Add(settling)
					break
				}
			}
		}
		all = append(all, w)
	}
	return all
}

// partsEvery is the share of changes after which the proxies are read: every fifth one. The reading costs CPU in the time that
// has the level without a change, so that these changes have no CPU time.
const partsEvery = 5

// readLead is how long before the next change the proxies are read, and readRemoteLead the same over a network.
const (
	readLead       = 20 * time.Millisecond
	readRemoteLead = 200 * time.Millisecond
)

// update has the instants of proxies after a change.
type update struct {
	read    time.Time
	proxies map[string][]time.Time
}

// readsParts reports whether the proxies are read after a change of the plan. Proxies of a cluster have no instants of endpoints.
func (c *Changes) readsParts(number int) bool {
	kind := c.plan[number].described
	return c.deployment.Moments != nil && number%partsEvery == partsEvery-1 && kind.Shown != metric.Outage &&
		!(c.Remote && kind.Shown == metric.Endpoint)
}

// readUpdates reads the proxies before the next change. A reading that fails leaves the parts of the change unknown.
func (c *Changes) readUpdates(ctx context.Context, group *errgroup.Group, begin, end time.Time) {
	lead := readLead
	if c.Remote {
		lead = readRemoteLead
	}
	for number := range c.plan {
		if !c.readsParts(number) {
			continue
		}
		group.Go(routine.Guarded(func() error {
			came, err := await(ctx, begin.Add(c.plan[number].at+max(c.plan[number].next*3/4, c.plan[number].next-lead)), end)
			if err != nil || !came {
				return err
			}
			read := time.Now() // a later instant may be of the next change
			if proxies, err := c.deployment.Moments.ProxyUpdates(ctx); err == nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.updates[number] = update{read, proxies}
			}
			return nil
		}))
	}
}

// Parts adds to changes what the mesh counts of them. start is the start of the load. A change is left out while an earlier one
// had not taken effect: the latest configuration of a proxy may be of that.
func (c *Changes) Parts(ctx context.Context, start time.Time, changes []result.Change) {
	if len(c.updates) == 0 {
		return
	}
	counted, err := c.deployment.Moments.ControlMoments(ctx)
	if err != nil {
		counted = nil // as of a control plane that started again: unknown
	}
	byDue := map[float64]update{}
	for number, u := range c.updates {
		if made := c.made[number]; made != nil {
			byDue[made.DueSeconds] = u
		}
	}
	for i := range changes {
		change := &changes[i]
		if u, has := byDue[change.DueSeconds]; has && settled(changes[:i], change.SentSeconds) {
			change.Parts = partsOf(change, start, u, counted)
		}
	}
}

// settled reports whether no answer shows that changes had not taken effect at an instant.
func settled(earlier []result.Change, at float64) bool {
	for i := range earlier {
		if of := earlier[i].Time(); of != nil && earlier[i].SentSeconds+of.AfterMS/1000 > at {
			return false
		}
	}
	return true
}

// partsOf finds the instants of a change: the one change that the control plane received while tare sent it, and the last
// configuration that a proxy took over since. nil: none is known.
func partsOf(change *result.Change, start time.Time, u update, counted []mesh.ControlMoment) *result.ChangeParts {
	sent := start.Add(time.Duration(nanoseconds(change.SentSeconds)))
	after := func(ns int64) float64 { return milliseconds(ns - sent.UnixNano()) }
	var parts result.ChangeParts
	var found []mesh.ControlMoment
	for _, m := range counted {
		if at := after(m.ReceivedNS); at >= 0 && at <= 1000*(change.AcceptedSeconds-change.SentSeconds) {
			found = append(found, m)
		}
	}
	if len(found) == 1 {
		received, pushed := after(found[0].ReceivedNS), after(found[0].SentNS)
		parts.ReceivedMS, parts.PushedMS = &received, &pushed
	}
	for _, times := range u.proxies {
		took := false
		for _, at := range times {
			if at.Before(sent.Truncate(time.Millisecond)) || at.After(u.read) { // of an earlier change
				continue
			}
			took = true
			if ms := after(at.Add(time.Millisecond / 2).UnixNano()); parts.TakenMS == nil || ms > *parts.TakenMS {
				parts.TakenMS = &ms
			}
		}
		if took {
			parts.Proxies++
		}
	}
	if parts == (result.ChangeParts{}) {
		return nil
	}
	return &parts
}
