package mesh

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/test/difftest"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/test/must"
)

// clusterGateway is a gateway with every field, for clusterMesh.
const clusterGateway = `  gateway:
    protocols: [http1]
    crds: [{name: gateway-api, kinds: [gateways.gateway.networking.k8s.io]}]
    manifests:
    - |
      apiVersion: gateway.networking.k8s.io/v1
      kind: Gateway
      metadata: {name: front, annotations: {type: {{.Gateway.ServiceType}}, to: "{{.Gateway.Service}}:{{.Gateway.Port}}/{{.Gateway.Protocol}}"}}
    workloads: [{kind: Deployment, name: front, scaled: true}]
    conditions: [{group: gateway.networking.k8s.io, version: v1, kind: Gateway, name: front, type: Programmed}]
    service: front
    port: 80
    proxy:
      role: gateway
      in: namespace
      container: small-proxy
      podLabel: {front: "yes"}
      counters: [{proves: l7, port: 9090, path: /metrics, metric: requests_total}]
`

// gated is clusterMesh with a gateway.
func gated() string {
	text := strings.Replace(clusterMesh, "  plaintext:", clusterGateway+"  plaintext:", 1)
	text = strings.Replace(text, `eq .Options.mode "hard"`, `and .Closed (eq .Options.mode "hard")`, 1)
	return strings.Replace(text, "tasks:\n", "tasks:\n- {plane: data, role: gateway, podLabel: {front: \"yes\"}}\n", 1)
}

func TestGateway(t *testing.T) {
	d := must.Get(Decode("m.yaml", []byte(gated())))(t)
	g, err := d.Ingress()
	if err != nil || g == nil {
		t.Fatalf("%+v, %v", g, err)
	} else if d := difftest.Of("g.Service", g.Service, "front", "g.Port", g.Port, 80); d != "" {
		t.Fatalf("%s: %+v, %v", d, g, err)
	}
	if err := g.Carries("tcp"); !errors.Is(err, errors.ErrUnsupported) || g.Carries("http1") != nil {
		t.Errorf("it carries tcp: %v", err)
	}
	way := Way{Front: &Front{Service: "echo", Port: 8080, Protocol: "http1", ServiceType: "NodePort"}}
	e, err := d.Kubernetes.Enrol(Settings{Profile: ProfileHA}, "shop", way)
	if err != nil || len(e.Manifests) != 2 {
		t.Errorf("through the gateway: %+v, %v", e, err)
	} else if d := difftest.Of("strings.Contains(e.Manifests[1], `{type: NodePort, to: \"echo:8080/http1\"}`)", strings.Contains(e.Manifests[1], `{type: NodePort, to: "echo:8080/http1"}`), true, "len(e.Workloads)", len(e.Workloads), 1, "e.Replicas", e.Replicas, 3, "len(e.Conditions)", len(e.Conditions), 1); d != "" {
		t.Errorf("%s: through the gateway: %+v, %v", d, e, err)
	}
	past, err := d.Kubernetes.Enrol(Settings{}, "shop", Way{})
	if err != nil {
		t.Errorf("past the gateway: %+v, %v", past, err)
	} else if d := difftest.Of("len(past.Manifests)", len(past.Manifests), 1, "len(past.Workloads)", len(past.Workloads), 0, "len(past.Conditions)", len(past.Conditions), 0); d != "" {
		t.Errorf("%s: past the gateway: %+v, %v", d, past, err)
	}
	for closed, way := range map[bool]Way{true: way, false: {}} {
		if refuses, err := d.Kubernetes.RefusesPlaintext(Settings{}, "shop", way); err != nil || refuses != closed {
			t.Errorf("plaintext is refused: %v, %v, want %v", refuses, err, closed)
		}
	}
}

