package local

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/app"
	loads "github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
	"github.com/tare-mesh/tare/internal/run/platform"
)

const (
	// probes are sent one after another, each on its own connection.
	probes       = 20
	probeTimeout = 10 * time.Second
	// settleTimeout is the maximum delay of counters after answers.
	settleTimeout = 3 * time.Second
)

// pathHint is the hint for counters that did not change as required.
const pathHint = "requests bypass the mesh; see the proxies' configurations and logs in the trial's provenance directory"

// verifier implements [platform.Deployment.Verify].
type verifier struct {
	layout    *layout
	processes *processes
	control   *controlPlane
	proxies   *proxies
	sockets   *socketCounts
	answer    time.Duration // maximum time of a probe
	settle    time.Duration // maximum delay of counters
	proven    []check.Check // by nonces, before the applications started
	refused   bool          // an earlier verification made connections that proxies refused
}

// Verify implements [platform.Deployment.Verify]. It sends probes to the entry and compares the change of
// every counter that they pass.
func (v *verifier) Verify(ctx context.Context, probe platform.Probe) (done platform.Verification, err error) {
	defer func() { err = hint.Prefix(err, "verify") }()
	if err := v.processes.Err(); err != nil {
		return done, err
	}
	probe = v.layout.spec.Completed(probe, v.layout.entry)
	requests, err := requestsOf(probe.Load)
	if err != nil {
		return done, err
	}
	flows, err := v.flows(probe, requests)
	if err != nil {
		return done, err
	}
	before, err := v.baseline(ctx, flows)
	if err != nil {
		return done, err
	}
	answers, seen := v.probe(ctx, probe, requests)
	checks := append(slices.Clone(v.proven), answers)
	after, err := settle(ctx, v.settle, flows, before)
	if err != nil {
		return done, err
	}
	for i, f := range flows {
		checks = append(checks, f.check(before[i], after[i]))
	}
	checks = slices.Concat(checks, v.controlVersions(ctx), v.proxyVersions(ctx), v.workers(ctx), v.background(ctx),
		v.dumped(v.proxies.keepDumps(ctx)))
	if v.layout.spec.Mesh.Provides.MTLS {
		checks = append(checks, v.checkTLS(ctx)...)
		v.refused = true
	}
	checks = append(checks, v.sockets.arrive(ctx, probe.Load)...)
	v.sockets.learn(ctx, probe.Load)
	if kept := v.reuse(ctx, probe.Load); kept != nil {
		checks = append(checks, kept...)
		if _, err := rest(ctx, v.settle, flows); err != nil { // the load begins with counters that have all of these requests
			return done, err
		}
	}
	if ctx.Err() != nil {
		return done, context.Cause(ctx)
	}
	return platform.Verification{Checks: checks, Answers: seen}, nil
}

// baseline reads the counters before the probes. A proxy may count a connection after it refused
// it: then the counters of an earlier verification must rest.
func (v *verifier) baseline(ctx context.Context, flows []flow) ([]reading, error) {
	if v.refused {
		return rest(ctx, v.settle, flows)
	}
	return readAll(ctx, flows)
}

func timedOut(err error) bool {
	var late interface{ Timeout() bool }
	return errors.As(err, &late) && late.Timeout()
}

// probe sends the probes, checks the answers and describes them.
func (v *verifier) probe(ctx context.Context, probe platform.Probe, requests []request) (c check.Check, seen []check.Answer) {
	s := v.layout.spec.Entry()
	client := clients[v.layout.spec.Protocol(s)]
	all, first := platform.Answers{Failed: map[string]int{}}, ""
	for i := range requests {
		requests[i].echoes = !s.IsOwn()
		within, cancel := context.WithTimeout(ctx, v.answer)
		a, err := client.probe(within, &requests[i])
		cancel()
		if err == nil {
			all.Good++
			a.Request, a.Probes = requests[i].name, 1
			seen = check.Merge(seen, a)
			continue
		}
		first = cmp.Or(first, err.Error())
		all.Failed[cmp.Or(a.Status, "no correct answer")]++
		// The others would take the whole timeout too, and cannot change the result.
		best := platform.Answers{Good: all.Good + len(requests) - 1 - i, Failed: all.Failed}
		if ok, _ := v.layout.spec.Accept(probe, best); !ok && timedOut(err) {
			break
		}
	}
	c = check.Check{Name: "answers of " + s.Name}
	if c.OK, c.Detail = v.layout.spec.Accept(probe, all); !c.OK {
		c.Detail += "; the first failure: " + first
		c.Hint = "the application, or a proxy before it, answers incorrectly; see their logs in the trial's provenance directory"
		if v.layout.proxied() && v.layout.spec.Protocol(s) == app.WebSocket {
			c.Hint = "the sidecars must forward upgrades to WebSocket: where .Inbound.WebSocket and .WebSocket of an outbound service are true in the mesh definition"
		}
		switch {
		case s.IsOwn() && v.layout.spec.Protocol(s) == app.TCP:
			c.Hint = "exchange has the request and its whole answer, which is the same behind a proxy; the program's log is in the trial's provenance directory"
		case s.IsOwn():
			c.Hint = "factors.route or load.requests has the path, load.headers the Host, and load.checks the status of its answers; its log is in the trial's provenance directory"
		}
	}
	return c, seen
}

