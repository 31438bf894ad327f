package session

import (
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/experiment"
)

func TestABOfPrograms(t *testing.T) {
	p := NewProgram("", nil)
	o := AB{Commands: [][]string{{"./server-old", "--port", "{port}"}, {"./server-new", "--port", "{port}"}}, Rate: "70", Request: Request{Path: "/a", Method: "PUT", Body: []byte("b"), Headers: []string{"X: y"}}, Ready: "/ready", MaxTime: 10 * time.Minute,
		Set: []string{"b.env.A=x", "phases.measure=2s"}}
	s := must.Get(p.AB(t.Context(), o))(t)
	e := s.Experiment
	var ids []string
	for _, treatment := range s.Plan.Treatments {
		ids = append(ids, treatment.ID)
	}
	if want := []string{"server-old", "server-old-control", "server-new"}; !slices.Equal(ids, want) {
		t.Errorf("treatments %q, want %q", ids, want)
	}
	if e.Applications["server-new"].Env["A"] != "x" || e.Applications["server-old"].Env != nil || e.Phases.Measure != experiment.Duration(2*time.Second) {
		t.Errorf("settings: %+v", e.Applications)
	}
	if r := e.Load.Requests; len(r) != 1 || r[0].Path != "/a" || r[0].Method != "PUT" || r[0].Body != "b" || e.Load.Headers["X"] != "y" {
		t.Errorf("load: %+v", e.Load)
	}
	if len(e.Decide.Gates) != 1 || e.Decide.Gates[0] != DefaultProgramGate || e.Order != experiment.OrderInterleaved {
		t.Errorf("gates %q, order %s", e.Decide.Gates, e.Order)
	}
	for want, change := range map[string]func(*AB){
		"1 programs":           func(o *AB) { o.Commands = o.Commands[:1] },
		"3 programs":           func(o *AB) { o.Commands = append(o.Commands, o.Commands[0]) },
		"without a mesh":       func(o *AB) { o.Mesh = []string{"envoy"} },
		"on this machine":      func(o *AB) { o.Platform = "kubernetes" },
		"is not a number":      func(o *AB) { o.Rate = "fast" },
		"unknown placeholder":  func(o *AB) { o.Commands = [][]string{{"./a"}, {"./b", "${nowhere}"}} },
		"are for two programs": func(o *AB) { o.Commands = nil },
	} {
		bad := o
		change(&bad)
		must.Fail(t, must.Err(p.AB(t.Context(), bad)), want)
	}
}
