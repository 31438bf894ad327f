package local

import (
	"context"
	"fmt"
)

// container is a container of a pod, over all of its restarts.
type container struct {
	id      string // of its first process
	pod     *pod
	name    string                      // app, sidecar, control, or of the process beside a program
	again   func(context.Context) error // restarts it at its address
	lives   int
	process *process // current or last, nil before the first
	frozen  bool
}

// incarnation is the task ID of the current process. Each process has its own, so that their usage
// is not mixed.
func (v *container) incarnation() string {
	if v.lives == 1 {
		return v.id
	}
	return fmt.Sprintf("%s.%d", v.id, v.lives)
}

func (v *container) up() bool { return v.process != nil && !exited(v.process.Process) }

// begin finds or adds a container and counts the start of a process in it.
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

func (ps *processes) setProcess(v *container, p *process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	v.process, v.frozen = p, false
}

type restartKey struct{}

func restarted(ctx context.Context) bool { return ctx.Value(restartKey{}) != nil }

// alive returns a container and its process. The process is nil if it has ended.
func (ps *processes) alive(id string) (*container, *process, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	v := ps.find(id)
	switch {
	case ps.removed:
		return nil, nil, errRemoved
	case v == nil:
		return nil, nil, fmt.Errorf("task %s does not exist", id)
	case !v.up():
		return v, nil, nil
	}
	return v, v.process, nil
}

// find returns a container, or nil. ps.mu is held.
func (ps *processes) find(id string) *container {
	for _, v := range ps.containers {
		if v.id == id {
			return v
		}
	}
	return nil
}