// flow is a counter, summed over replicas, and its required change by the probes.
type flow struct {
	name  string
	want  int64
	parts []part
	shown string // for display, instead of the counters' names
	// sidecars: the counters belong to sidecars, not applications.
	sidecars bool
	// atLeast: the counter may change by more, or may have changed before (kept connections).
	atLeast bool
	// atMost: the counter may change by less, as not every probe passes it.
	atMost bool
	// some: the number is unknown, at least 1. With atMost it may be 0.
	some bool
	hint string
}

// part is the share of one replica in a flow.
type part struct {
	pod     *pod
	counter string // empty: the application's own
}

// called is the number of calls that one probe causes.
type called struct {
	times  int64
	atMost bool // times is the maximum: a call before it has a probability
	some   bool // times is unknown: a call before it is made by a program of the user, or a failed request is repeated
}

func (c called) plus(d called) called {
	return called{times: c.times + d.times, atMost: c.atMost || d.atMost, some: c.some || d.some}
}

// atLeast is 1 if every probe causes a call: a call needs a handshake.
func (c called) atLeast() int64 {
	if c.atMost {
		return 0
	}
	return min(1, c.times)
}

// flows lists every counter that the probes pass.
func (v *verifier) flows(probe platform.Probe, requests []request) ([]flow, error) {
	order, err := calleesFirst(v.layout.spec.Topology)
	if err != nil {
		return nil, err
	}
	first := called{times: 1, some: v.layout.spec.MayFail(probe, probes)} // a failed request may be repeated
	visits, err := visits(v.layout.spec.Topology, first)
	if err != nil {
		return nil, err
	}
	var all []flow
	if v.layout.proxied() {
		if all, err = v.proxyFlows([]*pod{v.layout.front}, map[string]called{v.layout.spec.Topology.EntryName(): first}, called{}); err != nil {
			return nil, err
		}
	}
	for _, s := range slices.Backward(order) {
		in := visits[s.Name]
		if v.layout.sidecars() {
			fs, err := v.proxyFlows(v.layout.pods[s.Name], in.calls(v.layout.spec.Topology, s), in)
			if err != nil {
				return nil, err
			}
			all = append(all, fs...)
		}
		if s.IsOwn() {
			continue // it counts no requests for tare
		}
		f := flow{name: "requests at the application " + s.Name, want: in.times * probes, atMost: in.atMost, some: in.some,
			hint: "the probes reach another application than the deployed one, or are lost"}
		for _, p := range v.layout.pods[s.Name] {
			f.parts = append(f.parts, part{pod: p})
		}
		all = append(all, f)
	}
	return all, nil
}

