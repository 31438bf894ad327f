package kube

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// enrolment is how a mesh takes the trial's pods in. Only an enrolment changes the deployed objects for a mesh: the
// labels and annotations of the namespace and of pod templates, and the objects created before any pod.
type enrolment struct {
	mesh.Enrolled
	enrolled bool // false without a mesh
	// loadInside: the load workers are in the mesh as well.
	loadInside bool
	// gateway is the mesh's ingress gateway if the load goes through it, and front its destination, else nil.
	gateway *mesh.Gateway
	front   *mesh.Front
}

// enrol renders the enrolment of one namespace, which is empty without a mesh. front is the destination of an ingress
// gateway.
func enrol(o *Options, m mesh.Definition, namespace string, front mesh.Front, services ...mesh.ServiceProtocol) (enrolment, error) {
	e := enrolment{loadInside: !o.Outside && !o.Gateway}
	if err := m.On(mesh.OnKubernetes); err != nil || m.Kubernetes == nil {
		return e, err
	}
	if err := o.checkMeshAllowed(m); err != nil {
		return e, err
	}
	if o.Meshes == nil {
		return e, fmt.Errorf("mesh %s: %w: this platform installs no mesh", m.Name, errors.ErrUnsupported)
	}
	if o.portForward() {
		return e, hint.New("use platform: {expose: nodePort}, or loadBalancer if the cluster has one",
			"mesh %s: %w with platform.expose: %s, which ends inside the entry's pod and bypasses the mesh", m.Name, errors.ErrUnsupported, exposePortForward)
	}
	e.enrolled = true
	var err error
	if o.Gateway {
		if e.gateway, err = ingressOf(m, front); err != nil {
			return e, err
		}
		e.front = &front
	}
	e.Enrolled, err = m.Kubernetes.Enrol(o.Settings[m.Name], namespace, mesh.Way{LoadInside: e.loadInside, Front: e.front, Services: services})
	return e, err
}

func protocolsOf(spec platform.Spec) (all []mesh.ServiceProtocol) {
	for _, s := range spec.Topology.Services {
		all = append(all, mesh.ServiceProtocol{Name: s.Name, Protocol: spec.Protocol(s)})
	}
	return all
}

// ingressOf is the mesh's ingress gateway, or the reason why the load cannot go through it.
func ingressOf(m mesh.Definition, front mesh.Front) (*mesh.Gateway, error) {
	g, err := m.Ingress()
	if err == nil && g != nil {
		err = g.Carries(front.Protocol)
	}
	return g, err
}

// markNamespace adds the mesh's labels and annotations to the trial's namespace.
func (e enrolment) markNamespace(ns *corev1.Namespace) { mark(&ns.ObjectMeta, e.Namespace) }

// markPods adds the mesh's labels and annotations to the pod template of a service.
func (e enrolment) markPods(template *corev1.PodTemplateSpec) { mark(&template.ObjectMeta, e.Pod) }

// servingKinds are the workloads of an application whose pods serve. Jobs end, and a sidecar would keep them from it.
var servingKinds = map[schema.GroupKind][]string{
	cluster.KindDeployment.GroupKind():  {"spec", "template", "metadata"},
	cluster.KindStatefulSet.GroupKind(): {"spec", "template", "metadata"},
	cluster.KindDaemonSet.GroupKind():   {"spec", "template", "metadata"},
	cluster.KindPod.GroupKind():         {"metadata"},
}

// markForeign adds the mesh's labels and annotations to the pod template of a workload that others wrote.
func (e enrolment) markForeign(o *unstructured.Unstructured) error {
	at, ok := servingKinds[o.GroupVersionKind().GroupKind()]
	if !ok {
		return nil
	}
	for field, marks := range map[string]map[string]string{"labels": e.Pod.Labels, "annotations": e.Pod.Annotations} {
		if len(marks) == 0 {
			continue
		}
		path := append(slices.Clone(at), field)
		has, _, err := unstructured.NestedStringMap(o.Object, path...)
		if err == nil {
			err = unstructured.SetNestedStringMap(o.Object, merged(has, marks), path...)
		}
		if err != nil {
			return fmt.Errorf("enrol the pods of %s: %w", nameOf(o), err)
		}
	}
	return nil
}

// markLoad adds the mesh's labels and annotations to the pod template of the load workers, which may be exempt.
func (e enrolment) markLoad(template *corev1.PodTemplateSpec) {
	if e.loadInside {
		mark(&template.ObjectMeta, e.Pod)
		return
	}
	mark(&template.ObjectMeta, e.Exempt)
}

func mark(on *metav1.ObjectMeta, m mesh.Marks) {
	on.Labels = merged(on.Labels, m.Labels)
	on.Annotations = merged(on.Annotations, m.Annotations)
}

// merged is a copy of a map with the entries of another, nil if both are empty.
func merged(to, from map[string]string) map[string]string {
	if len(from) == 0 {
		return to
	}
	all := maps.Clone(to)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, from)
	return all
}
