// Package agent reads the usage of a cluster's containers from the control groups of
// their nodes, by tare's node agents ([agents.Agents]). Each reading is current, with
// the time at which the kernel's counter was read, so that nothing waits for a
// refresh of counters.
//
// Restarts and OOM kills are the API server's. The agents' times are converted to
// tare's clock.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/inside/nodeagent"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/agents"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Source lists containers. [*cluster.Reader] is one.
type Source interface {
	Containers(ctx context.Context, namespace string) ([]cluster.Container, error)
}

// Agents are the node agents. [*agents.Agents] is one.
type Agents interface {
	All() []*agents.Agent
	Clock(node string) (ahead, unsure time.Duration, ok bool)
	Reconnect(ctx context.Context) (replaced bool)
}

// Meter reads containers by the namespace, pod and container of their tasks.
type Meter struct {
	source Source
	agents Agents

	mu         sync.Mutex
	containers map[meter.Container]cluster.Container
	kills      map[meter.Container]meter.Kills
	left       map[string]int64 // the last remainder of each node, ns
	peaks      map[string]int64 // the most memory of each node's daemons at a reading, bytes
}

// New makes the meter of the nodes with agents.
func New(s Source, a Agents) *Meter {
	return &Meter{source: s, agents: a, containers: map[meter.Container]cluster.Container{}, kills: map[meter.Container]meter.Kills{}, left: map[string]int64{}, peaks: map[string]int64{}}
}

var (
	errNoContainer = fmt.Errorf("the API server does not list the container, or no longer: %w", fs.ErrNotExist)
	errNoAgent     = errors.New("no node agent runs on the container's node")
	errNoAgents    = errors.New("no node agent runs")
)

// Read reads all nodes in parallel. Containers of unreachable nodes are missing. If no node is reachable, the
// reading is a gap. [meter.Edge] adds restarts and kills.
func (m *Meter) Read(ctx context.Context, tasks []platform.Task, depth meter.Depth) (meter.Look, error) {
	all := m.agents.All()
	look := meter.NewLook()
	if len(all) == 0 {
		look.Gap = errNoAgents
		return look, nil
	}
	answers := m.prompt(ctx, all, tasks, depth)
	if some(answers, answer.failed) && m.agents.Reconnect(ctx) {
		all = m.agents.All()
		answers = m.ask(ctx, all, tasks, depth)
	}
	if some(answers, answer.lacksContainer) { // a container that was restarted has a new ID
		m.list(ctx, tasks, true)
		answers = m.ask(ctx, all, tasks, depth)
	}
	if ctx.Err() != nil {
		return meter.Look{}, context.Cause(ctx)
	}
	reached := 0
	for _, a := range answers {
		if a.err != nil {
			look.NodeErr = errors.Join(look.NodeErr, a.err)
			continue
		}
		reached++
	}
	if reached == 0 {
		look.Gap = look.NodeErr
		return look, nil
	}
	m.fill(&look, tasks, answers, depth)
	m.addNodes(&look, all, answers)
	return look, nil
}

// prompt reads all nodes. At an edge containers are listed meanwhile, for their restarts: the counters must not
// wait for the API server.
func (m *Meter) prompt(ctx context.Context, all []*agents.Agent, tasks []platform.Task, depth meter.Depth) (answers map[string]answer) {
	listed := m.list(ctx, tasks, false)
	if listed || depth < meter.Edge {
		return m.ask(ctx, all, tasks, depth)
	}
	var both sync.WaitGroup
	both.Go(routine.Guarded(func() { answers = m.ask(ctx, all, tasks, depth) }))
	both.Go(routine.Guarded(func() { m.list(ctx, tasks, true) }))
	both.Wait()
	return answers
}

type answer struct {
	nodeagent.Reading
	ahead time.Duration
	err   error
}

func (a answer) time(ns int64) time.Time { return time.Unix(0, ns).Add(-a.ahead) }

func (a answer) failed() bool { return a.err != nil }

func (a answer) lacksContainer() bool { return len(a.Missing) > 0 }

func some(answers map[string]answer, is func(answer) bool) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(answers)), is)
}

func (m *Meter) ask(ctx context.Context, all []*agents.Agent, tasks []platform.Task, depth meter.Depth) map[string]answer {
	byNode := m.idsByNode(tasks)
	answers := make(map[string]answer, len(all))
	var mu sync.Mutex
	var asking errgroup.Group
	for _, agent := range all {
		asking.Go(routine.Guarded(func() error {
			a := m.askOne(ctx, agent, nodeagent.Query{IDs: byNode[agent.Node.Name], Memory: depth >= meter.Counters})
			mu.Lock()
			defer mu.Unlock()
			answers[agent.Node.Name] = a
			return nil
		}))
	}
	_ = asking.Wait()
	return answers
}

