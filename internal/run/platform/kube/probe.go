package kube

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/load/worker"
)

// probeWithin bounds a reading: the way there and back, and half a second.
const probeWithin = 15 * time.Second

// Probe implements [platform.Prober]: on every node that the application stands on one of its pods takes the reading,
// asked through the API server beside any mesh; where tare plays none of them, a load worker on the same node does.
func (d *deployment) Probe(ctx context.Context) (probe.Reading, error) {
	if d.pods == nil {
		return probe.Reading{}, fmt.Errorf("take a calibration reading: %w in a dry run", errors.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	takers, err := d.probers()
	if err != nil {
		return probe.Reading{}, err
	}
	nodes := slices.Sorted(maps.Keys(takers))
	readings := make([]probe.Reading, len(nodes))
	var taking errgroup.Group
	for i, node := range nodes {
		taking.Go(func() (err error) {
			if readings[i], err = takers[node](ctx); err != nil {
				return fmt.Errorf("take a calibration reading on node %s: %w", node, err)
			}
			return nil
		})
	}
	if err := taking.Wait(); err != nil {
		return probe.Reading{}, err
	}
	return together(nodes, readings)
}

// taker takes the reading of one node.
type taker func(context.Context) (probe.Reading, error)

// probers are who takes the reading of each node that the application stands on.
func (d *deployment) probers() (map[string]taker, error) {
	wanted, takers := map[string]bool{}, map[string]taker{}
	for _, pod := range d.own() {
		node, service := pod.Spec.NodeName, d.serviceOf(pod)
		if node == "" || service == "" {
			continue
		}
		wanted[node] = wanted[node] || service != loadService
		played := pod.Labels[labelService] != "" && service != loadService
		switch i := d.workerOf(pod); {
		case played && isReady(pod) && pod.DeletionTimestamp == nil:
			takers[node] = func(ctx context.Context) (probe.Reading, error) { return d.probeService(ctx, pod) }
		case i >= 0 && takers[node] == nil:
			takers[node] = func(ctx context.Context) (probe.Reading, error) { return d.probeWorker(ctx, i) }
		}
	}
	for node, is := range wanted {
		if !is {
			delete(takers, node)
		} else if takers[node] == nil {
			return nil, fmt.Errorf("take a calibration reading on node %s: %w: no pod of tare's stands there", node, errors.ErrUnsupported)
		}
	}
	return takers, nil
}

// workerOf is the number of the load worker that a pod is; -1: none.
func (d *deployment) workerOf(pod *corev1.Pod) int {
	return slices.IndexFunc(d.workers, func(w *loadWorker) bool { return w.pod == pod.Name })
}

// probeService asks one of the application's pods.
func (d *deployment) probeService(ctx context.Context, pod *corev1.Pod) (probe.Reading, error) {
	body, err := d.ask(ctx, pod, http.MethodPost, "probe", nil)
	if err != nil {
		return probe.Reading{}, err
	}
	return readingOf(body)
}

// probeWorker has a load worker run the probe as a command.
func (d *deployment) probeWorker(ctx context.Context, i int) (probe.Reading, error) {
	run, err := d.workers[i].client.Start(ctx, worker.Command{ID: strings.ToLower(rand.Text()), Path: d.inImage(agentProgram), Args: []string{"probe"}})
	if err != nil {
		return probe.Reading{}, err
	}
	var out, said bytes.Buffer
	err = errors.Join(run.Copy(ctx, worker.Stdout, &bounded{&out}), run.Copy(ctx, worker.Stderr, &bounded{&said}))
	if err != nil {
		return probe.Reading{}, err
	}
	s, err := run.Status(ctx)
	if err != nil {
		return probe.Reading{}, err
	}
	if s.Exit != 0 {
		return probe.Reading{}, fmt.Errorf("%s probe: %s: %.300s", agentProgram, s.State, bytes.TrimSpace(said.Bytes()))
	}
	return readingOf(out.Bytes())
}

// bounded takes no more than an answer may have.
type bounded struct{ to *bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.to.Len()+len(p) > maxAnswer {
		return 0, io.ErrShortBuffer
	}
	return b.to.Write(p)
}

func readingOf(body []byte) (r probe.Reading, err error) {
	if err := json.Unmarshal(body, &r); err != nil {
		return probe.Reading{}, fmt.Errorf("read the reading: %w", err)
	}
	if _, ok := r.Microseconds(); !ok {
		return probe.Reading{}, fmt.Errorf("read the reading: it tells of no work: %.100q", body)
	}
	return r, nil
}

// together makes one reading of those of several nodes.
func together(nodes []string, readings []probe.Reading) (all probe.Reading, err error) {
	for i, r := range readings {
		if all.Work != "" && r.Work != all.Work {
			return probe.Reading{}, fmt.Errorf("nodes %s and %s did different work, %s and %s: their images differ", nodes[0], nodes[i], all.Work, r.Work)
		}
		if all.Work == "" || r.At.Before(all.At) {
			all.Work, all.At = r.Work, r.At
		}
		all.Took = max(all.Took, r.Took)
		for _, c := range r.CPUs {
			c.Node = nodes[i]
			all.CPUs = append(all.CPUs, c)
		}
	}
	return all, nil
}
