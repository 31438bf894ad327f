// Package kubelet reads the usage of a cluster's containers from the kubelets of
// its nodes, through the API server's node proxy.
//
// CPU and working set are from /metrics/resource: cumulative counters, each with
// the time of its own reading to the millisecond. /stats/summary has the same
// counters and rounds their times to the second, which is 3 % of a measure phase
// of 30 s. Only its figures of the node's daemons are used, which no other source has.
// At the edges /metrics/cadvisor adds peaks and throttling, and the API server
// restarts. Native sidecars are containers like the others.
//
// A kubelet with cAdvisor refreshes containers' counters every 10 to 20 seconds. A
// repeated reading is then no new observation. A kubelet that reads the container
// runtime returns current counters. The node's own counters are always refreshed at
// an interval. [Meter.Probe] measures it.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Paths of a kubelet.
const (
	resourcePath = "metrics/resource"
	summaryPath  = "stats/summary?only_cpu_and_memory=true"
	cadvisorPath = "metrics/cadvisor"
)

// atOnce is the maximum number of requests at the same time. They pass through the API server.
const atOnce = 32

// Refresh is the counter refresh interval to plan with before [Meter.Probe] has measured it.
const Refresh = meter.KubeletRefresh

// Source is the cluster. [*cluster.Reader] is one.
type Source interface {
	// NodeRead returns the content of a path of a node's kubelet.
	NodeRead(ctx context.Context, node, path string) ([]byte, error)
	// Containers lists the containers of a namespace from the API server.
	Containers(ctx context.Context, namespace string) ([]cluster.Container, error)
}

// Meter reads containers by the namespace, pod and container of their tasks.
type Meter struct {
	source Source
	nodes  []cluster.Node
	whole  map[string]bool                            // nodes whose own use is read, nil for all
	pause  func(context.Context, time.Duration) error // between two readings of a probe

	mu    sync.Mutex
	own   map[string]*remainder // by node
	peaks map[meter.Container]int64
	kills map[meter.Container]meter.Kills
}

// Of makes the meter of some nodes.
func Of(source Source, nodes []cluster.Node) *Meter {
	m := &Meter{source: source, nodes: nodes, pause: wait.For, own: map[string]*remainder{}, peaks: map[meter.Container]int64{}, kills: map[meter.Container]meter.Kills{}}
	for _, n := range nodes {
		m.own[n.Name] = &remainder{node: n.Name}
	}
	return m
}

// Only restricts the nodes whose own use is read, by name, and nil reads all. Others are read while they
// have tasks.
func (m *Meter) Only(nodes map[string]bool) { m.whole = nodes }

// Open makes the meter of all nodes of a cluster.
func Open(ctx context.Context, c *cluster.Cluster) (*Meter, error) {
	nodes, err := c.Nodes(ctx)
	return Of(c.Reader(), nodes), hint.Prefix(err, "find the kubelets")
}

// Check reads from one kubelet and returns the error, if any.
func (m *Meter) Check(ctx context.Context) error {
	if len(m.nodes) == 0 {
		return fmt.Errorf("read kubelets: the cluster has no nodes: %w", errors.ErrUnsupported)
	}
	_, err := m.source.NodeRead(ctx, m.nodes[0].Name, resourcePath)
	return err
}

var errNotThere = fmt.Errorf("the kubelet does not know the container yet, or no longer: %w", fs.ErrNotExist)

type answer struct {
	resources resources
	cadvisor  cadvisor
	err       error // of the counters
	summary   error // of the node's daemons
	extra     error // of peaks and throttling
}

// Follower implements [meter.Meter].
func (*Meter) Follower() meter.Follower { return nil }

// Read reads the nodes in parallel. Containers of unreachable nodes are missing. If no
// node is reachable, the reading is a gap. [meter.Edge] adds peaks, throttling, restarts
// and kills.
func (m *Meter) Read(ctx context.Context, tasks []platform.Task, depth meter.Depth) (meter.Look, error) {
	if len(m.nodes) == 0 {
		return meter.Look{}, fmt.Errorf("read kubelets: the cluster has no nodes: %w", errors.ErrUnsupported)
	}
	nodes := m.nodesOf(tasks)
	answers, states := m.ask(ctx, nodes, tasks, depth)
	if ctx.Err() != nil {
		return meter.Look{}, context.Cause(ctx)
	}
	look := meter.NewLook()
	containers := map[meter.Container]result.Reading{}
	answered := 0
	for i := range answers {
		a := &answers[i]
		look.NodeErr = errors.Join(look.NodeErr, a.err)
		if a.err == nil {
			answered++
			maps.Copy(containers, a.resources.containers)
		}
	}
	if answered == 0 {
		look.Gap = look.NodeErr
		return look, nil
	}
	extras := m.extras(answers, states, depth)
	for _, t := range tasks {
		key := meter.ContainerOf(t)
		r, ok := containers[key]
		if !ok {
			look.Missing[t.ID] = errors.Join(errNotThere, look.NodeErr)
			continue
		}
		if depth >= meter.Edge {
			extras.fill(&r, key)
		}
		look.Tasks[t.ID] = r
	}
	m.addNodes(&look, nodes, answers)
	return look, nil
}

