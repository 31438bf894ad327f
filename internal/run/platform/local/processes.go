package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// processes starts, watches and lists the processes of a trial.
type processes struct {
	mesh      mesh.Definition
	cpus      map[string]string // by plane
	workspace *workspace
	abandon   context.CancelCauseFunc // ends a deployment that is being made

	mu         sync.Mutex
	started    []*process
	containers []*container
	broken     error // the first process that ended by itself
	removed    bool
}

// process is a started process and the task it is.
type process struct {
	*proc.Process
	task      mesh.Task
	restarted bool // in place of one that was ended
	ended     bool // on purpose
}

var errRemoved = errors.New("the deployment has been removed")

// run starts a task's process and watches it. The printed command is what a
// person can paste; it differs where descriptors are inherited.
func (ps *processes) run(ctx context.Context, task mesh.Task, cmd, printed proc.Command) (*proc.Process, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.removed {
		return nil, errRemoved
	}
	task = ps.mesh.Attribute(task)
	cmd.CPUs = ps.cpus[string(task.Plane)]
	printed.CPUs = cmd.CPUs
	p, err := proc.Start(ctx, cmd)
	if err != nil {
		err = fmt.Errorf("start %s: %w", task.ID, err)
		if cmd.CPUs != "" {
			err = hint.Wrap(err, fmt.Sprintf("platform.cpus pins the %s plane to %s; this process may use %d processors", task.Plane, cmd.CPUs, runtime.NumCPU()))
		}
		return nil, err
	}
	ps.started = append(ps.started, &process{Process: p, task: task, restarted: restarted(ctx)})
	if err := ps.workspace.recordCommand(task.ID, p.PID, printed); err != nil {
		return nil, err // Remove stops it
	}
	return p, nil
}

// runIn starts a container of a pod; every one of them is watched, and can be
// ended and started again.
func (ps *processes) runIn(ctx context.Context, p *pod, container string, cmd, printed proc.Command, again func(context.Context) error) (*proc.Process, error) {
	v := ps.begin(p, container, again)
	id := v.incarnation()
	process, err := ps.run(ctx, mesh.Task{ID: id, Pod: p.name, Service: p.service, Container: container}, cmd, printed)
	if err != nil {
		return nil, err
	}
	ps.setProcess(v, process)
	ps.watch(id, process)
	return process, nil
}

// watch reports a process that ends though nobody asked it to.
func (ps *processes) watch(id string, p *proc.Process) {
	go func() {
		<-p.Done()
		ps.mu.Lock()
		defer ps.mu.Unlock()
		if ps.removed || ps.broken != nil || ps.endedOnPurpose(p) {
			return
		}
		ps.broken = ended(id, p)
		ps.abandon(ps.broken)
	}()
}

// Err implements [platform.Watcher].
func (ps *processes) Err() error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.broken
}

// ended says how a process that should run on has ended, as the error of [proc.Process.Wait] tells it.
func ended(id string, p *proc.Process) error {
	err := p.Wait()
	if err == nil {
		err = &proc.ExitError{Name: filepath.Base(p.Command().Path), Command: p.Command().String(), State: "exit status 0", Log: p.Tail(20)}
	}
	advice := "its log and its command line are in the trial's provenance directory; the command can be pasted to try it by hand"
	if log := p.Command().Log; log != "" {
		advice = fmt.Sprintf("its whole log is %s; beside it, commands.sh has the command line to try by hand", log)
	}
	return hint.Wrap(fmt.Errorf("%s is gone: %w", id, err), advice)
}

// close refuses further starts and returns all processes.
func (ps *processes) close() []*process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.removed = true
	return ps.started
}

// closed reports whether the deployment is removed, or being removed.
func (ps *processes) closed() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.removed
}

// tasks implements [platform.Running]. Processes started by a task belong to
// it; those started by tare otherwise match no rule and are unattributed.
func (ps *processes) tasks(ctx context.Context) ([]platform.Task, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	self := platform.Task{PID: os.Getpid(), Task: ps.mesh.Attribute(mesh.Task{ID: "tare", Pod: "tare", Container: "tare"})}
	tasks := []platform.Task{self}
	ps.mu.Lock()
	for _, p := range ps.started {
		select {
		case <-p.Done():
		default:
			tasks = append(tasks, platform.Task{PID: p.PID, Task: p.task, Restarted: p.restarted})
		}
	}
	ps.mu.Unlock()
	others, err := descendants(tasks)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	for _, o := range others {
		t := o.task
		if t.Plane == metric.Harness {
			t.Pod, t.Container = "", o.name
			t.Task = ps.mesh.Attribute(t.Task)
		}
		t.ID = fmt.Sprintf("%s/%s-%d", t.ID, o.name, t.PID)
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// startTimeout bounds the start of one process, until it answers.
const startTimeout = 30 * time.Second

var errSlow = errors.New("it is not ready")

// awaitReady asks until a process that was just started is ready, ends, or has taken too long.
func awaitReady(ctx context.Context, id string, p *proc.Process, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errSlow)
	defer cancel()
	again := time.NewTicker(adminPause)
	defer again.Stop()
	var last error // the reason, and not that the time for looking was over
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-p.Done():
			return ended(id, p)
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if errors.Is(cause, errSlow) {
				return hint.Wrap(fmt.Errorf("start %s: %w after %v: %w", id, errSlow, startTimeout, last), "its log is "+p.Command().Log)
			}
			return fmt.Errorf("start %s: %w", id, cause)
		case <-again.C:
		}
	}
}
