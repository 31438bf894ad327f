package experiment_test

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// withMeshes has every definition, and both platforms.
func withMeshes() experiment.Names {
	k := shipped()
	k.Platforms = []string{mesh.OnLocal, mesh.OnKubernetes}
	k.Protocols = app.Protocols()
	k.Versions = map[string][]string{"envoy": {"1.40.0", "1.39.3"}}
	k.Definitions = map[string]mesh.Definition{}
	for _, d := range mesh.Builtin() {
		k.Definitions[d.Name] = d
	}
	return k
}

func TestMeshOptions(t *testing.T) {
	text := header + `platform: {kind: kubernetes}
factors: {mesh: [none, istio, linkerd]}
meshes:
  istio:
    version: 1.31.0
    profile: ha
    charts: ./charts
    options: {envoy: stock}
    values: {istiod: {global: {proxy: {image: "localhost/istio-proxyv2:1"}}}}
`
	e := must.Get(experiment.Parse("x.yaml", []byte(text), withMeshes()))(t)
	s := e.Meshes["istio"].Settings()
	if s.Values["istiod"]["global"] == nil {
		t.Errorf("got %+v", e.Meshes)
	} else if d := difftest.Of("s.Version", s.Version, "1.31.0", "s.Profile", s.Profile, "ha", `s.Options["envoy"]`, s.Options["envoy"], "stock"); d != "" {
		t.Errorf("%s: got %+v", d, e.Meshes)
	}
	sameAfterRendering(t, e, withMeshes())
}

// meshesOn lists the built-in meshes that have a part for a platform.
func meshesOn(platform string) string {
	var names []string
	for _, d := range mesh.Builtin() {
		if platform == mesh.OnLocal && d.Local != nil || platform == mesh.OnKubernetes && d.Kubernetes != nil {
			names = append(names, d.Name)
		}
	}
	return strings.Join(names, ", ")
}

func TestMeshesThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a cluster's mesh here": {"factors: {mesh: [none, istio]}\n",
			"x.yaml:4:24: factors.mesh[1]: mesh istio: unsupported operation on platform local: its definition has no local part\n  hint: it runs on platform kubernetes; write platform: {kind: kubernetes}, or remove it; meshes of platform local: " + meshesOn(mesh.OnLocal) + "\n"},
		"this machine's mesh there": {"platform: {kind: kubernetes}\nfactors: {mesh: [none, envoy]}\n",
			"x.yaml:5:24: factors.mesh[1]: mesh envoy: unsupported operation on platform kubernetes: its definition has no kubernetes part\n  hint: it runs on platform local; write platform: {kind: local}, or remove it; meshes of platform kubernetes: " + meshesOn(mesh.OnKubernetes) + "\n"},
		"connections through HTTP": {"application: {services: [{name: a, protocol: tcp}]}\nfactors: {mesh: [none, envoy-tcp, envoy]}\n",
			"x.yaml:5:35: factors.mesh[2]: service a uses tcp, and envoy forwards only HTTP\n  hint: use a mesh that forwards connections, such as envoy-tcp\n"},
		"connections by a factor": {"factors: {mesh: [consul, reference, none], protocol: [http1, tcp]}\n",
			"x.yaml:4:26: factors.mesh[1]: service echo uses tcp, and reference forwards only http1, websocket\n  hint: use a mesh that forwards connections, such as envoy-tcp\n"},
		"options here": {"factors: {mesh: [none, consul]}\nmeshes: {consul: {profile: dev}}\n",
			"x.yaml:5:28: meshes.consul.profile: it applies to clusters, and the platform is local\n  hint: remove it, or write platform: {kind: kubernetes}\n"},
		"option": {"platform: {kind: kubernetes}\nfactors: {mesh: [none, istio]}\nmeshes: {istio: {options: {mtl: STRICT}}}\n",
			"x.yaml:6:17: meshes.istio: there is no option \"mtl\"\n  hint: options: accessLog, envoy, imagePullPolicy, mtls, nativeSidecars, policies, services, telemetry\n"},
		"no such mesh": {"platform: {kind: kubernetes}\nfactors: {mesh: [none, istio]}\nmeshes: {istoi: {profile: dev}}\n",
			"x.yaml:6:17: meshes.istoi: unknown mesh \"istoi\"\n  hint: did you mean istio?\n"},
		"arguments": {"platform: {kind: kubernetes}\nfactors: {mesh: [none, istio]}\nmeshes: {istio: {arguments: [-x]}}\n",
			"x.yaml:6:29: meshes.istio.arguments: it applies to platform local\n  hint: remove it, or write options or values\n"},
	} {
		_, err := experiment.Parse("x.yaml", []byte(header+c.text), withMeshes())
		if got := printed(err); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: got\n%swant\n%s", name, got, c.want)
		}
	}
}

