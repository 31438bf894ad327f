package kube

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/kube/meshes"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// gatewayWithin is how long a mesh's controllers may take to make a gateway and its routes known, which for a gateway of
// type LoadBalancer takes its address too.
const gatewayWithin = balancerWithin

// sampleFront is what a gateway leads to before the first trial is known.
var sampleFront = mesh.Front{Service: "app", Port: servicePort, Protocol: app.HTTP1, ServiceType: string(corev1.ServiceTypeClusterIP)}

// front is what a gateway of the trial leads to.
func (p *Platform) front(spec platform.Spec) mesh.Front {
	return mesh.Front{Service: spec.Entry().Name, Port: entryPortOf(spec), Protocol: spec.Protocol(spec.Entry()), ServiceType: string(p.serviceType())}
}

// through is the mesh's ingress gateway; the error says why the load cannot come through it.
func (p *Platform) through(m mesh.Definition, front mesh.Front) (*mesh.Gateway, error) {
	g, err := m.Ingress()
	if err == nil && g != nil {
		err = g.Carries(front.Protocol)
	}
	if err == nil && p.options.Outside && p.options.Expose == exposePortForward {
		err = &Error{fmt.Errorf("%w through a gateway with platform.expose: %s, which goes to pods and past Services", errors.ErrUnsupported, exposePortForward),
			"write platform: {expose: nodePort}, or loadBalancer where the cluster has one"}
	}
	return g, err
}

// wayIn is the Service that the load is sent to, at which port, and the pods behind it: those of the mesh's ingress gateway,
// or the entry's.
type wayIn struct {
	service cluster.Ref
	port    int
	pods    func() []*corev1.Pod
}

func (d *deployment) wayIn() wayIn {
	in := wayIn{service: cluster.Ref{Kind: cluster.KindService, Namespace: d.namespace, Name: d.spec.Entry().Name}, port: entryPortOf(d.spec),
		pods: func() []*corev1.Pod { return d.of(d.spec.Entry().Name) }}
	if g := d.enrolment.gateway; g != nil {
		in.service.Name, in.port, in.pods = g.Service, g.Port, d.gatewayPods
	}
	return in
}

// gatewayPods are those that the gateway runs in.
func (d *deployment) gatewayPods() (pods []*corev1.Pod) {
	for _, pod := range d.own() {
		if d.enrolment.gateway.Proxy.Selects(pod.Labels) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// awaitGateway waits until what the mesh reports of its gateway and of the way through it holds.
func (d *deployment) awaitGateway(ctx context.Context) error {
	if d.cluster.DryRun() || len(d.enrolment.Conditions) == 0 {
		return nil
	}
	late := newPatience(d.platform.options.Report)
	defer late.end()
	ctx, cancel := context.WithTimeout(ctx, gatewayWithin)
	defer cancel()
	for _, c := range d.enrolment.Conditions {
		err := d.cluster.WaitFor(ctx, late.hear, meshes.ConditionRef(c, d.namespace), func(o *unstructured.Unstructured) (bool, string) { return c.Holds(o.Object) })
		if err == nil {
			continue
		}
		err = fmt.Errorf("wait for the gateway of mesh %s: %w", d.spec.Mesh.Name, err)
		if d.platform.serviceType() == corev1.ServiceTypeLoadBalancer {
			return &Error{err, noBalancer}
		}
		return err
	}
	return nil
}
