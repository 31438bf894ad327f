package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/run/platform"
)

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
	var names []string
	for _, p := range f.parts {
		if !slices.Contains(names, p.counter) {
			names = append(names, p.counter)
		}
	}
	return strings.Join(names, ", ")
}
