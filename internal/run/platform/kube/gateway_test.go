package kube

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// gated is a mesh with an ingress gateway.
func gated() mesh.Definition {
	return mesh.Definition{Name: "m", Kubernetes: &mesh.Kubernetes{
		Enrolment: mesh.Enrolment{Exempt: mesh.Marks{Labels: map[string]string{"inject": "no"}}},
		Gateway: &mesh.Gateway{Service: "front", Port: 80, Protocols: []string{"http1"},
			Manifests: []string{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: front}\ndata: {to: \"{{.Gateway.Service}}:{{.Gateway.Port}}\", by: {{.Gateway.ServiceType}}}\n"},
			Proxy:     &mesh.Proxy{Role: "gateway", In: mesh.InNamespace, Container: "proxy", PodLabel: map[string]string{"front": "yes"}}},
	}}
}

// Through a gateway the load is outside of the mesh and goes to the gateway's Service, which leads into the cluster in the
// entry's place. Without a mesh it goes to the entry's.
func TestGatewayOfATrial(t *testing.T) {
	d := pretended(t, 1, "", gated(), "echo")
	p := d.platform
	p.options.Gateway = true
	for _, c := range []struct {
		mesh    mesh.Definition
		outside bool
		service string // that the load is sent to
		port    int
		entry   corev1.ServiceType // of the entry's Service
		by      string             // the type of the gateway's own
	}{
		{gated(), false, "front", 80, "", "ClusterIP"},
		{gated(), true, "front", 80, "", "NodePort"},
		{none(t), false, "echo", servicePort, "", ""},
		{none(t), true, "echo", servicePort, corev1.ServiceTypeNodePort, ""},
	} {
		p.options.Outside, p.options.Expose, d.spec.Mesh = c.outside, exposeNodePort, c.mesh
		var err error
		if d.enrolment, err = p.enrol(c.mesh, "x", p.front(d.spec)); err != nil {
			t.Fatal(err)
		}
		in := d.wayIn()
		if in.service.Name != c.service || in.port != c.port || d.service(d.spec.Entry()).Spec.Type != c.entry {
			t.Errorf("%s, outside %v: to %s:%d, the entry's of type %q", c.mesh.Name, c.outside, in.service.Name, in.port, d.service(d.spec.Entry()).Spec.Type)
		}
		if !c.outside && !strings.HasPrefix(d.Entry()[0], "http://"+c.service+".") {
			t.Errorf("%s: the load is sent to %v", c.mesh.Name, d.Entry())
		}
		if c.by == "" {
			continue
		}
		if !slices.ContainsFunc(d.enrolment.Manifests, func(s string) bool { return strings.Contains(s, `to: "echo:8080", by: `+c.by) }) {
			t.Errorf("outside %v: manifests %q", c.outside, d.enrolment.Manifests)
		}
		if load := d.loadJob().Spec.Template; load.Labels["inject"] != "no" || d.enrolment.loadInside || !parts(d.spec, d.enrolment.loadInside, d.enrolment.front != nil)[d.spec.Entry().Name].In.Inside {
			t.Errorf("the load is in the mesh: %v", load.Labels)
		}
	}
}

func TestNoWayThroughAGateway(t *testing.T) {
	p := pretended(t, 1, "", gated(), "echo").platform
	p.options.Gateway = true
	tcp := sampleFront
	tcp.Protocol = "tcp"
	_, err := p.enrol(gated(), "x", tcp)
	says(t, err, "carry http1, and not tcp")
	none := gated()
	none.Kubernetes.Gateway = &mesh.Gateway{None: "it has none of its own"}
	_, err = p.enrol(none, "x", sampleFront)
	says(t, err, "it has none of its own")
	p.options.Outside, p.options.Expose = true, exposePortForward
	_, err = p.enrol(gated(), "x", sampleFront)
	says(t, err, "portForward", "nodePort")
}

// A Service's node port is that of the port that is meant, and not of the first.
func TestNodePortOfAPort(t *testing.T) {
	port := func(number, node int64) any { return map[string]any{"port": number, "nodePort": node} }
	of := func(ports ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"ports": ports}}}
	}
	for _, c := range []struct {
		service *unstructured.Unstructured
		want    int64
	}{{of(port(15021, 30001), port(80, 30002)), 30002}, {of(port(8080, 30003)), 30003}, {of(port(1, 30001), port(2, 30002)), 0}, {of(), 0}, {of(map[string]any{"port": int64(80)}), 0}} {
		if got := nodePort(c.service, 80); got != c.want {
			t.Errorf("%v: %d, want %d", c.service.Object, got, c.want)
		}
	}
}
