package local

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// requestCounters implements [platform.Deployment.RequestCounts].
type requestCounters struct {
	layout    *layout
	processes *processes
	sockets   *socketCounts
}

// RequestCounts implements [platform.Deployment.RequestCounts].
func (rc *requestCounters) RequestCounts(ctx context.Context) ([]balance.Count, error) {
	var reads []func(context.Context) []balance.Count
	for _, s := range rc.layout.spec.Topology.Services {
		for _, p := range rc.layout.pods[s.Name] {
			reads = append(reads, func(ctx context.Context) []balance.Count { return rc.application(ctx, p) })
		}
	}
	if rc.layout.proxied() {
		for _, p := range rc.layout.proxiedPods() {
			reads = append(reads, func(ctx context.Context) []balance.Count { return rc.sidecar(ctx, p) })
		}
	}
	return platform.ReadEach(ctx, startingAtOnce(), reads)
}

type counting struct {
	from balance.Count // task, instance and configuration of all of its counts
	all  []balance.Count
}

// begin begins the counts of a container. They are unknown if it has ended.
func (rc *requestCounters) begin(p *pod, container string) *counting {
	c := &counting{from: balance.Count{By: p.name + "/" + container}}
	switch _, process, err := rc.processes.alive(c.from.By); {
	case err != nil:
		c.from.Unknown = err.Error()
	case process == nil:
		c.from.Unknown = c.from.By + " was ended"
	default:
		c.from.Instance = strconv.Itoa(process.PID)
	}
	return c
}

func (c *counting) known() bool { return c.from.Unknown == "" }

func (c *counting) add(place balance.Place, tally balance.Tally) {
	n := c.from
	n.Place = place
	if c.known() {
		n.Tally = tally
	}
	c.all = append(c.all, n)
}

// miss adds a place whose count is unknown.
func (c *counting) miss(place balance.Place, why string) {
	n := c.from
	n.Place = place
	if c.known() {
		n.Unknown = why
	}
	c.all = append(c.all, n)
}

func (rc *requestCounters) application(ctx context.Context, p *pod) []balance.Count {
	from := rc.begin(p, "app").from
	s, _ := rc.layout.spec.Topology.Service(p.service)
	if p.api.IsValid() {
		return p.serviceAPI("").Counts(ctx, from, s, p.protocol)
	}
	from.Place = balance.Place{Service: s.Name, Point: balance.Served, Unit: platform.UnitOf(p.protocol)}
	return []balance.Count{rc.sockets.count(p, from)}
}

func (rc *requestCounters) sidecar(ctx context.Context, p *pod) []balance.Count {
	c := &sidecarCounting{counting: rc.begin(p, p.proxy())}
	if p.reloads > 0 { // the counters may begin at 0 again
		c.from.Instance = fmt.Sprintf("%s, reload %d", c.from.Instance, p.reloads)
	}
	for _, container := range slices.Sorted(maps.Keys(p.sources)) { // each with a process of its own
		if container != p.proxy() && c.known() {
			other := rc.begin(p, container).from
			c.from.Instance, c.from.Unknown = c.from.Instance+" "+other.Instance, other.Unknown
		}
	}
	names, err := p.counterNames()
	if err == nil && c.known() && len(p.sources) > 0 {
		c.values, err = p.counters(ctx)
	}
	if n, has := c.values[names.InboundHandshakes]; has {
		c.values[names.InboundHandshakes] = n - p.handshakes.Load()
	}
	if err != nil {
		c.from.Unknown = err.Error()
	} else if names.joint {
		c.from.Unknown = "the proxy counts the requests of all its listeners together"
	}
	if p.sidecar.Inbound != nil {
		unit := rc.sidecarUnit(p.carried())
		c.counter(balance.Place{Service: p.service, Point: balance.InReceived, Unit: unit}, names.Inbound, "")
		c.counter(balance.Place{Service: p.service, Point: balance.InSent, Unit: unit}, names.InboundSent, "")
		c.counter(balance.Place{Service: p.service, Point: balance.InReceived, Unit: balance.Handshakes}, names.InboundHandshakes, "")
		if own := platform.UnitOf(p.protocol); own != unit {
			c.miss(balance.Place{Service: p.service, Point: balance.InReceived, Unit: own}, onlyConnections)
		}
	}
	for _, o := range names.Outbound {
		callee := rc.layout.pods[o.Service][0]
		unit := rc.sidecarUnit(callee.carried())
		if !rc.layout.sidecars() {
			at := balance.Place{Service: p.service, Point: balance.Gateway, To: o.Service, Unit: unit}
			c.counter(at, cmp.Or(o.Received, o.Sent), "")
			if at.Unit = platform.UnitOf(callee.protocol); at.Unit != unit {
				c.miss(at, onlyConnections)
			}
			continue
		}
		c.counter(balance.Place{Service: p.service, Point: balance.OutReceived, To: o.Service, Unit: unit}, o.Received, "")
		c.counter(balance.Place{Service: p.service, Point: balance.OutSent, To: o.Service, Unit: unit}, o.Sent, o.Retries)
		c.counter(balance.Place{Service: p.service, Point: balance.OutSent, To: o.Service, Unit: balance.Handshakes}, o.Handshakes, "")
		if own := platform.UnitOf(callee.protocol); own != unit {
			c.miss(balance.Place{Service: p.service, Point: balance.OutSent, To: o.Service, Unit: own}, onlyConnections)
		}
	}
	return c.all
}

// onlyConnections is the reason why a sidecar does not count requests.
const onlyConnections = "the sidecars of this mesh count connections"

func (rc *requestCounters) sidecarUnit(protocol string) balance.Unit {
	if rc.layout.spec.Mesh.Local.Verify.Unit == mesh.UnitConnection {
		return balance.Connections
	}
	return platform.UnitOf(protocol)
}

// sidecarCounting makes the counts of a sidecar from its statistics.
type sidecarCounting struct {
	*counting
	values map[string]int64 // by name
}

// counter adds a counter and the counter of its retries, by their names. Without a name there is none.
func (c *sidecarCounting) counter(place balance.Place, name, retries string) {
	if name == "" {
		return
	}
	n, ok := c.values[name]
	if !ok {
		c.miss(place, "the sidecar has no counter "+name)
		return
	}
	c.add(place, balance.Tally{Count: n, Retries: c.values[retries]})
}
