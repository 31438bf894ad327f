package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// taskFaults implements [platform.TaskFaults] and [platform.EndedTasks].
type taskFaults struct {
	layout    *layout
	processes *processes
	control   *controlPlane
}

// Victims implements [platform.TaskFaults].
func (f *taskFaults) Victims() []platform.Victim {
	f.processes.mu.Lock()
	defer f.processes.mu.Unlock()
	var all []platform.Victim
	add := func(p *pod) {
		for _, container := range []string{"app", "sidecar", controlContainer} {
			v := f.processes.find(p.name + "/" + container)
			if v == nil || v.process == nil {
				continue
			}
			all = append(all, platform.Victim{ID: v.id, Pod: p.name, Service: p.service, Replica: p.replica,
				Plane: f.processes.planeOf(v.process), Up: v.up()})
		}
	}
	for _, s := range f.layout.spec.Topology.Services {
		for _, p := range f.layout.pods[s.Name] {
			add(p)
		}
	}
	if f.layout.load != nil {
		add(f.layout.load)
	}
	for _, c := range f.control.running {
		add(c.pod)
	}
	return all
}

// End implements [platform.TaskFaults].
func (f *taskFaults) End(ctx context.Context, id string, grace time.Duration) error {
	v, p, err := f.processes.alive(id)
	if err != nil {
		return fmt.Errorf("end %s: %w", id, err)
	}
	if p == nil {
		return nil
	}
	f.processes.endOnPurpose(p)
	if grace > 0 && !v.frozen { // a suspended process does not handle SIGTERM
		err = p.Stop(ctx, grace)
	} else if err = p.Signal(os.Kill); err == nil {
		err = awaitEnd(ctx, p)
	}
	if err != nil {
		return fmt.Errorf("end %s: %w", id, err)
	}
	return nil
}

// Freeze implements [platform.TaskFaults].
func (f *taskFaults) Freeze(_ context.Context, id string, frozen bool) error {
	v, p, err := f.processes.alive(id)
	if err == nil && p == nil && frozen {
		err = errors.New("it is not running")
	}
	if err != nil {
		return fmt.Errorf("freeze %s: %w", id, err)
	}
	if p == nil {
		return nil
	}
	signal := syscall.SIGCONT
	if frozen {
		signal = syscall.SIGSTOP
	}
	if err := p.Signal(signal); err != nil {
		return err
	}
	f.processes.mu.Lock()
	defer f.processes.mu.Unlock()
	v.frozen = frozen
	return nil
}

// Restart implements [platform.TaskFaults].
func (f *taskFaults) Restart(ctx context.Context, id string) error {
	v, p, err := f.processes.alive(id)
	if err == nil && p != nil {
		err = errors.New("it is running")
	}
	if err == nil {
		err = v.again(context.WithValue(ctx, restartKey{}, true))
	}
	if err != nil {
		return fmt.Errorf("restart %s: %w", id, err)
	}
	return nil
}

// Ended implements [platform.EndedTasks].
func (f *taskFaults) Ended() []platform.Ended {
	f.processes.mu.Lock()
	defer f.processes.mu.Unlock()
	var all []platform.Ended
	for _, p := range f.processes.started {
		if u, ok := p.Usage(); ok && p.ended {
			all = append(all, platform.Ended{Task: platform.Task{Task: p.task, PID: p.PID, Restarted: p.restarted},
				CPU: u.CPU, Peak: u.Peak, Voluntary: u.Voluntary, Involuntary: u.Involuntary})
		}
	}
	return all
}

func awaitEnd(ctx context.Context, p *proc.Process) error {
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