// On a cluster the objects of a mesh decide. Kubernetes alone has endpoints, pods and the application's own version.
func TestMeshesThatCannotChangeOnClusters(t *testing.T) {
	_, err := experiment.Parse("bad.yaml", []byte(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: t}
platform: {kind: kubernetes}
factors: {mesh: [istio, none], replicas: [2]}
phases: {measure: 40s}
changes: {every: 1s, kinds: [weight-shifted, certificate-renewed, control-restarted, proxy-restarted]}
`), withMeshes())
	got := printed(err)
	for _, want := range []string{
		"bad.yaml:7:30: changes.kinds[0]: mesh none cannot make weight-shifted: it has no proxy",
		"none can make: route-changed, endpoint-removed, endpoint-added, proxy-restarted, version-changed; meshes that can make weight-shifted: istio",
		"changes.kinds[1]: mesh istio cannot make certificate-renewed: its definition has no object for it in kubernetes.changes",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the error lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "make proxy-restarted: its") || strings.Contains(got, "istio cannot make weight-shifted") {
		t.Errorf("the error has a kind that the mesh can make:\n%s", got)
	}
}

// A version change moves to a variant of the same mesh, with the same objects in the namespace of the application.
func TestTargetOfVersionChange(t *testing.T) {
	for to, want := range map[string]string{
		"istio-next": "",
		"istio":      "",
		"istio-nex":  `changes.to: unknown mesh "istio-nex"` + "\n  hint: did you mean istio-next?",
		"linkerd":    "changes.to: linkerd is no variant of mesh istio-old\n  hint: write a variant of it: meshes: {NAME: {from: istio, version: VERSION}}",
		"istio-lax":  "changes.to: mesh istio-lax needs other objects or annotations in the namespace of the application than istio-old\n  hint: give both the same options and resources, but for those of the control plane",
	} {
		_, err := experiment.Parse("bad.yaml", []byte(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: t}
platform: {kind: kubernetes}
factors: {mesh: [none, istio-old], replicas: [2]}
meshes:
  istio-old: {from: istio, version: 1.30.0}
  istio-next: {from: istio, version: 1.31.0, options: {accessLog: "true"}}
  istio-lax: {from: istio, options: {mtls: PERMISSIVE}}
phases: {measure: 90s}
changes: {every: 30s, count: 1, kinds: [version-changed], to: `+to+`}
`), withMeshes())
		if want == "" {
			must.OK(t, err)
		} else if got := strings.TrimSpace(printed(err)); got != "bad.yaml:11:63: "+want {
			t.Errorf("to %s: got\n%s\nwant\n%s", to, got, want)
		}
	}
	_, err := experiment.Parse("bad.yaml", []byte(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: t}
platform: {kind: kubernetes}
factors: {mesh: [istio], replicas: [2]}
changes: {every: 1s, kinds: [proxy-restarted], to: istio}
phases: {measure: 40s}
`), withMeshes())
	const want = "changes.to: no kind of change moves the application to another version\n  hint: remove it, or write kinds: [version-changed]"
	if got := printed(err); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// No mesh is the baseline of restarts, on every platform. Alone it restarts nothing, but for pods of a cluster.
func TestRestartsWithoutMesh(t *testing.T) {
	for platform, mesh := range map[string]string{"local": "envoy-xds", "kubernetes": "istio"} {
		for _, meshes := range []string{"none, " + mesh, "none"} {
			_, err := experiment.Parse("bad.yaml", []byte(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: t}
platform: {kind: `+platform+`}
factors: {mesh: [`+meshes+`]}
phases: {measure: 40s}
changes: {every: 1s, kinds: [control-restarted, proxy-restarted]}
`), withMeshes())
			want := ""
			if meshes == "none" {
				want = "bad.yaml:7:30: changes.kinds[0]: control-restarted restarts nothing without a mesh\n  hint: add a mesh to factors.mesh\n"
				if platform == "local" {
					want += "bad.yaml:7:49: changes.kinds[1]: proxy-restarted restarts nothing without a mesh\n  hint: add a mesh to factors.mesh\n"
				}
			}
			got := ""
			if err != nil {
				got = printed(err)
			}
			if got != want {
				t.Errorf("%s, %s: got\n%s\nwant\n%s", platform, meshes, got, want)
			}
		}
	}
}

