package local

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
)

// deployTopology deploys services as they are written in a topology.
func deployTopology(t *testing.T, m mesh.Definition, top app.Topology, protocol string) (*deployment, error) {
	t.Helper()
	spec := platformtest.Spec(t, m, 1, "echo")
	spec.Topology = top
	spec.Treatment.Levels.Protocol = protocol
	declared, err := New(Options{AgentPath: agent, FetchProgram: fetchProgram, settle: time.Second}).Deploy(t.Context(), spec)
	if err != nil {
		return nil, err
	}
	d := declared.Running.(*deployment)
	platformtest.Removed(t, d)
	return d, nil
}

// Every built-in topology starts and its requests pass every service, without and with a mesh.
func TestEveryTopology(t *testing.T) {
	t.Parallel()
	meshes := []string{"none", "envoy"}
	if os.Getenv("TARE_TEST_ALL") == "" {
		if !testing.Short() {
			t.Skip("TestCombinationsRun has each topology with Envoy: make e2e-all runs it")
		}
		t.Attr("short", "without Envoy")
		meshes = meshes[:1]
	}
	for _, top := range app.Builtin() {
		for _, name := range meshes {
			t.Run(top.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				d := must.Get(deployTopology(t, load(t, name), top, app.HTTP1))(t)
				if checks := platformtest.Verified(t, d.verifier.Verify); len(checks) < 2 {
					t.Errorf("only %d checks", len(checks))
				}
				if err := d.Remove(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// The debate's call path has four requests between services for one at face, each with a
// connection to color.
func TestFacesAsPublished(t *testing.T) {
	top := must.Get(app.Load("faces-as-published"))(t)
	if n := top.Edges(); n != 4 {
		t.Errorf("%d edges, want 4", n)
	}
	d := must.Get(deployTopology(t, load(t, "none"), top, app.HTTP1))(t)
	for _, c := range platformtest.Verified(t, d.verifier.Verify) {
		if c.Name == "requests at the application smiley" && !strings.Contains(c.Detail, fmt.Sprintf("increased by %d ", 2*probes)) {
			t.Error(c.Detail)
		}
	}
}

// Every protocol works at the entry and between services, through every proxy that supports it.
func TestEveryProtocol(t *testing.T) {
	meshes := []string{"none", "envoy", "envoy-plaintext", "envoy-xds", "envoy-retries", "envoy-tcp"}
	if testing.Short() {
		t.Attr("short", "without Envoy")
		meshes = meshes[:1]
	}
	for _, protocol := range app.Protocols() {
		top := app.Topology{Name: "two", Entry: "front", Services: []app.Service{
			{Name: "front", Calls: []app.Call{{Service: "back"}}}, {Name: "back"}}}
		if protocol == app.TCP {
			top = app.Topology{Name: "one", Entry: "echo", Services: []app.Service{{Name: "echo"}}}
		}
		for _, name := range meshes {
			t.Run(protocol+"/"+name, func(t *testing.T) {
				t.Parallel()
				d, err := deployTopology(t, load(t, name), top, protocol)
				if protocol == app.TCP && load(t, name).Provides.L7 {
					if !errors.Is(err, errors.ErrUnsupported) || hint.Of(err) == "" {
						t.Errorf("got %v", err)
					}
					return
				}
				must.OK(t, err)
				platformtest.Verified(t, d.verifier.Verify)
			})
		}
	}
}

// Two hundred services start and end quickly, and nothing is left of them.
func TestTwoHundredServices(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two hundred processes")
	}
	top := app.Topology{Name: "many", Entry: "s0"}
	for i := range 200 {
		s := app.Service{Name: fmt.Sprintf("s%d", i)}
		for _, c := range []int{2*i + 1, 2*i + 2} {
			if c < 200 {
				s.Calls = append(s.Calls, app.Call{Service: fmt.Sprintf("s%d", c), CallOptions: app.CallOptions{Alongside: len(s.Calls) > 0}})
			}
		}
		top.Services = append(top.Services, s)
	}
	start := time.Now()
	d := must.Get(deployTopology(t, load(t, "none"), top, app.HTTP1))(t)
	started := time.Since(start)
	platformtest.Verified(t, d.verifier.Verify)
	var pids []int
	for _, p := range d.processes.started {
		pids = append(pids, p.PID)
	}
	start = time.Now()
	must.OK(t, d.Remove(t.Context()))
	stopped := time.Since(start)
	t.Logf("200 services: started in %v, stopped in %v", started, stopped)
	if len(pids) != 200 || started > 30*time.Second || stopped > 5*time.Second {
		t.Errorf("%d processes, started in %v, stopped in %v", len(pids), started, stopped)
	}
	left := slices.DeleteFunc(pids, func(pid int) bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		return err != nil
	})
	if len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("runtime directories are left: %v", left)
	}
}
