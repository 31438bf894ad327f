package local

import (
	"context"
	"fmt"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/metric"
)

// container is a container of a pod over all of its lives.
type container struct {
	id      string // of the first life
	pod     *pod
	name    string                      // app, sidecar, adder or control
	again   func(context.Context) error // starts it as it was, at its address
	lives   int
	process *proc.Process // the present, or the last; nil before the first
	frozen  bool
}

// incarnation is the task's ID in its present life: what one life used must not
// be taken for what another did.
func (v *container) incarnation() string {
	if v.lives == 1 {
		return v.id
	}
	return fmt.Sprintf("%s.%d", v.id, v.lives)
}

func (v *container) up() bool {
	if v.process == nil {
		return false
	}
	select {
	case <-v.process.Done():
		return false
	default:
		return true
	}
}

// begin finds a container, or notes it, and begins a life of it.
func (ps *processes) begin(p *pod, name string, again func(context.Context) error) *container {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	id := p.name + "/" + name
	v := ps.find(id)
	if v == nil {
		v = &container{id: id, pod: p, name: name}
		ps.containers = append(ps.containers, v)
	}
	v.again = again
	v.lives++
	return v
}

// find finds a victim; ps.mu is held.
func (ps *processes) find(id string) *container {
	for _, v := range ps.containers {
		if v.id == id {
			return v
		}
	}
	return nil
}

func (ps *processes) setProcess(v *container, p *proc.Process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	v.process, v.frozen = p, false
}

// restartKey marks the context of a start in place of a task that was ended.
type restartKey struct{}

func restarted(ctx context.Context) bool { return ctx.Value(restartKey{}) != nil }

// of finds what is known of a process; ps.mu is held.
func (ps *processes) of(p *proc.Process) *process {
	for _, q := range ps.started {
		if q.Process == p {
			return q
		}
	}
	return nil
}

// endedOnPurpose says that a fault ended the process; ps.mu is held.
func (ps *processes) endedOnPurpose(p *proc.Process) bool {
	q := ps.of(p)
	return q != nil && q.ended
}

func (ps *processes) endOnPurpose(p *proc.Process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if q := ps.of(p); q != nil {
		q.ended = true
	}
}

// planeOf a process; ps.mu is held.
func (ps *processes) planeOf(p *proc.Process) metric.Plane {
	if q := ps.of(p); q != nil {
		return q.task.Plane
	}
	return metric.Unattributed
}

// alive finds a victim that runs.
func (ps *processes) alive(id string) (*container, *proc.Process, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	v := ps.find(id)
	switch {
	case ps.removed:
		return nil, nil, errRemoved
	case v == nil:
		return nil, nil, fmt.Errorf("there is no task %s", id)
	case !v.up():
		return v, nil, nil
	}
	return v, v.process, nil
}
