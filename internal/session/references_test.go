package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

const header = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\n"

// decodedIn decodes an experiment in a directory, with a cluster that has the Services of a small shop.
func decodedIn(t *testing.T, dir, text string) (*experiment.Experiment, error) {
	t.Helper()
	p := NewProgram("", &Kubernetes{Copy: func(_ context.Context, _ experiment.Platform, namespace string) (*manifest.Set, error) {
		if namespace == "closed" {
			return nil, errors.New("no permission")
		}
		return &manifest.Set{Source: "test", Services: []manifest.Service{{Name: "api", Port: 8080, Protocol: "grpc"}, {Name: "cache", Port: 6379, Protocol: "tcp"}, {Name: "web", Port: 80, Protocol: "http1"}}}, nil
	}})
	s, err := p.Decode(t.Context(), filepath.Join(dir, "x.yaml"), []byte(header+text+"\n"), Options{})
	if err != nil {
		return nil, err
	}
	again, err := p.Decode(t.Context(), "/elsewhere/experiment.yaml", rendered(t, s.Experiment), Options{Recorded: true})
	if err != nil {
		t.Errorf("%s: its record is refused: %v", text, err)
	} else if a, b := rendered(t, again.Experiment), rendered(t, s.Experiment); string(a) != string(b) {
		t.Errorf("%s: recorded as\n%s\nit is read as\n%s", text, b, a)
	}
	return s.Experiment, nil
}

func rendered(t *testing.T, x *experiment.Experiment) []byte {
	t.Helper()
	text := must.Get(x.YAML())(t)
	return text
}

