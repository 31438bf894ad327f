package predict

import (
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
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

// replicasOf returns the fewest replicas whose CPU, with headroom, is within that of a replica.
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
		return nil, hint.New("measure a lower rate", "%g requests/s are below the lowest measured rate, %g", s.TotalRate, rates.From)
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