// A mesh without a part of the background is named before the run, here and on a cluster. Without a mesh there is nothing to name.
func TestMeshesWithoutBackground(t *testing.T) {
	for text, want := range map[string]string{
		"factors: {mesh: [none, istio]}\nplatform: {kind: kubernetes}\nbackground: {services: 10, proxies: 5}\n":         "",
		"factors: {mesh: [none, linkerd]}\nplatform: {kind: kubernetes}\nbackground: {services: 10}\n":                   "",
		"factors: {mesh: [none, envoy-xds]}\nbackground: {services: 10, proxies: 5}\n":                                   "",
		"factors: {mesh: [istio, linkerd]}\nplatform: {kind: kubernetes}\nbackground: {services: 10, proxies: 5}\n":      "bad.yaml:6:37: background.proxies: mesh linkerd has none: unsupported operation: its definition has no address in kubernetes.background.proxies\n  hint: of tare's meshes istio has it\n",
		"factors: {mesh: [linkerd], backgroundProxies: [5]}\nplatform: {kind: kubernetes}\nbackground: {services: 10}\n": "bad.yaml:4:47: factors.backgroundProxies: mesh linkerd has none: unsupported operation: its definition has no address in kubernetes.background.proxies\n  hint: of tare's meshes istio has it\n",
		"factors: {mesh: [nginx]}\nbackground: {services: 10, proxies: 5}\n":                                             "bad.yaml:5:24: background.services: mesh nginx has none: unsupported operation: its definition has no requests in local.background\n  hint: of tare's meshes envoy-xds has it\n",
	} {
		_, err := experiment.Parse("bad.yaml", []byte("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\n"+text), withMeshes())
		got := ""
		if err != nil {
			got = printed(err)
		}
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", text, got, want)
		}
	}
}

// A mesh that cannot make a kind of change is named before the run, with the kinds that it can and the meshes that can.
func TestMeshesThatCannotChange(t *testing.T) {
	_, err := experiment.Parse("bad.yaml", []byte(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: t}
factors: {mesh: [envoy-xds, nginx]}
phases: {measure: 40s}
changes: {every: 1s, kinds: [route-changed, control-stopped, weight-shifted]}
`), withMeshes())
	got := printed(err)
	for _, want := range []string{
		"bad.yaml:6:45: changes.kinds[1]: mesh nginx cannot make control-stopped: it has no control plane",
		"bad.yaml:6:62: changes.kinds[2]: mesh nginx cannot make weight-shifted: its definition has no request for it in local.changes",
		"nginx can make: route-changed, endpoint-removed, endpoint-added, proxy-restarted; meshes that can make weight-shifted: consul, envoy-xds",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the error lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "envoy-xds cannot") || strings.Contains(got, "route-changed:") {
		t.Errorf("the error has a kind that the mesh can make:\n%s", got)
	}
	_, err = experiment.Parse("bad.yaml", []byte(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: t}
factors: {mesh: [envoy-xds, consul]}
phases: {measure: 40s}
changes: {every: 1s, kinds: [route-changed, weight-shifted]}
`), withMeshes())
	if got, want := printed(err), "bad.yaml:6:45: changes.kinds[1]: mesh consul cannot make weight-shifted beside route-changed\n  hint: compare them in two experiments\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	_, err = experiment.Parse("bad.yaml", []byte(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: t}
factors: {mesh: [consul]}
phases: {measure: 200s}
changes: {every: 61s, count: 2, kinds: [certificate-renewed]}
`), withMeshes())
	if got, want := printed(err), "bad.yaml:6:18: changes.every: certificate-renewed needs 1m2s or more with mesh consul\n  hint: write every: 1m2s\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
