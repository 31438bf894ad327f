package kube

import (
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// A destination is a Service by its name alone, or with the namespace within an address.
func TestAddressed(t *testing.T) {
	for value, want := range map[string]bool{
		"api": true, "outbound|80||api.shop.svc.cluster.local": true, "api.shop": true, "http://api.shop:80/": true,
		"my-api": false, "outbound|80||my-api.shop.svc.cluster.local": false, "api.shopping": false, "outbound|80||api.other.svc.cluster.local": false, "api.svc": false,
	} {
		if got := addressed(value, "api", "shop"); got != want {
			t.Errorf("%s: %v, want %v", value, got, want)
		}
	}
}

// Calls that were found are printed as application.services takes them, in a sentence that has their use.
func TestCallsFound(t *testing.T) {
	g := &callGraph{trial: &trial{spec: platform.Spec{Topology: app.Topology{Services: []app.Service{{Name: "web"}, {Name: "api"}}}}}}
	text := g.text([]seenCall{{"web", "api"}})
	want := "the proxies saw calls between services: add application: {services: [{name: web, calls: [api]}]} to the file, and requests are counted along them"
	if got := callsFound(text); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