// Topologies of files are levels of the factor application, by the names in the files, beside shipped ones and entries.
func TestTopologyFilesAsLevels(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte("name: mine\nservices:\n- {name: front, calls: [{service: back}]}\n- {name: back, command: [./back]}\n"), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(dir, "other.yaml"), []byte("name: other\nservices: [{name: only}]\n"), 0o600))
	x := must.Get(decodedIn(t, dir, `applications: {plain: {command: [./server]}, second: {topology: other.yaml}, third: {topology: chain-3}}
factors: {application: [./mine.yaml, echo, plain, second, third], mesh: [none]}
baseline: {application: ./mine.yaml}`))(t)
	if got := strings.Join(experiment.LevelsOf[string](x.Factors, "application"), " "); got != "mine echo plain second third" {
		t.Errorf("levels %s", got)
	}
	if got := x.Baseline["application"]; got != "mine" {
		t.Errorf("baseline %v", got)
	}
	all := must.Get(x.Topologies())(t)
	var services []string
	for _, one := range all {
		services = append(services, fmt.Sprint(one.Name, len(one.Services)))
	}
	if got := strings.Join(services, " "); got != "mine2 echo1 plain1 second1 third3" {
		t.Errorf("topologies %s", got)
	}
	if got := all[0].Services[1].Dir; got != dir {
		t.Errorf("directory of the program: %s", got)
	}
	for text, want := range map[string]string{
		"factors: {application: [./absent.yaml]}":                                               "x.yaml:4:25: factors.application[0]: open ",
		"applications: {mine: {command: [x]}}\nfactors: {application: [./mine.yaml, mine]}":     "there is an application mine already",
		"applications: {a: {topology: ./mine.yaml, command: [x]}}\nfactors: {application: [a]}": "a topology has no further fields",
		"applications: {a: {topology: chain-4}}\nfactors: {application: [a]}":                   `unknown topology "chain-4"`,
	} {
		if _, err := decodedIn(t, dir, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The content of files is in the experiment, and what a run opens has an absolute path.
func TestReferences(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"body.bin": "\xff\xfe\x00\x80"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	x := must.Get(decodedIn(t, dir, `factors: {mesh: [none, envoy, envoy-new, mine], rate: [max]}
application: {command: [./server]}
meshes: {envoy-new: {from: envoy, program: ./envoy}, mine: {sidecar: {command: [./mine, "${listen}", "${upstream}"], dir: sub}}}
load:
  requests:
    - {path: /upload, bodyFile: body.bin}`))(t)
	r := x.Load.Requests
	for what, c := range map[string]struct{ got, want string }{
		"body of a file": {string(r[0].Body), "\xff\xfe\x00\x80"},
		"file of a body": {r[0].BodyFile, ""},
		"directory":      {x.Application.Dir, dir},
		"sidecar":        {x.Meshes["mine"].Sidecar.Dir, filepath.Join(dir, "sub")},
		"program":        {x.Meshes["envoy-new"].Program, filepath.Join(dir, "envoy")},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", what, c.got, c.want)
		}
	}
	x, err := decodedIn(t, "sub", "platform: {kind: kubernetes}\nfactors: {rate: [1]}\napplication: {chart: {chart: ./c}, services: [{name: a}]}")
	if err != nil || !filepath.IsAbs(x.Application.Chart.Chart) || !strings.HasSuffix(x.Application.Chart.Chart, "/sub/c") {
		t.Errorf("%+v, %v", x, err)
	}
	f := must.Get(experiment.Decode("x.yaml", []byte("application: {manifests: [k8s, /abs.yaml]}\n")))(t)
	if err := (references{f, f.Experiment, "/sub"}).objects(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if m := f.Experiment.Application.Manifests; m[0] != "/sub/k8s" || m[1] != "/abs.yaml" {
		t.Errorf("%v", m)
	}
}

func TestTopologyOfAFile(t *testing.T) {
	x := must.Get(decodedIn(t, "testdata/sub", "application: {topology: ../topology.yaml}\nfactors: {mesh: [none]}"))(t)
	top := must.Get(x.Topology())(t)
	if top.Entry != "front" || len(top.Services) != 2 || top.Edges() != 3 {
		t.Errorf("got %+v with %d edges", top, top.Edges())
	}
}

// Mistakes in files are reported at the field that names the file.
func TestMistakesInReferences(t *testing.T) {
	const on = "platform: {kind: kubernetes}\nfactors: {rate: [1]}\n"
	for text, want := range map[string]string{
		"application: {topology: ../topology-cyclic.yaml}\nfactors: {mesh: [none]}": "testdata/sub/x.yaml:4:25: application.topology: testdata/topology-cyclic.yaml:8:18: services[1].calls[0].service: the calls form a cycle: front -> back -> front",
		"application: {topology: ./nowhere.yaml}\nfactors: {mesh: [none]}":          "testdata/sub/x.yaml:4:25: application.topology: open testdata/sub/nowhere.yaml: no such file or directory",
		"load: {requests: [{bodyFile: nowhere.json}]}\nfactors: {mesh: [none]}":     "testdata/sub/x.yaml:4:30: load.requests[0].bodyFile: open testdata/sub/nowhere.json: no such file or directory",

		"factors: {rate: [1]}\napplication: {namespace: shop, entry: web}":                               "x.yaml:5:26: application.namespace: Kubernetes objects need a cluster",
		on + "application: {namespace: shop}":                                                            "several Services or none: api, cache, web",
		on + "application: {namespace: shop, entry: wep}":                                                `there is no Service "wep"`,
		on + "application: {namespace: shop, entry: cache}":                                              "plain TCP",
		on + "application: {namespace: shop, manifests: [a], entry: web}":                                "both manifests and a namespace",
		on + "application: {manifests: [a], entry: web, topology: echo}":                                 "both application.manifests and application.topology",
		on + "application: {manifests: [a], entry: web, chart: {chart: ./c}}":                            "both application.manifests and application.chart",
		on + "application: {manifests: [a], entry: web, services: [{name: web, replicas: 3}]}":           "the application's affair",
		on + "application: {services: [{name: web, port: 3}]}":                                           "has a port of its own",
		on + "order: interleaved\napplication: {namespace: s, entry: web}":                               "deployed one at a time",
		strings.Replace(on, "rate: [1]", "replicas: [1, 3]", 1) + "application: {namespace: s}":          "the objects have the numbers of replicas",
		strings.Replace(on, "rate: [1]", "application: [echo]", 1) + "application: {namespace: shop}":    "factors.application selects",
		strings.Replace(on, "kubernetes", "kubernetes, namespace: n", 1) + "application: {namespace: s}": "leaves the application's objects",
	} {
		must.Fail(t, must.Err(decodedIn(t, "testdata/sub", text)), want, text)
	}
}

// Services come from the objects. What the file has about a service stays.
func TestServicesOfObjects(t *testing.T) {
	const head = "platform: {kind: kubernetes}\nfactors: {rate: [1]}\n"
	x := must.Get(decodedIn(t, "", head+"application: {namespace: shop, entry: web, services: [{name: web, port: 81, calls: [api]}]}"))(t)
	top, err := x.Topology()
	if err != nil {
		t.Fatalf("%+v, %v", top, err)
	} else if d := difftest.Wrong("len(top.Services) != 3", len(top.Services) != 3, `top.Entry != "web"`, top.Entry != "web", "!top.Foreign()", !top.Foreign(), "top.CallsUnknown()", top.CallsUnknown(), "top.Objects == nil", top.Objects == nil); d != "" {
		t.Fatalf("%s: %+v, %v", d, top, err)
	}
	if web, _ := top.Service("web"); web.Port != 81 {
		t.Errorf("%+v", web)
	}
	if api, _ := top.Service("api"); api.Port != 8080 || api.Protocol != app.GRPC {
		t.Errorf("%+v", api)
	}
	x = must.Get(decodedIn(t, "", head+"application: {namespace: shop, entry: web}"))(t)
	if top, _ := x.Topology(); !top.CallsUnknown() {
		t.Errorf("%+v", top)
	}
}

// A service that may be among objects that were not read is not a further mistake.
func TestUnreadObjects(t *testing.T) {
	for _, application := range []string{
		"namespace: closed", "namespace: closed, entry: web", "namespace: closed, entry: web, services: [{name: db, protocol: http1}]",
		"namespace: closed, entry: web, services: [{name: web, port: 8080, protocol: http1, calls: [api]}]",
	} {
		_, err := decodedIn(t, "", "platform: {kind: kubernetes}\nfactors: {rate: [1]}\napplication: {"+application+"}")
		if err == nil || err.Error() != "no permission" {
			t.Errorf("%s: %v", application, err)
		}
	}
}

// A file without a seed gets one, and an order that suits it unless it has an order.
func TestDrawnOrder(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   experiment.OrderInterleaved,
		"\norder: random":                    experiment.OrderRandom,
		"\nseed: 3":                          "",
		"\nphases: {measure: 1050ms}":        experiment.OrderBalanced,
		"\nphases: {measure: 2s}\nblocks: 1": experiment.OrderInterleaved,
	} {
		x := must.Get(decodedIn(t, "", "factors: {mesh: [none, envoy], rate: [100]}"+text))(t)
		if x.Order != want || (x.Seed == 3) != strings.Contains(text, "seed") || (x.Slices.Length == experiment.Duration(100*time.Millisecond)) != (want == experiment.OrderInterleaved) {
			t.Errorf("%q: order %q, seed %d, slices %+v, want %q", text, x.Order, x.Seed, x.Slices, want)
		}
	}
}
