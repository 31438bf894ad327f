package balance

import (
	"cmp"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

const (
	// tolerance is the allowed difference, as a share of the requests in the measure phase.
	tolerance = 0.005
	// minTolerance requests are always allowed.
	minTolerance = 2
)

// Rules are the properties of a trial that set the limits of its equations.
type Rules struct {
	// Retries: the mesh repeats failed requests, by its definition.
	Retries bool
	// Uncounted: no counter has the retries. Each follows a request that the called service refused, or that it never got.
	Uncounted bool
	// Measured is the share of the load in the measure phase, 0..1. The tolerance is a
	// share of that part, because requests of an outside client may lie in it.
	Measured float64
}

// Balance is the outcome of the check: the counts of the whole load, warm-up and tail
// included, and the equations between them.
type Balance struct {
	Flows     []Flow     `json:"flows"`
	Equations []Equation `json:"equations"`
	Unchecked []string   `json:"unchecked,omitempty"` // why an equation is missing ([conservation](conservation.md))
}

// Equation compares the counters before and after one part of the way of requests.
type Equation struct {
	Where    string `json:"where"`             // part of the way that is checked
	Unit     Unit   `json:"unit"`              // as above
	Expected int64  `json:"expected"`          // count before it
	Counted  int64  `json:"counted"`           // count after it
	Fewer    int64  `json:"fewer"`             // allowed difference below `expected`
	More     int64  `json:"more"`              // allowed difference above it
	Retries  int64  `json:"retries,omitempty"` // retries in `counted`
	OK       bool   `json:"ok"`                // whether it holds
	From     Point  `json:"from"`              // point before it
	To       Point  `json:"to"`                // point after it
}

// Check derives the equations of a topology from the known flows, and checks them.
func Check(t app.Topology, r Rules, flows []Flow) Balance {
	l := ledger{edges: edges(t), from: map[string][]edge{}, at: map[Place]int{}, rules: r, out: Balance{Flows: slices.Clone(flows), Equations: []Equation{}}}
	for _, e := range l.edges {
		l.from[e.caller] = append(l.from[e.caller], e)
	}
	for _, s := range t.Services {
		if !t.CallsUnknown() || s.Name == t.EntryName() {
			l.services = append(l.services, s.Name)
		}
	}
	if t.CallsUnknown() {
		l.note("calls between services are not declared (application.services), so only requests of the load are checked")
	}
	for i := range l.out.Flows {
		f := &l.out.Flows[i]
		if to := l.from[f.Service]; f.To == "" && slices.Contains(outbound, f.Point) && len(to) == 1 {
			f.To = to[0].service
		}
		l.at[f.Place] = i
	}
	for _, l.unit = range units {
		l.derive()
	}
	if len(l.out.Equations) == 0 && l.out.Unchecked == nil {
		l.note("no counters of requests are known")
	}
	return l.out
}

// ledger derives the equations of one unit.
type ledger struct {
	services []string
	edges    []edge
	from     map[string][]edge // by caller
	at       map[Place]int     // indices of the flows
	rules    Rules
	unit     Unit
	joint    map[string][]Flow // counters of all calls of a caller together, in their order
	out      Balance
}

func (l *ledger) derive() {
	l.joint = map[string][]Flow{}
	for _, e := range l.edges {
		if way := l.known(e.caller, "", outbound...); way != nil {
			l.joint[e.caller] = way
		}
	}
	for _, group := range groups(l.services, l.edges, func(caller string) bool { return l.joint[caller] != nil }) {
		l.cross(group)
	}
	l.waypoints()
	for _, e := range l.edges {
		l.calls(e)
	}
}

// waypoints adds the equations before and after the waypoints, which count the requests of all callers to all
// services together. Calls of services of another unit do not pass them.
func (l *ledger) waypoints() {
	via := l.known(WaypointName, "", Waypoint)
	if via == nil {
		return
	}
	var before, after []Flow
	var called []string
	sent, received := true, true // every caller, and every called service, has a counter
	for _, e := range l.edges {
		if !l.counted(e.service) {
			continue
		}
		way := l.known(e.caller, e.service, Sent)
		before, sent = append(before, way...), sent && way != nil
		if slices.Contains(called, e.service) {
			continue
		}
		called = append(called, e.service)
		if way = l.known(e.service, "", inbound...); way == nil {
			received = false
			continue
		}
		after = append(after, way[0])
	}
	failed := l.unexplained(called)
	if sent && before != nil {
		l.add(between(before, via), before, via, failed)
	}
	if received && after != nil {
		l.add(between(via, after), via, after, failed)
	}
	if !sent || !received {
		l.note(uncounted(l.unit, called))
	}
}

// cross adds the equations of the callers of some services, between both sides, and of the
// services themselves.
func (l *ledger) cross(group []string) {
	failed := l.unexplained(group)
	var before, after []Flow
	whole := true
	done := map[string]bool{}
	for _, e := range l.edges {
		if !slices.Contains(group, e.service) || done[e.caller] {
			continue
		}
		last := l.leave(e, failed)
		done[e.caller] = l.joint[e.caller] != nil
		if last == nil {
			whole = false
			continue
		}
		before = append(before, *last)
	}
	var ways [][]Flow
	for _, s := range group {
		way := l.known(s, "", inbound...)
		if way == nil {
			whole = false
			continue
		}
		ways, after = append(ways, way), append(after, way[0])
	}
	switch {
	case whole:
		l.add(between(before, after), before, after, failed)
	case len(before)+len(after) > 0 && (l.unit == Requests || before != nil && after != nil):
		l.note(uncounted(l.unit, group))
	}
	for _, way := range ways {
		l.chain(way, failed)
	}
}

// leave adds the equations on the caller's side of an edge. It returns the last counter.
func (l *ledger) leave(e edge, failed int64) *Flow {
	joint := l.joint[e.caller]
	if joint == nil {
		way := l.known(e.caller, e.service, outbound...)
		l.chain(way, failed)
		if way == nil {
			return nil
		}
		return &way[len(way)-1]
	}
	var sent []Flow
	for _, to := range l.from[e.caller] {
		if way := l.known(e.caller, to.service, outbound...); way != nil {
			l.chain(way, failed)
			sent = append(sent, way[len(way)-1])
		}
	}
	if len(sent) == len(l.from[e.caller]) {
		l.add(between(sent, joint[:1]), sent, joint[:1], failed)
	}
	l.chain(joint, failed)
	return &joint[len(joint)-1]
}

// chain adds an equation for each two counters in succession.
func (l *ledger) chain(way []Flow, failed int64) {
	for i := 1; i < len(way); i++ {
		l.add(between(way[i-1:i], way[i:i+1]), way[i-1:i], way[i:i+1], failed)
	}
}

// unexplained counts the failed attempts to some services that the services themselves did
// not refuse: they may have ended anywhere on the way. An attempt failed for the caller, or a
// proxy repeated it.
func (l *ledger) unexplained(group []string) int64 {
	var failed, refused, repeated int64
	for _, f := range l.out.Flows {
		to := cmp.Or(f.To, f.Service)
		switch {
		case f.Unknown != "" || !slices.Contains(group, to):
		case f.Point == Sent: // of any unit: a failed request may break its connection
			failed += f.Failed
		case f.Unit != l.unit:
		case f.Point == Served:
			refused += f.Failed
		default:
			repeated += f.Retries
		}
	}
	for caller, way := range l.joint {
		if slices.Contains(group, l.from[caller][0].service) {
			repeated += sum(way).Retries
		}
	}
	return max(0, failed+repeated-refused)
}

// add adds the equation between the sums of two sets of counters.
func (l *ledger) add(where string, before, after []Flow, failed int64) {
	b, a := sum(before), sum(after)
	e := Equation{Where: where, Unit: l.unit, Expected: b.Count, Counted: a.Count, From: Sent, To: after[0].Point}
	limit := l.limit(e.Expected)
	e.Fewer, e.More = limit+failed, limit
	if len(before) > 0 {
		e.From = before[0].Point
		e.More += l.repeated(before[0], after[0], after)
	}
	if l.unit != Requests { // a broken connection is counted on one side, or its attempt is
		e.More += failed
	}
	if e.From == Sent {
		e.More += b.Unsure
	}
	if e.To == OutSent || e.To == InSent {
		if e.Retries = a.Retries; l.rules.Retries {
			e.More += a.Retries
		}
	}
	l.close(e)
}

// repeated counts the requests that a service refused and a proxy may have sent it again, if no counter has them.
func (l *ledger) repeated(from, to Flow, after []Flow) (n int64) {
	if !l.rules.Retries || !l.rules.Uncounted || !slices.Contains(inbound, to.Point) || slices.Contains(inbound, from.Point) {
		return 0
	}
	for _, f := range l.out.Flows {
		if f.Point == Served && f.Unknown == "" && slices.ContainsFunc(after, func(a Flow) bool { return a.Service == f.Service }) {
			n += f.Failed
		}
	}
	return n
}

// calls adds the equation of the calls of an application for each of its requests.
func (l *ledger) calls(e edge) {
	served, sent := l.known(e.caller, "", Served), l.known(e.caller, e.service, Sent)
	if served == nil || sent == nil {
		return
	}
	if served[0].Reconfigured || sent[0].Reconfigured {
		l.note("calls of " + e.caller + " for each request: its configuration was changed during the load")
		return
	}
	n, deviation := e.expected(served[0].Count)
	skipped, _ := e.expected(served[0].Partial)
	limit := l.limit(n) + deviation
	l.close(Equation{Where: inside(e), Unit: l.unit, Expected: n, Counted: sent[0].Count,
		Fewer: limit + skipped, More: limit + sent[0].Retries, From: Served, To: Sent})
}

// known returns the flows of a service at some points that have a count, in their order.
func (l *ledger) known(service, to string, points ...Point) (all []Flow) {
	for _, p := range points {
		i, ok := l.at[Place{service, p, to, l.unit}]
		if !ok {
			continue
		}
		if f := l.out.Flows[i]; f.Unknown == "" {
			all = append(all, f)
		} else {
			l.note(f.counted() + ": " + f.Unknown)
		}
	}
	return all
}

// counted reports whether a service has a place for requests of the ledger's unit.
func (l *ledger) counted(service string) bool {
	return slices.ContainsFunc(inbound, func(p Point) bool { _, ok := l.at[Place{service, p, "", l.unit}]; return ok })
}

// note adds a reason why an equation is missing, once.
func (l *ledger) note(why string) {
	l.out.Unchecked = lists.Add(l.out.Unchecked, why)
}

func (l *ledger) close(e Equation) {
	e.OK = e.Holds()
	l.out.Equations = append(l.out.Equations, e)
}

// Holds reports whether the difference is allowed.
func (e Equation) Holds() bool {
	return e.Counted >= e.Expected-e.Fewer && e.Counted <= e.Expected+e.More
}

func (l *ledger) limit(n int64) int64 {
	return max(minTolerance, int64(math.Round(tolerance*min(1, max(0, l.rules.Measured))*float64(n))))
}

func sum(flows []Flow) (t Tally) {
	for _, f := range flows {
		t = t.plus(f.Tally, 1)
	}
	return t
}
