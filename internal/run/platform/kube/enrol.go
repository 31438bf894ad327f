package kube

import (
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// enrolment is how a mesh takes the pods of a trial in. This file is the one place where a mesh changes what is
// deployed: what the namespace and the templates of pods carry, and what is put there before any pod is.
type enrolment struct {
	mesh.Enrolled
	is bool // there is a mesh
	// loadInside says that the load workers are in the mesh as well.
	loadInside bool
	// gateway is the mesh's ingress gateway, where the load comes through it, and front what it leads to; else nil.
	gateway *mesh.Gateway
	front   *mesh.Front
}

// enrol renders the enrolment of one trial's namespace; that of no mesh is empty. front is what the mesh's ingress gateway
// would lead to.
func (p *Platform) enrol(m mesh.Definition, namespace string, front mesh.Front) (enrolment, error) {
	e := enrolment{loadInside: !p.options.Outside && !p.options.Gateway}
	if err := m.On(mesh.OnKubernetes); err != nil || m.Kubernetes == nil {
		return e, err
	}
	if err := p.refusesIn(m); err != nil {
		return e, err
	}
	if p.options.Meshes == nil {
		return e, fmt.Errorf("mesh %s: %w: there is nobody to install it", m.Name, errors.ErrUnsupported)
	}
	if err := p.passesBy(m); err != nil {
		return e, err
	}
	e.is = true
	var err error
	if p.options.Gateway {
		if e.gateway, err = p.through(m, front); err != nil {
			return e, err
		}
		e.front = &front
	}
	e.Enrolled, err = m.Kubernetes.Enrol(p.options.Settings[m.Name], namespace, mesh.Way{LoadInside: e.loadInside, Front: e.front})
	return e, err
}

// enrolNamespace puts the mesh's marks on the trial's namespace.
func (e enrolment) enrolNamespace(ns *corev1.Namespace) { put(e.Namespace, &ns.ObjectMeta) }

// enrolPods puts the mesh's marks on the template of a service's pods.
func (e enrolment) enrolPods(template *corev1.PodTemplateSpec) { put(e.Pod, &template.ObjectMeta) }

// enrolLoad puts the mesh's marks on the template of the load workers' pods, which may stay out of it.
func (e enrolment) enrolLoad(template *corev1.PodTemplateSpec) {
	if e.loadInside {
		put(e.Pod, &template.ObjectMeta)
		return
	}
	put(e.Exempt, &template.ObjectMeta)
}

func put(m mesh.Marks, on *metav1.ObjectMeta) {
	on.Labels = added(on.Labels, m.Labels)
	on.Annotations = added(on.Annotations, m.Annotations)
}

// added is a map with another's entries; nil where neither has any.
func added(to, from map[string]string) map[string]string {
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