func (m *Meter) askOne(ctx context.Context, agent *agents.Agent, q nodeagent.Query) (a answer) {
	name := agent.Node.Name
	ahead, _, ok := m.agents.Clock(name)
	if !ok {
		return answer{err: fmt.Errorf("the clock of node %s is unknown", name)}
	}
	if q.IDs == nil {
		q.IDs = []string{}
	}
	a.ahead = ahead
	if a.Reading, a.err = agent.Read(ctx, q); a.err != nil {
		a.err = fmt.Errorf("node agent of %s: %w", name, a.err)
	}
	return a
}

func (m *Meter) idsByNode(tasks []platform.Task) map[string][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := map[string][]string{}
	for _, t := range tasks {
		if c, ok := m.containers[meter.ContainerOf(t)]; ok {
			ids[c.Node] = append(ids[c.Node], c.ID)
		}
	}
	return ids
}

// list lists the containers of the tasks' namespaces: always, or where one is unknown. It reports whether any
// namespace was listed.
func (m *Meter) list(ctx context.Context, tasks []platform.Task, always bool) bool {
	namespaces := map[string]bool{}
	m.mu.Lock()
	for _, t := range tasks {
		if _, known := m.containers[meter.ContainerOf(t)]; t.Namespace != "" && (always || !known) {
			namespaces[t.Namespace] = true
		}
	}
	m.mu.Unlock()
	var listing errgroup.Group
	for namespace := range namespaces {
		listing.Go(routine.Guarded(func() error {
			found, err := m.source.Containers(ctx, namespace)
			if err != nil {
				return nil // the known ones stay
			}
			m.remember(namespace, found)
			return nil
		}))
	}
	_ = listing.Wait()
	return len(namespaces) > 0
}

func (m *Meter) remember(namespace string, found []cluster.Container) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.containers {
		if k.Namespace == namespace {
			delete(m.containers, k)
		}
	}
	for _, c := range found {
		k := meter.Container{Namespace: c.Namespace, Pod: c.Pod, Name: c.Name}
		m.containers[k] = c
		m.kills[k] = m.kills[k].After(c.Restarts, c.OOMKilled)
	}
}

func (m *Meter) fill(look *meter.Look, tasks []platform.Task, answers map[string]answer, depth meter.Depth) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range tasks {
		k := meter.ContainerOf(t)
		c, ok := m.containers[k]
		if !ok {
			look.Missing[t.ID] = errNoContainer
			continue
		}
		a, ok := answers[c.Node]
		r, read := a.Containers[c.ID]
		switch {
		case !ok:
			look.Missing[t.ID] = errNoAgent
		case a.err != nil:
			look.Missing[t.ID] = a.err
		case !read:
			look.Missing[t.ID] = errors.New(cmp.Or(a.Missing[c.ID], "the container was restarted during the reading"))
		default:
			reading := result.Reading{At: a.time(r.At), CPU: r.CPU, RSS: r.Memory, Peak: max(r.Peak, r.Memory), Throttled: r.Throttled, Periods: r.Periods, Reached: r.Reached}
			if depth >= meter.Edge {
				reading.Restarts, reading.OOMKills = c.Restarts, m.kills[k].Seen()
			}
			look.Tasks[t.ID] = reading
		}
	}
}

// Names of the tasks of a node outside its pods.
const (
	daemonsName = "daemons"
	kernelName  = "kernel"
)

// addNodes adds each node, their sum, and their work outside pods.
func (m *Meter) addNodes(look *meter.Look, all []*agents.Agent, answers map[string]answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, agent := range all {
		n, a := agent.Node, answers[agent.Node.Name]
		look.NodeCPUs += n.CPUs
		if a.err != nil {
			continue
		}
		if a.Node == nil {
			look.NodeErr = errors.Join(look.NodeErr, fmt.Errorf("node agent of %s: %s", n.Name, a.NodeErr))
			continue
		}
		r := result.NodeReading{At: a.time(a.Node.At), Busy: a.Node.CPU, Memory: a.Node.Memory}
		look.Nodes = append(look.Nodes, meter.Machine{Name: n.Name, CPUs: n.CPUs, AllocatableCPU: n.Cores, AllocatableMemory: n.Memory, Reading: r})
		m.left[n.Name] = max(m.left[n.Name], a.Node.Kernel())       // the parts are read one after another
		m.peaks[n.Name] = max(m.peaks[n.Name], a.Node.DaemonMemory) // control groups have a peak each, and no common one
		look.AddNodeTask(n.Name, daemonsName, mesh.RoleDaemon, result.Reading{At: r.At, CPU: a.Node.Daemons, RSS: a.Node.DaemonMemory, Peak: m.peaks[n.Name]})
		look.AddNodeTask(n.Name, kernelName, mesh.RoleRemainder, result.Reading{At: r.At, CPU: m.left[n.Name]})
	}
	look.AddTotal(len(all))
}
