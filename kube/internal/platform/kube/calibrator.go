package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// calibrationTimeout bounds a reading: the request and half a second of work.
const calibrationTimeout = 15 * time.Second

// calibrator runs the calibration probe on the nodes of the application.
type calibrator struct {
	*trial
	pods    *trialPods
	workers *workerPool // nil if the load comes from this machine
}

// reader runs the probe on one node.
type reader func(context.Context) (probe.Reading, error)

// Probe implements [platform.Deployment.Probe]. On each node of the application, one of its pods runs the probe, called through the
// API server and not through the mesh. Without such a pod, a load worker on the node runs it.
func (c *calibrator) Probe(ctx context.Context) (probe.Reading, error) {
	if !c.pods.followed() {
		return probe.Reading{}, fmt.Errorf("run the calibration probe: %w in a dry run", errors.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, calibrationTimeout)
	defer cancel()
	readers, err := c.readers()
	if err != nil {
		return probe.Reading{}, err
	}
	nodes := slices.Sorted(maps.Keys(readers))
	readings := make([]probe.Reading, len(nodes))
	var reading errgroup.Group
	for i, node := range nodes {
		reading.Go(routine.Guarded(func() (err error) {
			if readings[i], err = readers[node](ctx); err != nil {
				return fmt.Errorf("run the calibration probe on node %s: %w", node, err)
			}
			return nil
		}))
	}
	if err := reading.Wait(); err != nil {
		return probe.Reading{}, err
	}
	return mergeReadings(nodes, readings)
}

// readers are the readers of the application's nodes, by node.
func (c *calibrator) readers() (map[string]reader, error) {
	needed, readers := map[string]bool{}, map[string]reader{}
	for _, pod := range c.pods.all() {
		node, service := pod.Spec.NodeName, c.serviceOf(pod)
		if node == "" || service == "" {
			continue
		}
		needed[node] = needed[node] || service != loadService
		ofAgent := pod.Labels[labelService] != "" && service != loadService
		worker := -1
		if c.workers != nil {
			worker = c.workers.index(pod)
		}
		switch {
		case ofAgent && cluster.PodReady(pod) && pod.DeletionTimestamp == nil:
			readers[node] = func(ctx context.Context) (probe.Reading, error) {
				api, done := c.serviceAPI(pod)
				defer done()
				text, err := api.Call(ctx, http.MethodPost, "/probe", nil)
				if err != nil {
					return probe.Reading{}, err
				}
				return parseReading(text)
			}
		case worker >= 0 && readers[node] == nil:
			readers[node] = func(ctx context.Context) (probe.Reading, error) { return c.workers.probe(ctx, worker) }
		}
	}
	for node, is := range needed {
		if !is {
			delete(readers, node)
		} else if readers[node] == nil {
			return nil, fmt.Errorf("run the calibration probe on node %s: %w: no pod of tare is on it", node, errors.ErrUnsupported)
		}
	}
	return readers, nil
}

func parseReading(text []byte) (r probe.Reading, err error) {
	if err := json.Unmarshal(text, &r); err != nil {
		return probe.Reading{}, fmt.Errorf("read the probe's output: %w", err)
	}
	if _, ok := r.Microseconds(); !ok {
		return probe.Reading{}, fmt.Errorf("read the probe's output: no work in %.100q", text)
	}
	return r, nil
}

// mergeReadings merges the readings of several nodes, which must be of the same work.
func mergeReadings(nodes []string, readings []probe.Reading) (all probe.Reading, err error) {
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
