package kube

import (
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/platform/platformtest"
	"github.com/tare-mesh/tare/internal/study/sidecar"
)

// Every protocol works from the load worker to the entry and between services. The sidecar study's program runs with its
// sidecar.
func TestProtocolsAndPrograms(t *testing.T) {
	c := sharedCluster(t)
	for name, change := range map[string]func(*platform.Spec){
		"http2": func(s *platform.Spec) { s.Treatment.Levels.Protocol = app.HTTP2 },
		"grpc":  func(s *platform.Spec) { s.Treatment.Levels.Protocol = app.GRPC },
		"tcp": func(s *platform.Spec) {
			s.Treatment.Levels.Protocol = app.TCP
			s.Topology.Services = s.Topology.Services[:1]
			s.Topology.Services[0].Calls = nil
		},
		"adder": func(s *platform.Spec) {
			s.Topology = app.Topology{Name: "adder", Entry: "server", Services: []app.Service{{Name: "server", Program: "adder"}}}
			s.Programs = app.Programs{sidecar.Program()}
			s.Treatment.Levels.Route = app.EveryRoute
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := platformtest.Spec(t, noMesh(t), 1, "front", "back")
			change(&spec)
			d, err := newReal(t, c, nil).Deploy(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := d.Remove(t.Context()); err != nil {
					t.Error(err)
				}
			})
			checks, err := d.Verifier.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range checks {
				if !c.OK {
					t.Errorf("%s: %s", c.Name, c.Detail)
				}
			}
			tasks, err := d.Tasks(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			planes := map[metric.Plane]int{}
			for _, task := range tasks {
				if task.Plane != metric.Unattributed || task.Namespace == d.Running.(*deployment).namespace { // others are of tests beside this one
					planes[task.Plane]++
				}
			}
			if want := map[string]int{"adder": 1}[name]; planes[metric.Data] != want || planes[metric.App] != len(spec.Topology.Services) || planes[metric.Unattributed] > 0 {
				t.Errorf("tasks by plane: %v", planes)
			}
		})
	}
}

// A running service is changed and changed back: its clients see the errors that a fault adds.
func TestConfigure(t *testing.T) {
	d, err := newReal(t, sharedCluster(t), nil).deploy(t.Context(), platformtest.Spec(t, noMesh(t), 2, "echo"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	})
	victims := d.faults.Victims()
	if len(victims) != 2 || victims[0].ID == victims[1].ID || victims[1].Replica != 1 || victims[0].Service != "echo" || !victims[0].Up {
		t.Fatalf("%+v", victims)
	}
	if c, err := d.verifier.checkAnswers(t.Context()); err != nil || !c.OK { // the path is open
		t.Fatalf("%+v, %v", c, err)
	}
	statuses := func() map[string]int64 {
		t.Helper()
		report, err := d.verifier.prober.send(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return report.Statuses
	}
	undo := map[string][]byte{}
	for _, v := range victims {
		if undo[v.ID], err = d.configurer.Configure(t.Context(), v.ID, []byte(`{"errors": {"ratio": 1, "status": 503}}`)); err != nil {
			t.Fatal(err)
		}
	}
	if got := statuses(); got["503"] != probes {
		t.Errorf("with errors: %v", got)
	}
	for id, patch := range undo {
		if _, err := d.configurer.Configure(t.Context(), id, patch); err != nil {
			t.Error(err)
		}
	}
	if got := statuses(); got["200"] != probes {
		t.Errorf("without them again: %v", got)
	}
	if _, err := d.configurer.Configure(t.Context(), "echo-7/app", []byte(`{}`)); err == nil {
		t.Error("an unknown service was changed")
	}
}
