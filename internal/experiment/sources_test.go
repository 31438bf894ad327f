package experiment_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
)

// sourced decodes an experiment whose application has the Services of a small shop.
func sourced(text string) (*experiment.Experiment, error) {
	on := known
	on.Platforms = []string{"local", "kubernetes"}
	on.Objects = func(e *experiment.Experiment) (*manifest.Set, error) {
		if e.Application.Namespace == "closed" {
			return nil, errors.New("no permission")
		}
		return &manifest.Set{Source: "test", Services: []manifest.Service{{Name: "api", Port: 8080, Protocol: "grpc"}, {Name: "cache", Port: 6379, Protocol: "tcp"}, {Name: "web", Port: 80, Protocol: "http1"}}}, nil
	}
	return experiment.Decode("sub/x.yaml", []byte("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: x}\n"+text+"\n"), on)
}

// Services come from the objects. What the file has about a service stays.
func TestSourceOfAnApplication(t *testing.T) {
	const head = "platform: {kind: kubernetes}\nfactors: {rate: [1]}\n"
	e, err := sourced(head + "application: {manifests: [k8s, /abs.yaml], entry: web, services: [{name: web, port: 81, calls: [api]}]}")
	if err != nil {
		t.Fatal(err)
	}
	top, err := e.Topology()
	if err != nil || len(top.Services) != 3 || top.Entry != "web" || !top.Foreign() || top.CallsUnknown() || top.Objects == nil {
		t.Fatalf("%+v, %v", top, err)
	}
	if web, _ := top.Service("web"); web.Port != 81 {
		t.Errorf("%+v", web)
	}
	if api, _ := top.Service("api"); api.Port != 8080 || api.Protocol != app.GRPC {
		t.Errorf("%+v", api)
	}
	if m := e.Application.Manifests; !filepath.IsAbs(m[0]) || !strings.HasSuffix(m[0], "/sub/k8s") || m[1] != "/abs.yaml" {
		t.Errorf("%v", m)
	}
	// A reader of results has the services, and reads no objects.
	rendered, err := e.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := experiment.Decode("/elsewhere/experiment.yaml", rendered, experiment.Known{})
	if err != nil || len(again.Application.Services) != 3 || again.Application.Objects != nil {
		t.Errorf("%+v, %v", again, err)
	}
	e, err = sourced(head + "application: {namespace: shop, entry: web}")
	if top, _ := e.Topology(); err != nil || !top.CallsUnknown() {
		t.Errorf("%+v, %v", e, err)
	}
}

// Services that can be among objects that were not read are no further mistakes.
func TestUnreadObjects(t *testing.T) {
	const on = "platform: {kind: kubernetes}\nfactors: {rate: [1]}\n"
	for _, application := range []string{
		"namespace: closed", "namespace: closed, entry: web", "namespace: closed, entry: web, services: [{name: db, protocol: http1}]",
		"namespace: closed, entry: web, services: [{name: web, port: 8080, protocol: http1, calls: [api]}]",
	} {
		_, err := sourced(on + "application: {" + application + "}")
		if mistakes := (strict.Problems)(nil); !errors.As(err, &mistakes) || len(mistakes) != 1 || !strings.Contains(err.Error(), "no permission") {
			t.Errorf("%s: %v", application, err)
		}
	}
}

func TestSourceMistakes(t *testing.T) {
	const on = "platform: {kind: kubernetes}\nfactors: {rate: [1]}\n"
	for text, want := range map[string]string{
		"factors: {rate: [1]}\napplication: {namespace: shop, entry: web}":                                                "x.yaml:5:26: application.namespace: Kubernetes objects need a cluster",
		on + "application: {namespace: shop}":                                                                             "several Services or none: api, cache, web",
		on + "application: {namespace: shop, entry: wep}":                                                                 `there is no Service "wep"`,
		on + "application: {namespace: shop, entry: cache}":                                                               "plain TCP",
		on + "application: {namespace: closed, entry: web}":                                                               "application.namespace: no permission",
		on + "application: {namespace: shop, manifests: [a], entry: web}":                                                 "both manifests and a namespace",
		on + "application: {manifests: [a], entry: web, topology: echo}":                                                  "both application.manifests and application.topology",
		on + "application: {manifests: [a], entry: web, chart: {chart: ./c}}":                                             "both application.manifests and application.chart",
		on + "application: {manifests: [a], entry: web, services: [{name: web, replicas: 3}]}":                            "the application's affair",
		on + "application: {services: [{name: web, port: 3}]}":                                                            "has a port of its own",
		"platform: {kind: kubernetes}\nfactors: {replicas: [1, 3]}\napplication: {namespace: shop, entry: web}":           "the objects have the numbers of replicas",
		"platform: {kind: kubernetes, namespace: n}\nfactors: {rate: [1]}\napplication: {namespace: s, entry: web}":       "leaves the application's objects",
		"platform: {kind: kubernetes}\nfactors: {topology: [echo]}\napplication: {namespace: shop, entry: web}":           "factors.topology selects",
		"platform: {kind: kubernetes}\nfactors: {rate: [1]}\norder: interleaved\napplication: {namespace: s, entry: web}": "deployed one at a time",
	} {
		if _, err := sourced(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
