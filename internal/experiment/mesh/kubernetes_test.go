package mesh

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// clusterMesh is a definition with every field of the part for clusters.
const clusterMesh = `name: small
description: small
provides: {mtls: true, l7: true}
kubernetes:
  version: 1.2.3
  namespace: small-system
  options:
    mode: {doc: a mode, default: hard, oneOf: [hard, soft]}
  crds:
  - name: gateway-api
    kinds: [gateways.gateway.networking.k8s.io]
    files: [{url: "https://example.test/gateways.yaml", sha256: ab00000000000000000000000000000000000000000000000000000000000000}]
  charts:
  - release: small
    chart: small
    repository: https://example.test/charts
    values: |
      replicas: {{.Replicas}}
      networks: {{json .ClusterNetworks}}
      deep: {under: 1, both: 1}
  profiles:
    dev: {replicas: 1}
    ha: {replicas: 3, nodes: 3, values: {small: "deep: {over: {{.Replicas}}, both: 2}"}}
  workloads: [{kind: Deployment, name: small, scaled: true}]
  enrolment:
    namespace: {labels: {small/inject: "{{.Options.mode}}"}, annotations: {small/empty: ""}}
    exempt: {labels: {small/inject: none}}
    manifests:
    - |
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: small}
      data: {inside: "{{.LoadInside}}"}
    proof: {annotations: {small/in: "yes"}}
  proxies:
  - role: sidecar
    in: pod
    container: small-proxy
    counters:
    - {proves: l7, port: 9090, path: /metrics, metric: requests_total}
    - {proves: mtls, port: 9090, path: /metrics, metric: requests_total, labels: {tls: "true"}}
  plaintext: {refused: '{{eq .Options.mode "hard"}}'}
  leftovers: [{kind: ClusterRole, group: rbac.authorization.k8s.io, name: "small-*"}]
tasks:
- {plane: data, role: sidecar, container: small-proxy}
`

func TestKubernetesDefinition(t *testing.T) {
	d := must.Get(Decode("m.yaml", []byte(clusterMesh)))(t)
	k := *d.Kubernetes
	s, err := k.Complete(Settings{Profile: ProfileHA, Values: map[string]map[string]any{"small": {"deep": map[string]any{"user": true}}}})
	if err != nil || s.Version != "1.2.3" || s.Options["mode"] != "hard" {
		t.Fatalf("settings are %+v, %v", s, err)
	}
	ctx := k.InstallContext(s)
	ctx.ClusterNetworks = []string{"10.0.0.0/8"}
	all, err := k.Releases(s, ctx)
	if err != nil || len(all) != 1 {
		t.Fatalf("releases are %+v, %v", all, err)
	} else if d := difftest.Of("all[0].Version", all[0].Version, "1.2.3", "all[0].Namespace", all[0].Namespace, "small-system"); d != "" {
		t.Fatalf("%s: releases are %+v, %v", d, all, err)
	}
	got, _ := json.Marshal(all[0].Values)
	if want := `{"deep":{"both":2,"over":3,"under":1,"user":true},"networks":["10.0.0.0/8"],"replicas":3}`; string(got) != want {
		t.Errorf("values are %s, want %s", got, want)
	}
	for _, inside := range []bool{true, false} {
		e, err := k.Enrol(Settings{Options: map[string]string{"mode": "soft"}}, "shop", Way{LoadInside: inside})
		if err != nil || !maps.Equal(e.Namespace.Labels, map[string]string{"small/inject": "soft"}) || len(e.Namespace.Annotations) != 0 || e.Replicas != 1 ||
			e.Exempt.Labels["small/inject"] != "none" || e.Proof.Annotations["small/in"] != "yes" || len(e.Manifests) != 1 {
			t.Fatalf("enrolment is %+v, %v", e, err)
		}
		if want := map[bool]string{true: `inside: "true"`, false: `inside: "false"`}[inside]; !strings.Contains(e.Manifests[0], want) {
			t.Errorf("manifest is %s, want %s in it", e.Manifests[0], want)
		}
		refuses, err := k.RefusesPlaintext(Settings{}, "shop", Way{LoadInside: inside})
		if err != nil || !refuses {
			t.Errorf("plaintext is not refused: %v", err)
		}
	}
}

