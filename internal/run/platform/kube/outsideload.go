package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// stopGrace is what a load process of this machine gets to end by itself when its trial is removed.
const stopGrace = 2 * time.Second

// outside is a load that is sent from this machine: the way into the cluster, and the processes.
type outside struct {
	roots     []string // URLs of the entry
	forwards  []*cluster.Forward
	processes []*outsideProcess
}

type outsideProcess struct {
	*proc.Process
	task platform.Task
}

// startOutside starts a load process on this machine.
func (d *deployment) startOutside(ctx context.Context, cmd proc.Command) (platform.Process, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removed || d.broken != nil {
		return nil, cmp.Or(d.broken, errRemoved)
	}
	id := loadService + "/" + loadContainer
	if n := len(d.outside.processes); n > 0 {
		id = fmt.Sprintf("%s-%d", id, n+1)
	}
	if d.spec.Provenance != "" {
		cmd.Log = filepath.Join(d.spec.Provenance, filepath.Base(id)+"-outside.log")
	}
	if err := d.noteLine("on this machine, "+id, cmd); err != nil {
		return nil, err
	}
	p, err := proc.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	task := platform.Task{PID: p.PID, Task: mesh.Task{ID: id, Pod: loadService, Service: loadService, Container: loadContainer, Plane: metric.Load}}
	d.outside.processes = append(d.outside.processes, &outsideProcess{p, task})
	return p, nil
}

// outsideTasks are the load processes that run.
func (d *deployment) outsideTasks() (tasks []platform.Task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.outside.processes {
		select {
		case <-p.Done():
		default:
			tasks = append(tasks, p.task)
		}
	}
	return tasks
}

// closeOutside ends what the load has on this machine.
func (d *deployment) closeOutside(ctx context.Context) error {
	d.mu.Lock()
	processes := slices.Clone(d.outside.processes)
	d.mu.Unlock()
	var failed []error
	for _, p := range processes {
		failed = append(failed, p.Stop(ctx, stopGrace))
	}
	for _, f := range d.outside.forwards {
		failed = append(failed, ignoreClosed(f.Close()))
	}
	return errors.Join(failed...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Warnings implements [platform.Warner].
func (d *deployment) Warnings() []platform.Warning {
	if !d.platform.options.Outside || d.platform.options.Expose != exposePortForward {
		return nil
	}
	return []platform.Warning{{
		Code:    "load-through-api-server",
		Message: "the load reaches the application through the API server and a kubelet (port-forward): what they take is part of every latency, and of the platform's CPU",
		Hint:    "platform: {expose: nodePort} or loadBalancer leads there without them; or send the load from inside",
	}}
}
