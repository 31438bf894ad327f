package predict

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// Sidecars are the sidecars that run in a namespace of a cluster.
type Sidecars struct {
	Cluster, Namespace string
	Mesh               string // name of the definition
	Workloads          []Workload
}

// Workload is a workload whose pods have a sidecar each.
type Workload struct {
	Kind        string  `json:"kind"` // Deployment, StatefulSet, DaemonSet, or Pod without one
	Name        string  `json:"name"`
	Pods        int     `json:"pods"`        // whose proxies could be read
	Received    float64 `json:"received"`    // requests/s of all pods, for which it is sized
	Sent        float64 `json:"sent"`        // requests/s of all pods to others
	Busiest     float64 `json:"busiest"`     // requests/s through the sidecar of the busiest pod, 0 if unknown
	Sidecar     Amounts `json:"sidecar"`     // requests of a sidecar
	LimitCPU    float64 `json:"limit_cpu"`   // CPU limit of a sidecar, cores, 0 without one
	Application Amounts `json:"application"` // requests of a pod's other containers
	// Used is by the Metrics API: the mean CPU of the sidecars of its pods, and their highest memory. Nil without it.
	Used *Amounts `json:"used,omitempty"`
	// Present is the share of these requests/s that its sidecars have while they use that, zero if it is unknown.
	Present Shares `json:"present,omitzero"`
	// Annotations of its pods.
	Annotations map[string]string `json:"-"`
}

// Shares are of received and of sent requests.
type Shares struct {
	Received float64 `json:"received"`
	Sent     float64 `json:"sent"`
}

// Amounts are CPU and memory of containers, 0 if they request none.
type Amounts struct {
	CPU    float64 `json:"cpu"`    // cores
	Memory float64 `json:"memory"` // MiB
}

// Title is the workload in messages.
func (w Workload) Title() string { return w.Kind + "/" + w.Name }

// AtLimit reports whether its sidecars use their CPU limit up: without the limit they would use more.
func (w Workload) AtLimit() bool {
	return w.LimitCPU > 0 && w.Used != nil && w.Used.CPU >= 0.9*w.LimitCPU
}

// Needs are the needs of the sidecars of a namespace, by the costs of a mesh.
type Needs struct {
	Mesh       string   `json:"mesh"` // whose costs they are
	From       []string `json:"from"` // results directories
	Blocks     int      `json:"blocks"`
	Confidence float64  `json:"confidence"`
	Headroom   float64  `json:"headroom"`
	CPU        Amount   `json:"cpu"`    // cores of all sidecars, without headroom
	Memory     Amount   `json:"memory"` // MiB
	Workloads  []Need   `json:"workloads"`
	// Command measures the rates of all workloads.
	Command string `json:"command"`
}

// Need is the need of each sidecar of a workload.
type Need struct {
	Workload
	CPU           Amount  `json:"cpu"`    // cores, without headroom
	Memory        Amount  `json:"memory"` // MiB
	RequestCPU    float64 `json:"request_cpu"`
	RequestMemory float64 `json:"request_memory"`
	LimitMemory   float64 `json:"limit_memory"`
	Workers       int     `json:"workers"`
	// Scaled is the CPU that a sidecar uses to that of the run at its present requests/s: size of messages, features and
	// machine differ. CPU is scaled by it. 0: the present use is unknown.
	Scaled float64 `json:"scaled,omitempty"`
	// AsUsed: the memory request is of what it uses, which is more than was measured.
	AsUsed bool `json:"as_used,omitempty"`
	// Refused is the reason for no size.
	Refused string `json:"refused,omitempty"`
}

// CostsFor returns the costs of a mesh. If a single mesh was measured, its costs serve for another.
func CostsFor(all []*Costs, name string) (*Costs, error) {
	with := slices.DeleteFunc(slices.Clone(all), func(c *Costs) bool { return !c.has(inboundCPU) })
	if same := slices.DeleteFunc(slices.Clone(with), func(c *Costs) bool { return c.Mesh != name }); len(same) > 0 {
		with = same
	}
	switch {
	case len(with) == 1:
		return with[0], nil
	case len(with) == 0:
		return nil, hint.New("measure one: tare run examples/quickstart.yaml --set 'factors.rate=[100, 220, 490, 1000]'", "no run has a mesh with sidecars")
	}
	names := lists.Map(with, func(c *Costs) string { return fmt.Sprint(c.Factors) })
	return nil, hint.Usage(fmt.Errorf("the sidecars are of %s, and the runs have several costs: %s", name, strings.Join(names, ", ")), "name a run of "+name+" alone with --from")
}

