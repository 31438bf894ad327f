package platform

import (
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func TestTargets(t *testing.T) {
	roots := []string{"http://a/", "http://b/"}
	spec := func(protocol, route string) Spec {
		return Spec{Topology: app.Topology{Services: []app.Service{{Name: "a"}}},
			Treatment: plan.Treatment{Levels: experiment.Levels{Protocol: protocol, Route: route}}}
	}
	if got := spec("", "").Targets(roots); !slices.Equal(got, roots) {
		t.Errorf("%q", got)
	}
	if got := spec(app.GRPC, "").Targets(roots); !slices.Equal(got, []string{"http://a" + app.GRPCMethod, "http://b" + app.GRPCMethod}) {
		t.Errorf("%q", got)
	}
	if got := spec("", "/x,/y").Targets(roots); !slices.Equal(got, []string{"http://a/x", "http://a/y", "http://b/x", "http://b/y"}) {
		t.Errorf("%q", got)
	}
}

func TestCheck(t *testing.T) {
	must.OK(t, (Spec{Topology: app.Topology{Services: []app.Service{{Name: "a"}, {Name: "b"}}}}).Check())
	for want, services := range map[string][]app.Service{"has no services": nil, `"load" is reserved`: {{Name: "a"}, {Name: "load"}}} {
		must.Fail(t, (Spec{Topology: app.Topology{Services: services}}).Check(), want)
	}
}

// Properties without a value come from the treatment, or from the callee.
func TestInstance(t *testing.T) {
	s := Spec{
		Topology: app.Topology{Services: []app.Service{
			{Name: "a", Calls: []app.Call{{Service: "b"}, {Service: "c"}, {CallOptions: app.CallOptions{}}}},
			{Name: "b", Protocol: app.GRPC, Replicas: 2}, {Name: "c"}}},
		Treatment: plan.Treatment{Levels: experiment.Levels{Protocol: app.HTTP2, ResponseSize: 17, Replicas: 3}},
	}
	i := s.Instance(s.Entry(), func(service string) []string { return []string{"http://" + service + "/"} })
	size, _ := i.ResponseSize.Fixed()
	if len(i.Calls) != 3 || i.Calls[2].URLs != nil {
		t.Errorf("%+v", i)
	} else if d := difftest.Of("i.Protocol", i.Protocol, app.HTTP2, "size", size, 17, "i.Calls[0].Protocol", i.Calls[0].Protocol, app.GRPC, "i.Calls[1].Protocol", i.Calls[1].Protocol, app.HTTP2, "i.Calls[1].URLs[0]", i.Calls[1].URLs[0], "http://c/"); d != "" {
		t.Errorf("%s: %+v", d, i)
	}
	if s.Replicas(s.Topology.Services[1]) != 2 || s.Replicas(s.Topology.Services[2]) != 3 || (Spec{}).Replicas(app.Service{}) != 1 {
		t.Error("replicas")
	}
}