// proxyFlows are the counters of one service's sidecars. visits is per probe, and calls is by
// callee.
func (v *verifier) proxyFlows(pods []*pod, calls map[string]called, visits called) ([]flow, error) {
	if !v.layout.spec.Mesh.Local.Verify.Counts() {
		return nil, nil
	}
	service := pods[0].service
	unit := v.unit(pods[0].carried())
	in := flow{name: fmt.Sprintf("%s into the sidecar of %s", unit, service), want: visits.times * probes, atMost: visits.atMost, some: visits.some, sidecars: true, hint: pathHint}
	shaken := flow{name: "TLS handshakes into the sidecar of " + service, want: visits.atLeast(), sidecars: true, atLeast: true, hint: tlsHint}
	var out, shook []flow
	for i, p := range pods {
		names, err := p.counterNames()
		if err != nil || names.joint {
			return nil, err
		}
		in.parts = append(in.parts, part{p, names.Inbound})
		shaken.parts = append(shaken.parts, part{p, names.InboundHandshakes})
		for j, o := range names.Outbound {
			if i == 0 {
				unit := v.unit(v.layout.pods[o.Service][0].carried())
				way := fmt.Sprintf("from %s to %s", v.layout.proxyOf(service), o.Service)
				out = append(out, flow{name: unit + " " + way, want: calls[o.Service].times * probes, atMost: calls[o.Service].atMost, some: calls[o.Service].some, sidecars: true, hint: pathHint})
				if p.own.IsOwn() {
					out[j].hint = fmt.Sprintf("let the program of %s call %s at ${%s.url}, which is also in its environment; or remove the call", service, o.Service, o.Service)
				}
				shook = append(shook, flow{name: "TLS handshakes " + way, want: calls[o.Service].atLeast(), sidecars: true, atLeast: true, hint: tlsHint})
			}
			out[j].parts = append(out[j].parts, part{p, o.Sent})
			shook[j].parts = append(shook[j].parts, part{p, o.Handshakes})
		}
	}
	var all []flow
	if pods[0].sidecar.Inbound != nil {
		all = append(all, in)
	}
	all = append(all, out...)
	acts, err := v.featureFlows(pods, calls, visits)
	if err != nil {
		return nil, err
	}
	all = append(all, acts...)
	if !v.layout.spec.Mesh.Provides.MTLS {
		return all, nil
	}
	if pods[0].sidecar.Inbound != nil {
		shook = append([]flow{shaken}, shook...)
	}
	for _, f := range shook {
		if f.names() != "" { // else mutual TLS is verified by connecting alone
			all = append(all, f, f.failures())
		}
	}
	return all, nil
}

// unit is the unit of a service's counters. Plain TCP has connections only.
func (v *verifier) unit(protocol string) string {
	if protocol == app.TCP {
		return "connections"
	}
	return v.layout.spec.Mesh.Local.Verify.Unit + "s"
}

// reading is the current value of a flow's counter.
type reading struct {
	sum     int64
	missing string // a counter that does not exist
}

func readAll(ctx context.Context, flows []flow) ([]reading, error) {
	sidecars := map[*pod]map[string]int64{}
	apps := map[*pod]int64{}
	all := make([]reading, len(flows))
	for i, f := range flows {
		for _, p := range f.parts {
			if err := p.fetch(ctx, sidecars, apps); err != nil {
				return nil, err
			}
			v, ok := apps[p.pod]
			if f.sidecars {
				v, ok = sidecars[p.pod][p.counter]
			}
			switch {
			case ok || all[i].missing != "":
			case p.counter == "":
				all[i].missing = "the mesh's definition has no counter for this"
			default:
				all[i].missing = fmt.Sprintf("%s has no counter %s", p.pod.proxyText(), p.counter)
			}
			all[i].sum += v
		}
	}
	return all, nil
}

// fetch reads a pod's counters once for all flows.
func (p part) fetch(ctx context.Context, sidecars map[*pod]map[string]int64, apps map[*pod]int64) (err error) {
	if _, done := sidecars[p.pod]; !done && len(p.pod.sources) > 0 {
		if sidecars[p.pod], err = p.pod.counters(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.pod.name, err)
		}
	}
	if _, done := apps[p.pod]; !done && p.pod.api.IsValid() {
		stats, err := p.pod.serviceAPI("").Stats(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", p.pod.name, err)
		}
		apps[p.pod] = stats.Requests
	}
	return nil
}

// settle reads the counters until all flows hold or the limit is over: a proxy may count a request
// after its answer.
func settle(ctx context.Context, limit time.Duration, flows []flow, before []reading) ([]reading, error) {
	return readUntil(ctx, limit, flows, func(after []reading) bool { return allHold(flows, before, after) })
}

// rest reads the counters until two readings are equal or the limit is over.
func rest(ctx context.Context, limit time.Duration, flows []flow) ([]reading, error) {
	var last []reading
	return readUntil(ctx, limit, flows, func(now []reading) bool {
		same := slices.Equal(now, last)
		last = now
		return same
	})
}