// Needs returns the needs of sidecars as they run. Requests have the headroom.
func (c *Costs) Needs(s Sidecars, headroom float64) (Needs, error) {
	n := Needs{Mesh: c.Mesh, Confidence: c.confidence, Headroom: headroom}
	g := Graph{Unsized: true, Topology: app.Topology{Name: s.Namespace}}
	var flow Flow
	for i, w := range s.Workloads {
		g.Services = append(g.Services, app.Service{Name: w.Title(), Replicas: w.Pods})
		call := g.callOf(Edge{To: w.Title()}, w.Received, i, -1, app.CallOptions{Protocol: c.protocol()})
		if w.Received > 0 {
			flow.Calls = append(flow.Calls, call)
		}
		if w.Sent > 0 {
			call.Edge, call.Rate = Edge{From: w.Title()}, w.Sent
			flow.Calls = append(flow.Calls, call)
		}
	}
	e, ofMemory := estimator{confidence: c.confidence, common: c.common(inboundCPU, outboundCPU)}, estimator{confidence: c.confidence, common: c.common(inboundMemory, outboundMemory)}
	var sized []proxy
	for i, w := range s.Workloads {
		need := Need{Workload: w}
		p, refused := c.sidecar(g, flow, i)
		if w.Pods == 0 {
			need.Refused = "no proxy of " + w.Title() + " could be read"
		} else if refused != nil {
			need.Refused = strings.ReplaceAll(c.refuse(g, flow, refused[:1]).Error(), "\n", "; ")
		} else {
			if need.Scaled = c.used(g, flow, i, w, e); need.Scaled > 0 {
				p.scale, p.unsure = p.scale*need.Scaled, p.unsure*need.Scaled
			}
			sized = append(sized, p)
			p.replicas = 1
			need.CPU, need.Memory = e.amount([]proxy{p}, weights{cores: 1}), ofMemory.amount([]proxy{p}, weights{mib: 1})
			need.request(headroom, c.peak())
		}
		n.Workloads = append(n.Workloads, need)
	}
	if len(flow.Calls) > 0 {
		n.Command = g.Command(flow, c.sources[0].dir)
	}
	if sized == nil {
		return n, hint.Wrap(errors.New(printable.Listed(lists.Map(n.Workloads, func(x Need) string { return x.Refused }), mostNamed)), "measure them: "+n.Command)
	}
	n.From, n.Blocks = usedBy(partsOf(sized, weights{1, 1}))
	n.CPU, n.Memory = e.amount(sized, weights{cores: 1}), ofMemory.amount(sized, weights{mib: 1})
	return n, nil
}

// used returns the CPU that a sidecar of a workload uses, to that of the run at the same requests/s. It is 0 if that is unknown, and
// at least 1 of a sidecar at its limit.
func (c *Costs) used(g Graph, f Flow, service int, w Workload, e estimator) float64 {
	if w.Used == nil || w.Used.CPU == 0 || w.Present == (Shares{}) {
		return 0
	}
	now := Flow{Calls: slices.Clone(f.Calls)}
	for i := range now.Calls {
		switch w.Title() {
		case now.Calls[i].To:
			now.Calls[i].Rate *= w.Present.Received
		case now.Calls[i].From:
			now.Calls[i].Rate *= w.Present.Sent
		}
	}
	p, refused := c.sidecar(g, now, service)
	if refused != nil {
		return 0
	}
	p.replicas = 1
	ratio := w.Used.CPU / e.amount([]proxy{p}, weights{cores: 1}).Estimate
	if w.AtLimit() {
		return max(1, ratio)
	}
	return ratio
}

// request adds the headroom. peak is of the sidecars that were measured, MiB. A sidecar that uses more memory than they had knows
// more of its mesh.
func (n *Need) request(headroom, peak float64) {
	up := func(v, step float64) float64 { return math.Ceil(v*(1+headroom)/step) * step }
	memory := n.Memory.High
	if n.Used != nil && n.Used.Memory > memory {
		memory, n.AsUsed = n.Used.Memory, true
	}
	n.RequestCPU, n.RequestMemory = up(n.CPU.Estimate, stepCPU), up(memory, stepMemory)
	n.LimitMemory = max(n.RequestMemory, up(peak, stepMemory))
	n.Workers = int(math.Ceil(n.RequestCPU))
}

// protocol is HTTP/1.1 if it was measured, and else the first that was: counters of proxies do not have it.
func (c *Costs) protocol() string {
	if slices.ContainsFunc(c.sources, func(s *source) bool { return s.protocol == app.HTTP1 }) {
		return app.HTTP1
	}
	return c.sources[0].protocol
}

// peak is the most memory of any sidecar that was measured, MiB.
func (c *Costs) peak() (most float64) {
	return lists.Most(c.sources, func(s *source) float64 { return s.peak })
}