func (m *Meter) nodesOf(tasks []platform.Task) []cluster.Node {
	return slices.DeleteFunc(slices.Clone(m.nodes), func(n cluster.Node) bool {
		return !m.isWhole(n) && !slices.ContainsFunc(tasks, func(t platform.Task) bool { return t.Node == n.Name })
	})
}

// ask sends all requests of a reading in parallel.
func (m *Meter) ask(ctx context.Context, nodes []cluster.Node, tasks []platform.Task, depth meter.Depth) ([]answer, map[meter.Container]cluster.Container) {
	answers := make([]answer, len(nodes))
	states := map[meter.Container]cluster.Container{}
	var asking errgroup.Group
	asking.SetLimit(atOnce)
	for i, n := range nodes {
		a := &answers[i]
		asking.Go(routine.Guarded(func() error {
			a.resources, a.err = read(ctx, m.source, n.Name, resourcePath, parseResources)
			return nil
		}))
		if m.isWhole(n) {
			asking.Go(routine.Guarded(func() error {
				a.summary = m.readSummary(ctx, n.Name)
				return nil
			}))
		}
		if depth >= meter.Edge {
			asking.Go(routine.Guarded(func() error {
				a.cadvisor, a.extra = read(ctx, m.source, n.Name, cadvisorPath, parseCAdvisor)
				return nil
			}))
		}
	}
	if depth >= meter.Edge {
		asking.Go(routine.Guarded(func() error {
			m.readStates(ctx, tasks, states)
			return nil
		}))
	}
	_ = asking.Wait()
	return answers, states
}

func read[T any](ctx context.Context, s Source, node, path string, parse func([]byte) (T, error)) (T, error) {
	body, err := s.NodeRead(ctx, node, path)
	if err != nil {
		var none T
		return none, err
	}
	return parse(body)
}

// addNodes adds each whole node, their sum, and their work outside pods.
func (m *Meter) addNodes(look *meter.Look, nodes []cluster.Node, answers []answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted := 0
	for i, n := range nodes {
		if !m.isWhole(n) {
			continue
		}
		wanted++
		look.NodeCPUs += n.CPUs
		r := answers[i].resources.node
		if answers[i].err != nil {
			continue
		}
		if r.At.IsZero() {
			look.NodeErr = errors.Join(look.NodeErr, fmt.Errorf("the kubelet of node %s does not report the node's CPU", n.Name))
			continue
		}
		look.Nodes = append(look.Nodes, meter.Machine{Name: n.Name, CPUs: n.CPUs, AllocatableCPU: n.Cores, AllocatableMemory: n.Memory, Reading: r})
		own := m.own[n.Name]
		own.whole.add(r.At, r.Busy)
		own.into(look)
	}
	look.AddTotal(wanted)
}

func (m *Meter) isWhole(n cluster.Node) bool { return m.whole == nil || m.whole[n.Name] }

// extras are the values read only at edges.
type extras struct {
	cadvisor cadvisor
	states   map[meter.Container]cluster.Container
	kills    map[meter.Container]meter.Kills
	peaks    map[meter.Container]int64
}

// readStates lists the containers of every namespace with a task. After an error the
// restarts of its containers are unknown.
func (m *Meter) readStates(ctx context.Context, tasks []platform.Task, into map[meter.Container]cluster.Container) {
	for _, namespace := range meter.Namespaces(tasks) {
		list, err := m.source.Containers(ctx, namespace)
		if err != nil {
			continue
		}
		for _, c := range list {
			into[meter.Container{Namespace: c.Namespace, Pod: c.Pod, Name: c.Name}] = c
		}
	}
}

// extras also keeps the highest working set of every container. It replaces the
// kernel's own maximum if cAdvisor does not report that.
func (m *Meter) extras(answers []answer, states map[meter.Container]cluster.Container, depth meter.Depth) extras {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := extras{states: states, cadvisor: cadvisor{byName: map[meter.Container]group{}, byID: map[string]group{}}}
	for _, a := range answers {
		for key, r := range a.resources.containers {
			m.peaks[key] = max(m.peaks[key], r.RSS)
		}
		maps.Copy(x.cadvisor.byName, a.cadvisor.byName)
		maps.Copy(x.cadvisor.byID, a.cadvisor.byID)
	}
	if depth < meter.Edge {
		return x
	}
	for key, c := range states {
		m.kills[key] = m.kills[key].After(c.Restarts, c.OOMKilled)
	}
	x.peaks, x.kills = maps.Clone(m.peaks), maps.Clone(m.kills)
	return x
}

func (x extras) fill(r *result.Reading, key meter.Container) {
	state, known := x.states[key]
	g, counted := x.cadvisor.byName[key]
	if !counted && known {
		g, counted = x.cadvisor.byID[state.ID]
	}
	r.Peak = max(x.peaks[key], g.peak)
	switch none := int64(0); {
	case counted:
		r.Throttled = &g.throttled
	case known && !state.Limited:
		r.Throttled = &none
	}
	if known {
		r.Restarts, r.OOMKills = state.Restarts, x.kills[key].Seen()
	}
}