func TestBrokenGateways(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"field":          {"    service: front\n", "    servce: front\n", "kubernetes.gateway.servce: unknown field"},
		"no service":     {"    service: front\n", "", "m.yaml:42:3: kubernetes.gateway.service: missing"},
		"port":           {"    port: 80\n", "    port: 0\n", "kubernetes.gateway.port: found 0, expected 1 to 65535"},
		"protocols":      {"    protocols: [http1]\n", "", "kubernetes.gateway.protocols: missing"},
		"elsewhere":      {"in: namespace", "in: mesh", `kubernetes.gateway.proxy.in: found "mesh", expected namespace`},
		"proves nothing": {"counters: [{proves: l7", "counters: [{proves: path", "kubernetes.gateway.proxy.counters: no counter proves l7"},
		"no rule":        {"role: gateway\n      in", "role: gatewy\n      in", `kubernetes.gateway.proxy.role: no rule of tasks attributes "gatewy"`},
		"no type":        {", type: Programmed", "", "kubernetes.gateway.conditions[0].type: missing"},
		"template":       {"{{.Gateway.Port}}", "{{.Gateway.Prt}}", "can't evaluate field Prt"},
		"two":            {"    protocols: [http1]\n", "    none: none of its own\n", "kubernetes.gateway.none: a reason why there is none, and a gateway"},
		"not in a with":  {`data: {inside: "{{.LoadInside}}"}`, `data: {to: "{{.Gateway.Service}}"}`, "nil pointer evaluating *mesh.Front.Service"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := strings.Replace(gated(), c.old, c.new, 1)
			if broken == gated() {
				t.Fatalf("%q is not in the definition", c.old)
			}
			must.Fail(t, must.Err(Decode("m.yaml", []byte(broken))), c.want)
		})
	}
}

// A mesh without a gateway has a reason, and none needs no gateway.
func TestMeshesWithoutGateway(t *testing.T) {
	for name, want := range map[string]string{
		"none": "", "istio": "", "istio-ambient": "", "istio-ambient-l4": "",
		"envoy-gateway": "", "contour": "",
		"linkerd": "no ingress gateway of its own", "consul": "does not make Consul's API gateway", "envoy": "no kubernetes part",
	} {
		d := must.Get(Load(name))(t)
		g, err := d.Ingress()
		if want == "" && (err != nil || (g == nil) != (name == "none")) || want != "" && (!errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, %v, want %q", name, g, err, want)
		}
	}
	if _, err := (Definition{Name: "own", Kubernetes: &Kubernetes{}}).Ingress(); !strings.Contains(hint.Of(err), "add-a-mesh") {
		t.Errorf("a user's definition: %v, hint %q", err, hint.Of(err))
	}
}

// Istio's gateway leads to the entry, by a Service of the type that was asked for, and the policy stays STRICT behind it.
func TestIstioGateway(t *testing.T) {
	for _, name := range []string{"istio", "istio-ambient", "istio-ambient-l4"} {
		d := must.Get(Load(name))(t)
		e := must.Get(d.Kubernetes.Enrol(Settings{}, "shop", Way{Front: &Front{Service: "face", Port: 80, Protocol: "http1", ServiceType: "NodePort"}}))(t)
		all := asJSON(t, e.Manifests...)
		for _, want := range []string{`"mtls":{"mode":"STRICT"}`, `"networking.istio.io/service-type":"NodePort"`, `"backendRefs":[{"name":"face","port":80}]`, `"gatewayClassName":"istio"`} {
			if !strings.Contains(all, want) {
				t.Errorf("%s: %s is not in\n%s", name, want, all)
			}
		}
		if through := e.Namespace.Labels["istio.io/ingress-use-waypoint"]; (through == "true") != (name == "istio-ambient") {
			t.Errorf("%s: the gateway goes past the waypoint: %v", name, e.Namespace)
		}
		pod := Task{Namespace: "shop", Container: "istio-proxy", Labels: map[string]string{"gateway.networking.k8s.io/gateway-class-name": "istio", "gateway.networking.k8s.io/gateway-name": "tare-gateway"}}
		if task := d.Attribute(pod); task.Plane != metric.Data || task.Role != "gateway" || !d.Kubernetes.Gateway.Proxy.Selects(pod.Labels) {
			t.Errorf("%s: its pod is %+v", name, task)
		}
	}
}

