package kube

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// stopGrace is the grace period of a load process of this machine when its trial is removed.
const stopGrace = 2 * time.Second

// localLoad is load from this machine: its processes.
type localLoad struct {
	archive archive
	dryRun  bool
	lost    func() error // the reason why the trial can no longer be measured

	mu        sync.Mutex
	processes []localProcess
	closed    bool
}

type localProcess struct {
	*proc.Process
	task platform.Task
}

// StartLoad implements [platform.Running].
func (l *localLoad) StartLoad(ctx context.Context, cmd proc.Command) (platform.Process, error) {
	if l.dryRun {
		return endedCommand(), nil // kubectl has no command for it
	}
	p, err := l.start(ctx, cmd)
	if err != nil {
		return nil, fmt.Errorf("start the load generator: %w", err)
	}
	return p, nil
}

func (l *localLoad) start(ctx context.Context, cmd proc.Command) (*proc.Process, error) {
	lost := l.lost()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case lost != nil:
		return nil, lost
	case l.closed:
		return nil, errRemoved
	}
	id := loadService + "/" + loadContainer
	if n := len(l.processes); n > 0 {
		id = fmt.Sprintf("%s-%d", id, n+1)
	}
	if l.archive.Enabled() {
		cmd.Log = l.archive.Path(filepath.Base(id) + "-outside.log")
	}
	if err := l.archive.Command("on this machine, "+id, cmd.String()); err != nil {
		return nil, err
	}
	p, err := proc.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	task := platform.Task{PID: p.PID, Task: mesh.Task{ID: id, Pod: loadService, Service: loadService, Container: loadContainer, Plane: metric.Load}}
	l.processes = append(l.processes, localProcess{p, task})
	return p, nil
}

// starters implements loadSource.
func (l *localLoad) starters() []starter { return []starter{l.StartLoad} }

// tasks implements loadSource.
func (l *localLoad) tasks() (tasks []platform.Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.processes {
		select {
		case <-p.Done():
		default:
			tasks = append(tasks, p.task)
		}
	}
	return tasks
}

// stop implements loadSource.
func (l *localLoad) stop(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	processes := slices.Clone(l.processes)
	l.mu.Unlock()
	var failed []error
	for _, p := range processes {
		failed = append(failed, p.Stop(ctx, stopGrace))
	}
	return errors.Join(failed...)
}
