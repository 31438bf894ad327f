package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/agents"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// roleSystem is the role of the cluster's own containers, recognised by their priority.
const roleSystem = "system"

// taskLister lists the running containers of the cluster and attributes them to planes.
type taskLister struct {
	*trial
	pods *trialPods
	load loadSource
	lost *nodeMonitor // nil: all nodes are listed
}

// Tasks implements [platform.Running]: every running container of the cluster, and the load of this machine.
func (l *taskLister) Tasks(ctx context.Context) ([]platform.Task, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if !l.pods.followed() {
		return nil, nil
	}
	var tasks []platform.Task
	for _, pod := range l.pods.inCluster() {
		if l.lost.isDown(pod.Spec.NodeName) {
			continue
		}
		name, generation := pod.Namespace+"/"+pod.Name, 1
		if l.owns(pod) {
			name, generation = l.pods.generation(pod)
		} else if l.besideRound(pod) {
			continue
		}
		for _, container := range running(pod) {
			t := mesh.Task{ID: taskID(name+"/"+container, generation), Namespace: pod.Namespace, Pod: pod.Name,
				Service: l.serviceOf(pod), Container: container, Labels: pod.Labels, Zone: l.nodes.nodeOf(pod).Zone}
			t = l.attribute(t, l.foreignPlane(pod, container), l.owns(pod), cluster.IsSystem(pod))
			if l.ofOthers(pod) && (t.Plane == metric.Unattributed || t.Role == mesh.RoleSidecar || l.mesh != nil && l.mesh.OtherRevision(pod.Labels)) {
				t.Plane, t.Role, t.Component = metric.Foreign, "", ""
			}
			if t.Plane == metric.Unattributed && l.otherMesh(pod) {
				continue
			}
			if agents.Owns(pod, l.options.Run) || l.original(pod) {
				t.Plane, t.Role, t.Component = metric.Harness, "", ""
			}
			if (t.Plane == metric.Platform && ofDaemonSet(pod) || t.Plane == metric.Foreign) && l.options.Interest != nil && !l.options.Interest[pod.Spec.NodeName] {
				continue
			}
			t.Labels = nil // only the attribution rules need them
			tasks = append(tasks, platform.Task{Task: t, Node: pod.Spec.NodeName, Restarted: generation > 1})
		}
	}
	return append(tasks, l.load.tasks()...), nil
}

// besideRound reports whether a pod is of another trial of the same round, which has a record of its own.
func (l *taskLister) besideRound(pod *corev1.Pod) bool {
	return l.spec.Trial.Round > 0 && !agents.Owns(pod, l.options.Run) && strings.HasPrefix(pod.Namespace, namespacePrefix(l.options.Run))
}

// ofOthers reports whether a pod is neither of a run, nor of the cluster, nor in the namespace of a mesh of the run.
func (t *trial) ofOthers(pod *corev1.Pod) bool {
	return !t.owns(pod) && pod.Labels[cluster.LabelRun] == "" && !strings.HasPrefix(pod.Namespace, namespacePrefix(t.options.Run)) &&
		!slices.Contains(t.options.meshNamespaces, pod.Namespace) && !cluster.IsSystem(pod)
}

// otherMesh reports whether a pod is of a mesh that other trials of the same round use.
func (l *taskLister) otherMesh(pod *corev1.Pod) bool {
	return l.spec.Trial.Round > 0 && slices.Contains(l.options.meshNamespaces, pod.Namespace)
}

// original reports whether a pod is of the application that the trial copies. Its work is in no sum of the trial.
func (l *taskLister) original(pod *corev1.Pod) bool {
	return l.spec.Topology.Namespace != "" && !l.options.InPlace && pod.Namespace == l.spec.Topology.Namespace
}

// taskID is the ID of a task in one generation, so that its CPU use is not added to the CPU use of another.
func taskID(id string, generation int) string {
	if generation == 1 {
		return id
	}
	return fmt.Sprintf("%s.%d", id, generation)
}

// foreignPlane is the plane of a container in a pod template of an application that others wrote, or "". A container that
// a variant adds is beside the application.
func (l *taskLister) foreignPlane(pod *corev1.Pod, container string) metric.Plane {
	if l.foreign == nil || !l.owns(pod) {
		return ""
	}
	t, ok := l.foreign.template(pod)
	switch {
	case !ok || !slices.Contains(t.containers, container):
		return ""
	case slices.Contains(t.added, container):
		return metric.Data
	}
	return metric.App
}

// attribute applies the mesh's rules and corrects their result. Containers of others' objects are the application.
// An application or a load of another run is unattributed. A pod with a system priority belongs to the cluster. Other
// containers stay unattributed: they may belong to the mesh.
func (l *taskLister) attribute(t mesh.Task, foreign metric.Plane, own, system bool) mesh.Task {
	t = l.spec.Attribute(t)
	if t.Plane == metric.Unattributed && foreign != "" {
		t.Plane = foreign
	}
	switch {
	case !own && (t.Plane == metric.App || t.Plane == metric.Load):
		t.Plane, t.Role, t.Component = metric.Unattributed, "", ""
	case t.Plane == metric.Unattributed && system:
		t.Plane, t.Role = metric.Platform, roleSystem
	}
	return t
}

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
		case ofAgent && isReady(pod) && pod.DeletionTimestamp == nil:
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
