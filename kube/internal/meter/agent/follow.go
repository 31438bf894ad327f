package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/inside/nodeagent"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/agents"
)

const (
	// followPause is the time between two requests for what a plan has read.
	followPause = time.Second
	// followGap is how long an agent may be unreachable. It reads on, and keeps what it has read.
	followGap = 90 * time.Second
)

// following is one plan on all nodes with tasks.
type following struct {
	meter    *Meter
	groups   [][]platform.Task
	parts    map[string]*part // by node
	returned int              // instants that Next has returned
	asked    time.Time        // the last request
	heard    time.Time        // the last response of all agents
}

type part struct {
	agent *agents.Agent
	id    string
	ahead time.Duration
	index map[string]int // of containers in the plan, by ID
	read  []nodeagent.Instant
	done  bool
}

// Follower implements [meter.Meter].
func (m *Meter) Follower() meter.Follower { return m }

// Follow implements [meter.Follower].
func (m *Meter) Follow(ctx context.Context, groups [][]platform.Task, at []time.Time) (meter.Following, error) {
	tasks := slices.Concat(groups...)
	m.list(ctx, tasks, true)
	byNode := m.idsByNode(tasks)
	f := &following{meter: m, groups: groups, parts: map[string]*part{}, heard: time.Now()}
	for _, agent := range m.agents.All() {
		name := agent.Node.Name
		ids := byNode[name]
		if len(ids) == 0 {
			continue
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		ahead, _, ok := m.agents.Clock(name)
		if !ok {
			return nil, fmt.Errorf("the clock of node %s is unknown", name)
		}
		p := &part{agent: agent, id: strings.ToLower(rand.Text()), ahead: ahead, index: map[string]int{}}
		plan := nodeagent.Plan{ID: p.id, IDs: ids}
		for i, id := range ids {
			p.index[id] = i
		}
		for _, t := range at {
			plan.At = append(plan.At, t.Add(ahead).UnixNano())
		}
		if err := agent.Follow(ctx, plan); err != nil {
			return nil, fmt.Errorf("node agent of %s: %w", name, err)
		}
		f.parts[name] = p
	}
	if len(f.parts) == 0 {
		return nil, errNoAgents
	}
	return f, nil
}

func (f *following) Next(ctx context.Context) (read []meter.Instant, done bool, err error) {
	if err := wait.For(ctx, time.Until(f.asked.Add(followPause))); err != nil {
		return nil, false, err
	}
	f.asked = time.Now()
	if err := f.ask(ctx); err != nil {
		if time.Since(f.heard) > followGap || f.replaced(ctx) {
			return nil, false, err
		}
		return nil, false, nil
	}
	f.heard = time.Now()
	until, done := -1, true
	for _, p := range f.parts {
		if until < 0 || len(p.read) < until {
			until = len(p.read)
		}
		done = done && p.done
	}
	for ; f.returned < until; f.returned++ {
		read = append(read, f.instant(f.returned))
	}
	return read, done, nil
}

// replaced reports whether an agent of the plan was replaced, and its readings are lost.
func (f *following) replaced(ctx context.Context) bool {
	if !f.meter.agents.Reconnect(ctx) {
		return false
	}
	return slices.ContainsFunc(f.meter.agents.All(), func(agent *agents.Agent) bool {
		p := f.parts[agent.Node.Name]
		return p != nil && p.agent != agent
	})
}

// ask asks every agent for what it has read since.
func (f *following) ask(ctx context.Context) error {
	var failed []error
	for name, p := range f.parts {
		for more := !p.done; more; {
			got, err := p.agent.Followed(ctx, p.id, len(p.read))
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("node agent of %s: %w", name, err))
				break
			}
			p.read, p.done = append(p.read, got.Instants...), got.Done
			more = len(got.Instants) > 0 && !p.done
		}
	}
	return errors.Join(failed...)
}

// instant joins the readings of all nodes.
func (f *following) instant(n int) meter.Instant {
	var one meter.Instant
	for _, p := range f.parts {
		if at := p.time(n); one.At.IsZero() || at.After(one.At) {
			one.At = at
		}
	}
	for _, tasks := range f.groups {
		look := meter.NewLook()
		for _, t := range tasks {
			if r, ok := f.reading(t, n); ok {
				look.Tasks[t.ID] = r
			} else {
				look.Missing[t.ID] = errNoContainer
			}
		}
		one.Looks = append(one.Looks, look)
	}
	return one
}

// time is the middle of a reading, in tare's time.
func (p *part) time(n int) time.Time {
	one := p.read[n]
	return time.Unix(0, one.At+one.Took/2).Add(-p.ahead)
}

func (f *following) reading(t platform.Task, n int) (result.Reading, bool) {
	if t.Plane == metric.Node && t.Namespace == "" {
		p := f.parts[t.Pod]
		if p == nil || len(p.read[n].Node) < 3 {
			return result.Reading{}, false
		}
		node := nodeagent.Node{CPU: p.read[n].Node[0], Pods: p.read[n].Node[1], Daemons: p.read[n].Node[2]}
		cpu := node.Daemons
		if t.Container == kernelName {
			cpu = node.Kernel()
		}
		return result.Reading{At: p.time(n), CPU: cpu}, true
	}
	f.meter.mu.Lock()
	c, ok := f.meter.containers[meter.ContainerOf(t)]
	f.meter.mu.Unlock()
	p := f.parts[c.Node]
	if !ok || p == nil {
		return result.Reading{}, false
	}
	i, ok := p.index[c.ID]
	if !ok || p.read[n].CPU[i] == nodeagent.Unread {
		return result.Reading{}, false
	}
	return result.Reading{At: p.time(n), CPU: p.read[n].CPU[i]}, true
}