// A gateway without sidecars leads to the entry, by a Service of the type that was asked for. Its own counters prove what it
// provides, and nothing in the application's namespace is enrolled.
func TestGatewaysAlone(t *testing.T) {
	for name, types := range map[string]map[string]string{
		"envoy-gateway": {"ClusterIP": `"envoyService":{"externalTrafficPolicy":"Cluster","type":"ClusterIP"}`, "NodePort": `"type":"NodePort"`, "LoadBalancer": `"type":"LoadBalancer"`},
		"contour": {"ClusterIP": `"gatewayClassName":"tare-contour-1"`, "NodePort": `"gatewayClassName":"tare-contour-2","listeners":[{"name":"http","port":32080`,
			"LoadBalancer": `"gatewayClassName":"tare-contour-3"`},
	} {
		d := must.Get(Load(name))(t)
		if !d.OnlyGateway() || !d.Kubernetes.Installable() {
			t.Errorf("%s: only a gateway %v, installable %v", name, d.OnlyGateway(), d.Kubernetes.Installable())
		}
		for kind, want := range types {
			e := must.Get(d.Kubernetes.Enrol(Settings{}, "shop", Way{Front: &Front{Service: "face", Port: 80, Protocol: "http1", ServiceType: kind}}))(t)
			all := asJSON(t, e.Manifests...)
			for _, want := range []string{want, `"backendRefs":[{"name":"face","port":80}]`} {
				if !strings.Contains(all, want) {
					t.Errorf("%s, %s: %s is not in\n%s", name, kind, want, all)
				}
			}
			if len(e.Namespace.Labels)+len(e.Pod.Labels)+len(e.Proof.Labels) > 0 {
				t.Errorf("%s enrols pods: %+v", name, e)
			}
		}
		past := must.Get(d.Kubernetes.Enrol(Settings{}, "shop", Way{LoadInside: true}))(t)
		if len(past.Manifests) > 0 {
			t.Errorf("%s, past the gateway: %v", name, past.Manifests)
		}
		broken := must.Err(Decode("m.yaml", bytes.ReplaceAll(d.Text, []byte("proves: l7"), []byte("proves: path"))))
		must.Fail(t, broken, "kubernetes.proxies: no counter proves l7, which the mesh provides")
	}
	for _, name := range []string{"istio", "none", "envoy"} {
		if d := must.Get(Load(name))(t); d.OnlyGateway() {
			t.Errorf("%s is only a gateway", name)
		}
	}
	d := must.Get(Load("contour"))(t)
	classes := must.Get(d.Kubernetes.Objects(d.Kubernetes.InstallContext(Settings{Profile: ProfileHA})))(t)
	for _, want := range []string{"type: ClusterIPService", "type: NodePortService", "type: LoadBalancerService", "namespace: projectcontour", "replicas: 3"} {
		if !strings.Contains(string(classes[0]), want) {
			t.Errorf("%q is not in\n%s", want, classes[0])
		}
	}
}

// asJSON is the text of manifests as JSON, a line each.
func asJSON(t *testing.T, manifests ...string) string {
	t.Helper()
	var objects []string
	for _, text := range manifests {
		var o any
		must.OK(t, yaml.Unmarshal([]byte(text), &o))
		objects = append(objects, string(must.Get(json.Marshal(o))(t)))
	}
	return strings.Join(objects, "\n")
}

func TestConditions(t *testing.T) {
	programmed := Condition{Type: "Programmed"}
	for text, want := range map[string]string{
		`{}`: "condition Programmed is not reported",
		`{"status": {"conditions": [{"type": "Accepted", "status": "True"}]}}`:                                                             "condition Programmed is not reported",
		`{"status": {"conditions": [{"type": "Programmed", "status": "False", "reason": "AddressNotAssigned", "message": "no address"}]}}`: "Programmed is False: AddressNotAssigned: no address",
		`{"status": {"conditions": [{"type": "Programmed", "status": "Unknown"}]}}`:                                                        "Programmed is Unknown",
		`{"status": {"conditions": [{"type": "Programmed", "status": "True"}]}}`:                                                           "",
		`{"status": {"parents": [{"conditions": [{"type": "Programmed", "status": "True"}]}]}}`:                                            "",
		`{"status": {"parents": [{"conditions": [{"type": "Programmed", "status": "True"}]}, {"conditions": []}]}}`:                        "condition Programmed is not reported",
		`{"status": {"parents": []}}`:                          "condition Programmed is not reported",
		`{"status": {"parents": ["x"], "conditions": "none"}}`: "condition Programmed is not reported",
	} {
		var o map[string]any
		must.OK(t, json.Unmarshal([]byte(text), &o))
		if ok, state := programmed.Holds(o); ok != (want == "") || !ok && state != want {
			t.Errorf("%s: %v, %q, want %q", text, ok, state, want)
		}
	}
}
