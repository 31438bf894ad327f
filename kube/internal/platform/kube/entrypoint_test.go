package kube

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

func meshWithGateway() mesh.Definition {
	return mesh.Definition{Name: "m", Kubernetes: &mesh.Kubernetes{
		Enrolment: mesh.Enrolment{Exempt: mesh.Marks{Labels: map[string]string{"inject": "no"}}},
		Gateway: &mesh.Gateway{Service: "front", Port: 80, Protocols: []string{"http1"},
			Manifests: []string{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: front}\ndata: {to: \"{{.Gateway.Service}}:{{.Gateway.Port}}\", by: {{.Gateway.ServiceType}}}\n"},
			Proxy:     &mesh.Proxy{Role: "gateway", In: mesh.InNamespace, Container: "proxy", PodLabel: map[string]string{"front": "yes"}}},
	}}
}

// Through a gateway, the load is outside the mesh and goes to the gateway's Service, which is exposed instead of the entry's.
// Without a mesh it goes to the entry's Service.
func TestGateway(t *testing.T) {
	d := dryRunDeployment(t, 1, "", meshWithGateway(), "echo")
	p := d.options
	p.Gateway = true
	for _, c := range []struct {
		mesh    mesh.Definition
		outside bool
		service string // the destination of the load
		port    int
		entry   corev1.ServiceType // of the entry's Service
		by      string             // the type of the gateway's own
	}{
		{meshWithGateway(), false, "front", 80, "", "ClusterIP"},
		{meshWithGateway(), true, "front", 80, "", "NodePort"},
		{noMesh(t), false, "echo", servicePort, "", ""},
		{noMesh(t), true, "echo", servicePort, corev1.ServiceTypeNodePort, ""},
	} {
		p.Outside, p.Expose, d.spec.Mesh = c.outside, exposeNodePort, c.mesh
		d.enrolment = must.Get(enrol(p, c.mesh, "x", frontOf(p, d.spec)))(t)
		in := d.entry.service()
		if in.ref.Name != c.service || in.port != c.port || d.manifests.service(d.spec.Entry()).Spec.Type != c.entry {
			t.Errorf("%s, outside %v: to %s:%d, the entry's of type %q", c.mesh.Name, c.outside, in.ref.Name, in.port, d.manifests.service(d.spec.Entry()).Spec.Type)
		}
		if !c.outside && !strings.HasPrefix(d.Entry()[0], "http://"+c.service+".") {
			t.Errorf("%s: the load goes to %v", c.mesh.Name, d.Entry())
		}
		if c.by == "" {
			continue
		}
		if !slices.ContainsFunc(d.enrolment.Manifests, func(s string) bool { return strings.Contains(s, `to: "echo:8080", by: `+c.by) }) {
			t.Errorf("outside %v: manifests %q", c.outside, d.enrolment.Manifests)
		}
		if load := d.manifests.loadJob().Spec.Template; load.Labels["inject"] != "no" || d.enrolment.loadInside || !trafficByService(d.spec, d.enrolment.loadInside, d.enrolment.front != nil)[d.spec.Entry().Name].In.Inside {
			t.Errorf("the load is in the mesh: %v", load.Labels)
		}
	}
}

func TestGatewayRefused(t *testing.T) {
	p := dryRunDeployment(t, 1, "", meshWithGateway(), "echo").options
	p.Gateway = true
	tcp := sampleFront
	tcp.Protocol = "tcp"
	_, err := enrol(p, meshWithGateway(), "x", tcp)
	wantError(t, err, "support http1, not tcp")
	none := meshWithGateway()
	none.Kubernetes.Gateway = &mesh.Gateway{None: "it has none of its own"}
	_, err = enrol(p, none, "x", sampleFront)
	wantError(t, err, "it has none of its own")
}

// nodePortOf returns the node port of the given port, also of a Service with several ports.
func TestNodePortOf(t *testing.T) {
	port := func(number, node int64) any { return map[string]any{"port": number, "nodePort": node} }
	service := func(ports ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"ports": ports}}}
	}
	for _, c := range []struct {
		service *unstructured.Unstructured
		want    int64
	}{{service(port(15021, 30001), port(80, 30002)), 30002}, {service(port(8080, 30003)), 30003}, {service(port(1, 30001), port(2, 30002)), 0}, {service(), 0}, {service(map[string]any{"port": int64(80)}), 0}} {
		if got := nodePortOf(c.service, 80); got != c.want {
			t.Errorf("%v: %d, want %d", c.service.Object, got, c.want)
		}
	}
}
