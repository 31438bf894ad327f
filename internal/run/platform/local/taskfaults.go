package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// taskFaults implements [platform.TaskFaults] and [platform.Deployment.Ended].
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
		for _, container := range []string{"app", p.proxy(), controlContainer} {
			v := f.processes.find(p.name + "/" + container)
			if v == nil || v.process == nil {
				continue
			}
			all = append(all, platform.Victim{ID: v.id, Pod: p.name, Service: p.service, Replica: p.replica,
				Plane: v.process.task.Plane, Up: v.up()})
		}
	}
	for _, s := range f.layout.spec.Topology.Services {
		for _, p := range f.layout.pods[s.Name] {
			add(p)
		}
	}
	if f.layout.front != nil {
		add(f.layout.front)
	}
	for _, c := range f.control.running {
		add(c.pod)
	}
	return all
}

// End implements [platform.TaskFaults].
func (f *taskFaults) End(ctx context.Context, id string, grace time.Duration) error {
	v, p, err := f.processes.alive(id)
	if err != nil || p == nil {
		return err
	}
	f.processes.mu.Lock()
	p.ended = true
	f.processes.mu.Unlock()
	if grace > 0 && !v.frozen { // a suspended process does not handle SIGTERM
		return p.Stop(ctx, grace)
	}
	if err := p.Signal(os.Kill); err != nil {
		return err
	}
	return awaitEnd(ctx, p.Process)
}

// Freeze implements [platform.TaskFaults]. It suspends the descendants of the process too: they may be
// the ones that serve.
func (f *taskFaults) Freeze(ctx context.Context, id string, frozen bool) error {
	v, p, err := f.processes.alive(id)
	switch {
	case err == nil && p == nil && frozen:
		return errors.New("it is not running")
	case err != nil || p == nil:
		return err
	}
	f.processes.mu.Lock()
	v.frozen = frozen
	f.processes.mu.Unlock()
	if frozen {
		return suspend(ctx, p.Process)
	}
	return resume(p.Process)
}

// suspendTimeout bounds the time until suspended processes are stopped. One in a system call stops after the call.
const suspendTimeout = 10 * time.Second

// suspend returns when the process and its descendants are stopped.
func suspend(ctx context.Context, p *proc.Process) error {
	if err := p.SignalGroup(syscall.SIGSTOP); err != nil {
		return err
	}
	return wait.Within(ctx, suspendTimeout, time.Millisecond, func(context.Context) error {
		left, err := running(p.PID)
		if err != nil {
			return wait.Stop(err)
		}
		if len(left) == 0 {
			return nil
		}
		for _, pid := range left { // of another process group, or not stopped yet
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		return fmt.Errorf("processes %v are not stopped by SIGSTOP", left)
	})
}

// resume resumes the process and its descendants. As they are stopped, the process tree does not change.
func resume(p *proc.Process) error {
	others, err := descendants([]platform.Task{{PID: p.PID}}, func(map[int]bool) {})
	if err := errors.Join(err, p.SignalGroup(syscall.SIGCONT)); err != nil {
		return err
	}
	for _, o := range others {
		if err := syscall.Kill(o.task.PID, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal SIGCONT to process %d: %w", o.task.PID, err)
		}
	}
	return nil
}

// running lists the processes, of a process and its descendants, that are neither stopped nor ended.
func running(pid int) ([]int, error) {
	others, err := descendants([]platform.Task{{PID: pid}}, func(map[int]bool) {})
	if err != nil {
		return nil, err
	}
	all := []int{pid}
	for _, o := range others {
		all = append(all, o.task.PID)
	}
	var left []int
	for _, pid := range all {
		p, err := procfs.NewProc(pid)
		var stat procfs.ProcStat
		if err == nil {
			stat, err = p.Stat()
		}
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ESRCH): // it has ended
		case err != nil:
			return nil, fmt.Errorf("read process %d: %w", pid, err)
		case !strings.Contains("TtXZ", stat.State):
			left = append(left, pid)
		}
	}
	return left, nil
}

// Restart implements [platform.TaskFaults].
func (f *taskFaults) Restart(ctx context.Context, id string) error {
	v, p, err := f.processes.alive(id)
	switch {
	case err != nil:
		return err
	case p != nil:
		return errors.New("it is running")
	}
	return v.again(context.WithValue(ctx, restartKey{}, true))
}

// Ended implements [platform.Deployment.Ended].
func (f *taskFaults) Ended() []platform.Ended {
	f.processes.mu.Lock()
	defer f.processes.mu.Unlock()
	var all []platform.Ended
	for _, p := range f.processes.started {
		if u, ok := p.Usage(); ok && p.ended {
			all = append(all, platform.Ended{Task: platform.Task{Task: p.task, PID: p.PID, Restarted: p.restarted},
				CPU: u.CPU, Voluntary: u.Voluntary, Involuntary: u.Involuntary})
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
