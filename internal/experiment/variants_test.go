package experiment_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func variantsOf(t *testing.T, text string) *experiment.Experiment {
	t.Helper()
	e := must.Get(experiment.Parse("/files/x.yaml", []byte(header+text), withMeshes()))(t)
	return e
}

func TestVariantsHere(t *testing.T) {
	e := variantsOf(t, `factors: {mesh: [none, envoy, envoy-log, envoy-new]}
meshes:
  envoy-log: {from: envoy, options: {accessLog: true}, concurrency: 2, arguments: [--x, "{{.Pod}}"], environment: {A: "1"}}
  envoy-new: {from: envoy-log, program: ./envoy, environment: {B: "2"}}
`)
	sameAfterRendering(t, e, withMeshes())
	d := must.Get(e.Definition("envoy-new", withMeshes().Definitions))(t)
	s := d.Local.Sidecar
	if differ := difftest.Of("d.Name", d.Name, "envoy-new", "d.From", d.From, "envoy", "s.Path", s.Path, "./envoy", "s.Concurrency", s.Concurrency, 2, `reflect.DeepEqual(s.Environment, map[string]string{"A": "1", "B": "2"})`, reflect.DeepEqual(s.Environment, map[string]string{"A": "1", "B": "2"}), true); differ != "" {
		t.Errorf("%s: got %s from %s: %+v", differ, d.Name, d.From, s)
	}
	args, config, err := s.Render(mesh.SidecarContext{Pod: "echo-0", Inbound: &mesh.Inbound{}})
	must.OK(t, err)
	if want := []string{"--x", "{{.Pod}}"}; !slices.Equal(args[len(args)-2:], want) {
		t.Errorf("arguments %q, want %q at the end", args, want)
	}
	must.Contain(t, string(config), "FileAccessLog")
	// The definition itself is unchanged.
	base := must.Get(e.Definition("envoy", withMeshes().Definitions))(t)
	if _, config, err = base.Local.Sidecar.Render(mesh.SidecarContext{Pod: "echo-0", Inbound: &mesh.Inbound{}}); err != nil || strings.Contains(string(config), "FileAccessLog") || base.Local.Sidecar.Path != "" {
		t.Errorf("envoy: %v, %+v", err, base.Local.Sidecar)
	}
	if got, want := e.Variant("envoy-log"), "envoy with concurrency=2, options.accessLog=true, environment.A=1, arguments=--x {{.Pod}}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestVariantsOnClusters(t *testing.T) {
	e := variantsOf(t, `platform: {kind: kubernetes}
factors: {mesh: [none, istio, istio-1.29]}
meshes:
  istio: {charts: ./charts, options: {envoy: stock}, values: {istiod: {a: {b: 1, c: 2}}}}
  istio-1.29: {from: istio, version: 1.29.2, values: {istiod: {a: {b: 3}}}}
`)
	s := e.MeshSettings("istio-1.29")
	want := map[string]map[string]any{"istiod": {"a": map[string]any{"b": 3, "c": 2}}}
	if !reflect.DeepEqual(s.Values, want) {
		t.Errorf("got %+v", s)
	} else if d := difftest.Of("s.Version", s.Version, "1.29.2", "s.Charts", s.Charts, "./charts", `s.Options["envoy"]`, s.Options["envoy"], "stock"); d != "" {
		t.Errorf("%s: got %+v", d, s)
	}
	if s := e.MeshSettings("istio"); s.Version != "" || !reflect.DeepEqual(s.Values["istiod"]["a"], map[string]any{"b": 1, "c": 2}) {
		t.Errorf("istio has changed: %+v", s)
	}
	own := variantsOf(t, `platform: {kind: kubernetes}
factors: {mesh: [none, istio, own, less]}
meshes:
  own: {from: istio, image: "registry.test/proxy:1", concurrency: 3, environment: {A: "1"}, resources: {requests: {cpu: 250m, memory: 64MiB}, limits: {cpu: 2}}}
  less: {from: own, concurrency: 1, resources: {requests: {cpu: 100m}}}
`)
	if got, want := own.MeshSettings("less").Settings().Proxy, (mesh.ProxySettings{Image: "registry.test/proxy:1", Concurrency: 1, Environment: map[string]string{"A": "1"},
		Requests: map[string]string{"cpu": "100m", "memory": "64Mi"}, Limits: map[string]string{"cpu": "2000m"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := own.Variant("own"), "istio with concurrency=3, image=registry.test/proxy:1, resources.requests.cpu=250m, resources.requests.memory=64Mi, resources.limits.cpu=2000m, environment.A=1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	d, err := e.Definition("istio-1.29", withMeshes().Definitions)
	if err != nil {
		t.Errorf("got %+v, %v", d, err)
	} else if differ := difftest.Of("d.Name", d.Name, "istio-1.29", "d.From", d.From, "istio", "d.Kubernetes == nil", d.Kubernetes == nil, false); differ != "" {
		t.Errorf("%s: got %+v, %v", differ, d, err)
	}
}

func TestVariantsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a mistyped origin": {"factors: {mesh: [none, x]}\nmeshes: {x: {from: envy}}\n",
			"x.yaml:5:20: meshes.x.from: unknown mesh \"envy\"\n  hint: did you mean envoy?\n"},
		"a name in use": {"factors: {mesh: [none, envoy]}\nmeshes: {envoy: {from: envoy-tcp}}\n",
			"x.yaml:5:17: meshes.envoy: there is a mesh \"envoy\" already\n  hint: choose another name\n"},
		"a circle": {"factors: {mesh: [none]}\nmeshes: {a: {from: a}}\n",
			"x.yaml:5:20: meshes.a.from: \"a\" comes from itself\n  hint: name a mesh that `tare list meshes` prints\n"},
		"an unknown option": {"factors: {mesh: [none, x]}\nmeshes: {x: {from: envoy, options: {acessLog: true}}}\n",
			"x.yaml:5:36: meshes.x.options: there is no option \"acessLog\"\n  hint: options: accessLog, clusters, compression, endpoints, http2, jwt, rateLimit, rbac, retries, routes, stats, tracing, wasm\n"},
		"a dotted name": {"factors: {mesh: [none, envoy-1.2]}\nmeshes: {envoy-1.2: {from: envoy, version: 1.2.3}}\n",
			"x.yaml:5:44: meshes.envoy-1.2.version: envoy 1.2.3 cannot be downloaded\n  hint: versions: 1.40.0, 1.39.3; or write program: with the path of one\n"},
		"a program without versions": {"factors: {mesh: [none, x]}\nmeshes: {x: {from: reference, version: 1.2.3}}\n",
			"x.yaml:5:40: meshes.x.version: tare-agent 1.2.3 cannot be downloaded\n  hint: write program: with the path of one\n"},
		"program and version": {"factors: {mesh: [none, x]}\nmeshes: {x: {from: envoy, program: /bin/envoy, version: 1.39.3}}\n",
			"x.yaml:5:13: meshes.x: it has both program and version\n  hint: remove one of the two\n"},
		"too many clusters": {"factors: {mesh: [none, x]}\nmeshes: {x: {from: envoy, options: {clusters: 1e4}}}\n",
			"x.yaml:5:36: meshes.x.options: option clusters: found \"1e4\"\n  hint: expected a whole number from 0 to 10000\n"},
		"a ladder of one step": {"factors: {mesh: [none]}\nladder: true\n",
			"x.yaml:5:9: ladder: a ladder needs two meshes or more\n  hint: write the steps in factors.mesh, in their order\n"},
		"one of two factors at a time": {"factors: {mesh: [none, envoy], rate: [100, 200]}\nbaseline: {mesh: none}\noneAtATime: true\n",
			"x.yaml:6:13: oneAtATime: fewer than two factors are in the baseline, so that nothing is left out\n  hint: write a baseline with the level of each factor that varies, such as baseline: {backgroundProxies: 10, backgroundServices: 100}\n"},
		"a program there": {"platform: {kind: kubernetes}\nfactors: {mesh: [none, x]}\nmeshes: {x: {from: istio, program: ./envoy}}\n",
			"x.yaml:6:36: meshes.x.program: it applies to platform local\n  hint: remove it, or write options or values\n"},
		"a setting there": {"platform: {kind: kubernetes}\nfactors: {mesh: [none, x]}\nmeshes: {x: {from: linkerd, concurrency: 2}}\n",
			"x.yaml:6:13: meshes.x: the mesh has no setting concurrency of its sidecars on kubernetes\n  hint: it has limits.cpu, limits.memory, requests.cpu, requests.memory; or write options or values\n"},
		"resources here": {"factors: {mesh: [none, x]}\nmeshes: {x: {from: envoy, resources: {requests: {cpu: 1}}}}\n",
			"x.yaml:5:49: meshes.x.resources.requests: it applies to clusters, and the platform is local\n  hint: remove it, or write platform: {kind: kubernetes}\n"},
		"more requested than allowed": {"platform: {kind: kubernetes}\nfactors: {mesh: [none, x]}\nmeshes: {x: {from: istio, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}}\n",
			"x.yaml:6:55: meshes.x.resources.requests.cpu: 2 is more than the limit, 1\n"},
		"an option there": {"platform: {kind: kubernetes}\nfactors: {mesh: [none, x]}\nmeshes: {x: {from: istio, options: {mtl: a}}}\n",
			"x.yaml:6:13: meshes.x: there is no option \"mtl\"\n  hint: options: accessLog, envoy, imagePullPolicy, mtls, nativeSidecars, policies, services, telemetry\n"},
		"threads": {"factors: {mesh: [none, x]}\nmeshes: {x: {from: envoy, concurrency: -1}}\n",
			"x.yaml:5:40: meshes.x.concurrency: -1 is not between 1 and 1024\n"},
	} {
		_, err := experiment.Parse("x.yaml", []byte(header+c.text), withMeshes())
		if got := printed(err); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: got\n%swant\n%s", name, got, c.want)
		}
	}
}