// readUntil returns the first readings that are done, or the last ones within the limit.
func readUntil(ctx context.Context, limit time.Duration, flows []flow, done func([]reading) bool) (last []reading, err error) {
	err = wait.Within(ctx, limit, 10*adminPause, func(context.Context) error {
		now, err := readAll(ctx, flows) // a reading that has begun is not cut short
		if err != nil {
			return wait.Stop(err)
		}
		if last = now; !done(now) {
			return errUnsettled
		}
		return nil
	})
	if errors.Is(err, errUnsettled) && ctx.Err() == nil {
		return last, nil
	}
	return last, err
}

var errUnsettled = errors.New("the counters still change")

func allHold(flows []flow, before, after []reading) bool {
	for i, f := range flows {
		if !f.holds(before[i], after[i]) {
			return false
		}
	}
	return true
}

func (f flow) holds(before, after reading) bool {
	if after.missing != "" {
		return false
	}
	if f.atLeast { // since the start: kept connections have shaken hands before
		return after.sum >= f.want
	}
	moved := after.sum - before.sum
	if f.some {
		return moved >= 1 || f.atMost && moved == 0
	}
	return moved == f.want || f.atMost && moved >= 0 && moved < f.want
}

func (f flow) check(before, after reading) check.Check {
	c := check.Check{Name: f.name, OK: f.holds(before, after)}
	name := f.names()
	switch {
	case after.missing != "":
		c.Detail = after.missing
	case f.atLeast:
		c.Detail = fmt.Sprintf("%s is %d after %d probes, at least %d expected", name, after.sum, probes, f.want)
	case f.some && f.atMost:
		c.Detail = fmt.Sprintf("%s increased by %d in %d probes, at least 0 expected", name, after.sum-before.sum, probes)
	case f.some:
		c.Detail = fmt.Sprintf("%s increased by %d in %d probes, at least 1 expected", name, after.sum-before.sum, probes)
	case f.atMost:
		c.Detail = fmt.Sprintf("%s increased by %d in %d probes, at most %d expected", name, after.sum-before.sum, probes, f.want)
	default:
		c.Detail = fmt.Sprintf("%s increased by %d in %d probes, %d expected", name, after.sum-before.sum, probes, f.want)
	}
	if !c.OK {
		c.Hint = f.hint
	}
	return c
}

// names are the flow's counters as checks show them.
func (f flow) names() string {
	if f.shown != "" {
		return f.shown
	}
	if !f.sidecars {
		return "the application's own count"
	}
	names := lists.Add(nil, lists.Map(f.parts, func(p part) string { return p.counter })...)
	return strings.Join(names, ", ")
}

const featureHint = "the option has no effect on these requests; see the proxies' configurations and logs in the trial's provenance directory"

// featureFlows are the counters that show that options act on the probes, in the sidecars of one service.
func (v *verifier) featureFlows(pods []*pod, calls map[string]called, visits called) ([]flow, error) {
	var all []flow
	add := func(p *pod, name, counter string, want int64) {
		i := slices.IndexFunc(all, func(f flow) bool { return f.name == name })
		if i < 0 {
			i = len(all)
			all = append(all, flow{name: name, want: want, sidecars: true, atLeast: true, hint: featureHint})
		}
		all[i].parts = append(all[i].parts, part{p, counter})
	}
	for _, p := range pods {
		names, err := p.counterNames()
		if err != nil {
			return nil, err
		}
		for _, f := range names.Features {
			add(p, fmt.Sprintf("option %s in the sidecar of %s", f.Option, p.service), f.Counter, visits.atLeast())
		}
		for _, o := range names.Outbound {
			for _, f := range o.Features {
				add(p, fmt.Sprintf("option %s from the sidecar of %s to %s", f.Option, p.service, o.Service), f.Counter, calls[o.Service].atLeast())
			}
		}
	}
	return all, nil
}

// dumped checks the texts of options in the configuration dumps of callers.
func (v *verifier) dumped(dumps map[*pod]dump) (checks []check.Check) {
	if !v.layout.proxied() {
		return nil
	}
	for _, f := range v.layout.spec.Mesh.Local.Features() {
		for _, p := range v.layout.proxiedPods() {
			if len(f.Dump) == 0 || len(p.sidecar.Outbound) == 0 {
				continue
			}
			c := check.Check{Name: fmt.Sprintf("option %s in the configuration of %s", f.Option, p.name), OK: true, Detail: "the configuration dump has it"}
			for _, text := range f.Dump {
				switch read := dumps[p]; {
				case read.err != nil:
					c.OK, c.Detail, c.Hint = false, read.err.Error(), "the processors may be too busy for a sidecar with so much configuration"
				case !bytes.Contains(read.text, []byte(text)):
					c.OK, c.Detail, c.Hint = false, "the configuration dump has no "+text, featureHint
				}
			}
			checks = append(checks, c)
		}
	}
	return checks
}

