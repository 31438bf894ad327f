package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/load/worker"
)

// indexAnnotation numbers the pods of an indexed Job.
const indexAnnotation = "batch.kubernetes.io/job-completion-index"

// loadWorker is a pod of the load's Job, and the way to it.
type loadWorker struct {
	pod     string
	forward *cluster.Forward
	client  *worker.Client
}

// LoadWorkers implements [platform.LoadWorkers]: none where the load is sent from this machine.
func (d *deployment) LoadWorkers() int {
	if d.platform.options.Outside {
		return 0
	}
	return d.platform.options.Workers
}

// reachWorkers finds the pods of the load workers, and asks each for the time, so that it is known to answer.
func (d *deployment) reachWorkers(ctx context.Context) error {
	if d.cluster.DryRun() {
		return nil
	}
	d.workers = make([]*loadWorker, d.LoadWorkers())
	for _, pod := range d.own() {
		i, err := strconv.Atoi(pod.Annotations[indexAnnotation])
		if pod.Labels[labelService] != loadService || err != nil || i < 0 || i >= len(d.workers) || d.workers[i] != nil {
			continue
		}
		forward := d.cluster.Forward(d.namespace, pod.Name, workerPort)
		d.workers[i] = &loadWorker{pod.Name, forward, worker.NewClient(forward.DialContext, d.token)}
	}
	for i, w := range d.workers {
		if w == nil {
			d.workers = nil
			return fmt.Errorf("find load worker %d: job %s/%s has no pod with this index", i, d.namespace, loadService)
		}
	}
	for i := range d.workers {
		if _, _, err := d.LoadClock(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// LoadClock implements [platform.LoadWorkers]. A load of this machine goes by tare's own clock.
func (d *deployment) LoadClock(ctx context.Context, i int) (ahead, unsure time.Duration, err error) {
	if d.platform.options.Outside {
		return 0, 0, nil
	}
	if i < 0 || i >= len(d.workers) {
		return 0, 0, fmt.Errorf("clock of load worker %d: there are %d", i, len(d.workers))
	}
	ahead, unsure, err = d.workers[i].client.Clock(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("clock of load worker %d (pod %s/%s): %w", i, d.namespace, d.workers[i].pod, err)
	}
	return ahead, unsure, nil
}

// take is the next load worker: the first again once the last load has ended.
func (d *deployment) take() (i int, w *loadWorker, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.removed:
		return 0, nil, errRemoved
	case d.broken != nil:
		return 0, nil, d.broken
	case d.active == 0:
		d.started = 0
	}
	if d.started >= len(d.workers) {
		return 0, nil, errors.New("every load worker is at work")
	}
	i = d.started
	d.started++
	d.active++
	return i, d.workers[i], nil
}

// takeOne takes a load worker by its number, beside those of a load that [deployment.take] shares out.
func (d *deployment) takeOne(i int) (*loadWorker, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removed || d.broken != nil {
		return nil, cmp.Or(d.broken, errRemoved)
	}
	d.active++
	d.started = max(d.started, i+1)
	return d.workers[i], nil
}

// give back a load worker whose command has ended.
func (d *deployment) give() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.active--
}