func TestSettingsThatAreNotOffered(t *testing.T) {
	d := must.Get(Decode("m.yaml", []byte(clusterMesh)))(t)
	for want, s := range map[string]Settings{
		`there is no profile "huge" | profiles: dev, ha`:              {Profile: "huge"},
		`there is no option "mood" | options: mode`:                   {Options: map[string]string{"mood": "x"}},
		`option mode: found "x" | expected hard, soft`:                {Options: map[string]string{"mode": "x"}},
		`this mesh has no release "big" for values | releases: small`: {Values: map[string]map[string]any{"big": {}}},
	} {
		_, err := d.Kubernetes.Complete(s)
		if err == nil || err.Error()+" | "+hint.Of(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestBrokenKubernetesDefinitions(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"version":          {"  version: 1.2.3\n", "", "m.yaml:4:1: kubernetes.version: missing"},
		"field":            {"namespace: small-system", "namespce: small-system", "m.yaml:6:3: kubernetes.namespce: unknown field"},
		"default":          {"default: hard", "default: x", `m.yaml:8:34: kubernetes.options.mode.default: found "x", expected hard, soft`},
		"sum":              {"sha256: ab00", "sha256: ab0", "kubernetes.crds[0].files[0].sha256: found"},
		"plain http":       {`"https://example.test/gateways`, `"http://example.test/gateways`, `kubernetes.crds[0].files[0].url: found "http://`},
		"two places":       {"chart: small\n", "chart: oci://example.test/small\n", "kubernetes.charts[0].repository: the chart is in a registry"},
		"value's template": {"{{.Replicas}}\n", "{{.Replica}}\n", "m.yaml:18:19: kubernetes.charts[0].values: invalid template: <.Replica>: can't evaluate field Replica"},
		"values no YAML":   {"deep: {under: 1, both: 1}", "deep: [", "kubernetes.charts[0].values: not a YAML mapping after rendering"},
		"unknown option":   {"{{.Options.mode}}", "{{.Options.mod}}", `map has no entry for key "mod"`},
		"profile":          {"    ha: {", "    high: {", `m.yaml:23:11: kubernetes.profiles.high: found "high", expected dev, ha`},
		"no such release":  {"values: {small:", "values: {smal:", `kubernetes.profiles.ha.values.smal: there is no release "smal"`},
		"no object":        {"      kind: ConfigMap\n", "", "kubernetes.enrolment.manifests[0]: its rendered text is not a Kubernetes object"},
		"workload":         {"kind: Deployment", "kind: Deploymnt", `kubernetes.workloads[0].kind: found "Deploymnt", expected Deployment, StatefulSet, DaemonSet`},
		"proves nothing":   {"proves: mtls", "proves: l7", "kubernetes.proxies: no counter proves mtls, which the mesh provides"},
		"no rule":          {"- role: sidecar", "- role: waypoint", `kubernetes.proxies[0].role: no rule of tasks attributes "waypoint"`},
		"port":             {"port: 9090", "port: 0", "kubernetes.proxies[0].counters[0].port: found 0, expected 1 to 65535"},
		"direction":        {"{proves: mtls,", "{proves: mtls, direction: up,", `kubernetes.proxies[0].counters[1].direction: found "up", expected inbound, outbound`},
		"everything goes":  {`, name: "small-*"`, "", "kubernetes.leftovers[0]: matches every ClusterRole"},
		"star inside":      {`name: "small-*"`, `name: "small-*-x"`, "kubernetes.leftovers[0].name: found"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := strings.Replace(clusterMesh, c.old, c.new, 1)
			if broken == clusterMesh {
				t.Fatalf("%q is not in the definition", c.old)
			}
			_, err := Decode("m.yaml", []byte(broken))
			var problems strict.Problems
			if !errors.As(err, &problems) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// Embedded definitions render in every profile, and with every value of every option.
func TestShippedDefinitionsRender(t *testing.T) {
	seen := 0
	for _, d := range Builtin() {
		if d.Kubernetes == nil {
			continue
		}
		seen++
		k := *d.Kubernetes
		for _, profile := range slices.Sorted(maps.Keys(k.Profiles)) {
			for name, o := range k.Options {
				for _, value := range append(o.OneOf, o.Default) {
					s, err := k.Complete(Settings{Profile: profile, Hub: "registry.test/mesh", Options: map[string]string{name: value}})
					if err != nil {
						t.Fatalf("%s: %v", d.Name, err)
					}
					if _, err := k.Releases(s, k.InstallContext(s)); err != nil {
						t.Errorf("%s %s %s=%s: %v", d.Name, profile, name, value, err)
					}
					if _, err := k.Enrol(s, "shop", Way{LoadInside: true}); err != nil {
						t.Errorf("%s %s %s=%s: %v", d.Name, profile, name, value, err)
					}
				}
			}
		}
	}
	if seen < 7 {
		t.Errorf("%d definitions for clusters, want 7 or more", seen)
	}
}

// A sidecar's STRICT goes with a load inside of the mesh only.
func TestIstioEnrolment(t *testing.T) {
	for _, name := range []string{"istio", "istio-ambient", "istio-ambient-l4"} {
		d := must.Get(Load(name))(t)
		for inside, want := range map[bool]string{true: "STRICT", false: "PERMISSIVE"} {
			e := must.Get(d.Kubernetes.Enrol(Settings{}, "shop", Way{LoadInside: inside}))(t)
			var policy struct {
				Spec struct{ MTLS struct{ Mode string } }
			}
			if err := yaml.Unmarshal([]byte(e.Manifests[0]), &policy); err != nil || policy.Spec.MTLS.Mode != want {
				t.Errorf("%s, load inside %v: %+v, %v, want %s", name, inside, policy, err, want)
			}
			refused, err := d.Kubernetes.RefusesPlaintext(Settings{}, "shop", Way{LoadInside: inside})
			if err != nil || refused != inside {
				t.Errorf("%s, load inside %v: plaintext refused %v, %v", name, inside, refused, err)
			}
		}
	}
	d, _ := Load("istio-ambient")
	e, err := d.Kubernetes.Enrol(Settings{Profile: ProfileHA}, "shop", Way{LoadInside: true})
	if err != nil || e.Replicas != 3 || len(e.Workloads) != 1 {
		t.Errorf("the waypoint of ha: %+v, %v", e, err)
	} else if d := difftest.Of("e.Workloads[0]", e.Workloads[0], (Workload{"Deployment", "waypoint", true}), "len(e.Manifests)", len(e.Manifests), 2); d != "" {
		t.Errorf("%s: the waypoint of ha: %+v, %v", d, e, err)
	}
}

// With an upstream Envoy, a waypoint loses the filters that only Istio's Envoy has, before it is created. With Istio's
// Envoy it is unchanged.
func TestStockWaypoint(t *testing.T) {
	d := must.Get(Load("istio-ambient"))(t)
	for envoy, want := range map[string][]string{"istio": {"PeerAuthentication", "Gateway"}, "stock": {"PeerAuthentication", "EnvoyFilter", "Gateway"}} {
		e := must.Get(d.Kubernetes.Enrol(Settings{Options: map[string]string{"envoy": envoy}}, "shop", Way{LoadInside: true}))(t)
		var kinds []string
		for _, text := range e.Manifests {
			var o struct {
				Kind string
				Spec struct {
					TargetRefs    []struct{ Name string } `yaml:"targetRefs"`
					ConfigPatches []struct {
						ApplyTo string `yaml:"applyTo"`
					} `yaml:"configPatches"`
				}
			}
			must.OK(t, yaml.Unmarshal([]byte(text), &o))
			kinds = append(kinds, o.Kind)
			if o.Kind == "EnvoyFilter" && (len(o.Spec.ConfigPatches) != 3 || len(o.Spec.TargetRefs) != 1 || o.Spec.TargetRefs[0].Name != "waypoint") {
				t.Errorf("the filter is %+v", o)
			}
		}
		if !slices.Equal(kinds, want) {
			t.Errorf("envoy %s: %v, want %v", envoy, kinds, want)
		}
	}
	for distribution, want := range map[string]string{"": "/etc/cni/net.d /opt/cni/bin", "k3d": "/var/lib/rancher/k3s/agent/etc/cni/net.d /bin", "gke": "/etc/cni/net.d /home/kubernetes/bin"} {
		var dirs []string
		for _, f := range d.Kubernetes.NodeFiles {
			dir, err := f.In(InstallContext{Distribution: distribution, Options: defaults(d.Kubernetes.Options)})
			if err != nil || f.Holding != "istio-cni" {
				t.Errorf("%+v: %v", f, err)
			}
			dirs = append(dirs, dir)
		}
		if got := strings.Join(dirs, " "); got != want {
			t.Errorf("on nodes of %q it looks at %s, want %s", distribution, got, want)
		}
	}
}

func TestWhereMeshesRun(t *testing.T) {
	for name, want := range map[string]string{"none": "local kubernetes", "envoy": "local", "istio": "kubernetes", "consul": "local kubernetes", "istio-ambient": "kubernetes"} {
		d := must.Get(Load(name))(t)
		var on []string
		for _, platform := range []string{OnLocal, OnKubernetes} {
			err := d.On(platform)
			switch {
			case err == nil:
				on = append(on, platform)
			case !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(hint.Of(err), want):
				t.Errorf("%s on %s: %v", name, platform, err)
			}
		}
		if got := strings.Join(on, " "); got != want {
			t.Errorf("%s runs on %s, want %s", name, got, want)
		}
	}
}

// pod is one that a real mesh made: a chain of services in namespace shop, one outside in plain.
type pod struct {
	Namespace  string
	Pod        string
	Labels     map[string]string
	Containers []string // native sidecars first
}

func recorded(t *testing.T) map[string][]pod {
	t.Helper()
	pods := map[string][]pod{}
	must.OK(t, json.Unmarshal(must.Get(os.ReadFile("testdata/pods.json"))(t), &pods))
	return pods
}

// tasks are the containers of the pods, as the platform lists them.
func (p pod) tasks() []Task {
	labels := maps.Clone(p.Labels)
	if p.Namespace == "shop" && labels["gateway.networking.k8s.io/gateway-name"] == "" || p.Namespace == "plain" {
		labels["app.kubernetes.io/managed-by"] = "tare"
	}
	service := labels["app"]
	if service == "client" {
		service = "load"
	}
	var all []Task
	for _, c := range p.Containers {
		all = append(all, Task{ID: p.Pod + "/" + c, Namespace: p.Namespace, Pod: p.Pod, Service: service, Container: c, Labels: labels})
	}
	return all
}

func TestAttributePodsOfRealMeshes(t *testing.T) {
	want := map[string]map[string]string{
		"consul": {
			"consul-server-/consul": "control/server", "consul-connect-injector-/sidecar-injector": "control/server",
			"consul-webhook-cert-manager-/webhook-cert-manager": "control/server", "coredns-/coredns": "platform/dns",
			"load-/consul-dataplane": "data/sidecar/load", "front-/consul-dataplane": "data/sidecar", "back-/app": "app/",
		},
		"contour": {
			"contour-gateway-provisioner-/contour-gateway-provisioner": "control/server", "contour-tare-gateway-/contour": "control/server",
			"envoy-tare-gateway-/envoy": "data/gateway", "envoy-tare-gateway-/shutdown-manager": "data/gateway", "nginx-/app": "app/",
		},
		"envoy-gateway": {
			"envoy-gateway-/envoy-gateway": "control/server", "tare-gateway-/envoy": "data/gateway", "tare-gateway-/shutdown-manager": "data/gateway", "nginx-/app": "app/",
		},
		"istio": {
			"istiod-/discovery": "control/server", "coredns-/coredns": "platform/dns", "metrics-server-/metrics-server": "platform/",
			"client-/app": "app/", "client-/istio-proxy": "data/sidecar/load", "front-/istio-proxy": "data/sidecar", "back-/app": "app/", "echo-/istio-proxy": "data/sidecar",
		},
		"istio-ambient": {
			"istiod-/discovery": "control/server", "istio-cni-node-/install-cni": "control/node-agent", "ztunnel-/istio-proxy": "data/node-proxy",
			"waypoint-/istio-proxy": "data/waypoint", "front-/app": "app/", "coredns-/coredns": "platform/dns",
		},
		"linkerd": {
			"linkerd-destination-/policy": "control/server", "linkerd-destination-/linkerd-proxy": "control/embedded-proxy",
			"linkerd-identity-/linkerd-proxy": "control/embedded-proxy", "linkerd-identity-/identity": "control/server",
			"linkerd-proxy-injector-/proxy-injector": "control/server",
			"client-/linkerd-proxy":                  "data/sidecar/load", "front-/linkerd-proxy": "data/sidecar", "front-/app": "app/",
		},
	}
	pods := recorded(t)
	for name, expected := range want {
		d := must.Get(Load(name))(t)
		found := map[string]bool{}
		for _, p := range pods[name] {
			for _, task := range p.tasks() {
				got := d.Attribute(task)
				if got.Plane == metric.Unattributed {
					t.Errorf("%s: %s is unattributed", name, task.ID)
				}
				for start, planeRole := range expected {
					prefix, container, _ := strings.Cut(start, "/")
					if !strings.HasPrefix(p.Pod, prefix) || task.Container != container {
						continue
					}
					found[start] = true
					if s := strings.TrimSuffix(string(got.Plane)+"/"+got.Role+"/"+got.Component, "/"); s != planeRole {
						t.Errorf("%s: %s is %s, want %s", name, task.ID, s, planeRole)
					}
				}
			}
		}
		if len(found) != len(expected) {
			t.Errorf("%s: %d of %d expected tasks are recorded", name, len(found), len(expected))
		}
	}
}

// The debate's classification of the pods of real meshes, including its known oddities.
func TestDebatesAttribution(t *testing.T) {
	a := must.Get(LoadAttribution("../../study/debate/attribution.yaml", nil))(t)
	want := map[string]metric.Plane{
		"istio/istiod-/discovery": metric.Control, "istio/front-/istio-proxy": metric.Data, "istio/coredns-/coredns": metric.Platform,
		"istio/client-/app": metric.Load, "istio/client-/istio-proxy": metric.Data, "istio/front-/app": metric.App,
		"istio-ambient/ztunnel-/istio-proxy": metric.Data, "istio-ambient/waypoint-/istio-proxy": metric.Data,
		"istio-ambient/istio-cni-node-/install-cni":  metric.Control,
		"linkerd/linkerd-destination-/linkerd-proxy": metric.Control, "linkerd/linkerd-destination-/policy": metric.Control,
		"linkerd/front-/linkerd-proxy": metric.Data, "linkerd/echo-/app": metric.App,
	}
	seen := map[string]bool{}
	for name, pods := range recorded(t) {
		for _, p := range pods {
			for _, task := range p.tasks() {
				if task.Namespace == "shop" {
					task.Namespace = "faces"
				}
				got := a.Attribute(task)
				for key, plane := range want {
					parts := strings.Split(key, "/")
					if parts[0] != name || !strings.HasPrefix(p.Pod, parts[1]) || parts[2] != task.Container || p.Namespace == "plain" {
						continue
					}
					seen[key] = true
					if got.Plane != plane {
						t.Errorf("%s is %s, want %s", key, got.Plane, plane)
					}
				}
			}
		}
	}
	if len(seen) != len(want) {
		t.Errorf("%d of %d expected tasks are recorded", len(seen), len(want))
	}
	local := Task{Pod: "echo-0", Container: "app", Plane: metric.App}
	if got := a.Attribute(local); got.Plane != metric.App {
		t.Errorf("a task of this machine became %s", got.Plane)
	}
	if _, err := LoadAttribution("mine", []Attribution{a}); err == nil {
		t.Error("an unknown classification is accepted")
	}
}

// The excluded series of a counter, and its direction.
func TestCounterOfSeries(t *testing.T) {
	c := Counter{Labels: map[string]string{"direction": "in*"}, Except: map[string]string{"port": "4191", "route": "probe*"}}
	for want, labels := range map[string]map[string]string{
		"true": {"direction": "inbound", "port": "4191", "route": "default"}, "true ": {"direction": "inbound"},
		"false": {"direction": "inbound", "port": "4191", "route": "probes"}, "false ": {"direction": "outbound"},
	} {
		if got := c.Counts(labels); got != (strings.TrimSpace(want) == "true") {
			t.Errorf("%v: counted %v", labels, got)
		}
	}
	if c.Way() != WayIn || (Counter{Direction: WayOut}).Way() != WayOut {
		t.Error("the direction is not inbound by default")
	}
}

// Charts get the cluster's domain where it is known. Linkerd's certificates keep their own.
func TestClusterDomain(t *testing.T) {
	for name, want := range map[string]string{
		"istio":            `"proxy":{"clusterDomain":"example.internal"}`,
		"istio-ambient":    `"proxy":{"clusterDomain":"example.internal"}`,
		"istio-ambient-l4": `"proxy":{"clusterDomain":"example.internal"}`,
		"linkerd":          `"clusterDomain":"example.internal"`,
	} {
		d := must.Get(Load(name))(t)
		s := must.Get(d.Kubernetes.Complete(Settings{}))(t)
		in := d.Kubernetes.InstallContext(s)
		for domain, has := range map[string]bool{"": false, "example.internal": true} {
			in.ClusterDomain = domain
			all := must.Get(d.Kubernetes.Releases(s, in))(t)
			text := must.Get(json.Marshal(all))(t)
			if strings.Contains(string(text), want) != has || strings.Contains(string(text), `"identityTrustDomain":"cluster.local"`) != (has && name == "linkerd") {
				t.Errorf("%s, domain %q: %s", name, domain, text)
			}
		}
	}
}
