package predict

import (
	"maps"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// Replicas are the proxies that share a load: a waypoint, a gateway.
type Replicas struct {
	N     int     `json:"n"`
	Rate  float64 `json:"rate"`  // requests/s of each
	Cores Band    `json:"cores"` // that all use, without headroom
	// Range: fewer replicas have CPU enough, but so high a rate was not measured.
	Range bool `json:"range,omitempty"`
}

// shared reports whether proxies of a kind share the load of many pods, so that their number is free.
func shared(kind string) bool { return kind == mesh.RoleWaypoint || kind == mesh.RoleGateway }

// sharedKinds are the kinds of proxies that are of no single pod.
var sharedKinds = []string{mesh.RoleNodeProxy, mesh.RoleWaypoint, mesh.RoleGateway}

func sharedCPU(kind string) quantity    { return quantity{CPU, "all proxies of kind " + kind} }
func sharedMemory(kind string) quantity { return quantity{Memory, "all proxies of kind " + kind} }

// sharedOf returns the shared proxies of a trial by kind.
func sharedOf(r *result.Record) map[string][]result.TaskUsage {
	kinds := map[string][]result.TaskUsage{}
	for _, t := range r.Tasks {
		if t.Plane == metric.Data && slices.Contains(sharedKinds, t.Role) {
			kinds[t.Role] = append(kinds[t.Role], t)
		}
	}
	return withKnownUsage(kinds)
}

// withKnownUsage leaves out the kinds with a task whose usage is unknown.
func withKnownUsage(kinds map[string][]result.TaskUsage) map[string][]result.TaskUsage {
	maps.DeleteFunc(kinds, func(_ string, tasks []result.TaskUsage) bool {
		return slices.ContainsFunc(tasks, func(t result.TaskUsage) bool { return t.Missing != "" || t.Ended })
	})
	return kinds
}

// has reports whether a run has a cost.
func (c *Costs) has(q quantity) bool {
	return slices.ContainsFunc(c.sources, func(s *source) bool { return len(s.points[q]) > 0 })
}

// shared returns the shared proxies of each kind, as many as were measured. All calls pass them, and those from outside
// alone pass gateways.
func (c *Costs) shared(flow Flow) (all []proxy, refused []refusal) {
	for _, kind := range sharedKinds {
		if !c.has(sharedCPU(kind)) {
			continue
		}
		p := proxy{service: kind, shared: true, replicas: 1, scale: 1}
		var passed []Call
		for _, call := range flow.Calls {
			if kind != mesh.RoleGateway || call.From == "" {
				passed = append(passed, call)
				p.rate += call.Rate
			}
		}
		for _, call := range passed {
			err := c.add(&p, call, sharedCPU(kind), p.rate, 0, call.Rate/p.rate)
			if err == nil {
				err = c.add(&p, call, sharedMemory(kind), p.rate, 0, call.Rate/p.rate)
			}
			if err != nil {
				refused = append(refused, refusal{call, kind, err})
			}
		}
		all = append(all, p)
	}
	return all, refused
}

// replicasOf returns the fewest replicas whose CPU, with headroom, is within the CPU of a replica.
func replicasOf(c *Curve, at []float64, s Sizing) (*Replicas, error) {
	rates := c.Axes[0]
	least := max(1, math.Ceil(s.TotalRate/rates.To))
	own := slices.Clone(at)
	for n := least; n <= s.TotalRate/rates.From; n++ {
		own[0] = s.TotalRate / n
		one, err := c.At(own...)
		if err != nil {
			return nil, err
		}
		if one.Estimate*(1+s.Headroom) <= s.ReplicaCPU {
			return &Replicas{N: int(n), Rate: own[0], Cores: one.times(n), Range: n == least && n > 1}, nil
		}
	}
	if s.TotalRate < rates.From {
		return nil, &OutsideError{Axis: rates, At: s.TotalRate}
	}
	return nil, hint.New("raise --replica-cpu, or measure a lower rate", "a replica of %g cores is too small even at the lowest measured rate, %g requests/s", s.ReplicaCPU, rates.From)
}

// times is the band of a multiple.
func (b Band) times(n float64) Band {
	return Band{b.Estimate * n, b.Low * n, b.High * n, b.NewLow * n, b.NewHigh * n}
}

// Nodes are nodes with a proxy each. The node with most pods decides the size of all: they are a DaemonSet.
type Nodes struct {
	N       int     `json:"n"`
	Hottest int     `json:"hottest"` // most pods of a node
	Ratio   float64 `json:"ratio"`   // hottest to mean
	CPU     Band    `json:"cpu"`     // cores of a proxy on a mean node, without headroom
	Memory  Band    `json:"memory"`  // MiB
}

// nodesOf spreads the load over nodes by their pods. at is the place of a mean node.
func nodesOf(cpu, memory *Curve, at []float64, s Sizing) (n *Nodes, err error) {
	n = &Nodes{N: len(s.Pods), Hottest: slices.Max(s.Pods)}
	pods := 0
	for _, p := range s.Pods {
		pods += p
	}
	n.Ratio = float64(n.Hottest) * float64(n.N) / float64(pods)
	if n.CPU, err = cpu.At(at...); err != nil {
		return nil, err
	}
	n.Memory, err = memory.At(at...)
	return n, err
}
