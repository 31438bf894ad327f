package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

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