// workers checks the number of worker threads of each sidecar.
func (v *verifier) workers(ctx context.Context) (checks []check.Check) {
	if !v.layout.proxied() || v.layout.spec.Mesh.Local.Verify.Workers == "" {
		return nil
	}
	gauge, want := v.layout.spec.Mesh.Local.Verify.Workers, int64(max(v.layout.spec.Mesh.Local.Sidecar.Concurrency, 1))
	for _, p := range v.layout.proxiedPods() {
		gauges, err := p.admin.gauges(ctx)
		c := check.Check{Name: "workers of " + p.proxyText(), OK: err == nil && gauges[gauge] == want,
			Detail: fmt.Sprintf("%s is %d, %d expected", gauge, gauges[gauge], want)}
		if err != nil {
			c.Detail = err.Error()
		}
		if !c.OK {
			c.Hint = "the program does not take the number of workers from its arguments"
		}
		checks = append(checks, c)
	}
	return checks
}

// reuseRequests are sent one after another on one connection.
const reuseRequests = 20

// reuse counts the connections that a gateway opens to the application for requests on one connection. A gateway without keep-alive
// opens one for each, which may cost more than all else that it does.
func (v *verifier) reuse(ctx context.Context, p loads.Profile) []check.Check {
	entry := v.layout.spec.Entry()
	pods := v.layout.pods[entry.Name]
	if carried := pods[0].carried(); !v.layout.spec.Mesh.AtGateway() || carried != app.HTTP1 && carried != "" {
		return nil
	}
	targets, err := requestsOfEngine(ctx, p)
	if err != nil || len(targets) == 0 {
		return nil // requests that vary are not repeated
	}
	opened, err := opens(ctx, targets[0], pods)
	if err != nil {
		return nil
	}
	c := check.Check{Name: "kept connections to the application of " + entry.Name, OK: true,
		Detail: fmt.Sprintf("%.2g connections to the application a request: %d for %d requests on one connection", float64(opened)/reuseRequests, opened, reuseRequests)}
	if 2*opened < reuseRequests {
		return []check.Check{c}
	}
	direct := targets[0]
	direct.Addrs = []netip.AddrPort{pods[0].app}
	if n, err := opens(ctx, direct, pods); err != nil || 2*n >= reuseRequests {
		c.Detail += "; the application ends its connections itself"
		return []check.Check{c}
	}
	c.Caution = fmt.Sprintf("connections that the gateway opens to the application: %.2g a request; it keeps none open, and this is why it costs more", float64(opened)/reuseRequests)
	c.Hint = "switch on keep-alive to the upstream (nginx: keepalive in upstream, proxy_http_version 1.1, an empty header Connection)"
	return []check.Check{c}
}

// opens sends requests on one connection, and counts the new connections to pods.
func opens(ctx context.Context, t target.Target, pods []*pod) (int, error) {
	before, err := callersOf(pods)
	if err != nil {
		return 0, err
	}
	client := &rawClient{}
	defer client.close()
	for range reuseRequests {
		if err := client.send(ctx, t); err != nil {
			return 0, err
		}
	}
	after, err := callersOf(pods)
	n := 0
	for at := range after {
		if !before[at] {
			n++
		}
	}
	return n, err
}

// callersOf are the other ends of the connections to the applications of pods, of ended ones too while the kernel remembers them.
func callersOf(pods []*pod) (map[netip.AddrPort]bool, error) {
	ends, err := sockets(tcpEstablished, tcpFinWait1, tcpFinWait2, tcpTimeWait, tcpCloseWait, tcpLastAck, tcpClosing)
	all := map[netip.AddrPort]bool{}
	for _, c := range ends {
		for _, p := range pods {
			switch p.app {
			case c.to:
				all[c.from] = true
			case c.from:
				all[c.to] = true
			}
		}
	}
	return all, err
}
