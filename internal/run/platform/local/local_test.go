package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
	"github.com/tare-mesh/tare/test/programtest"
)

// agent is tare-agent, built once for all tests.
var agent string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

// agentVariable hands the built agent to the test binary's other processes.
const agentVariable = "TARE_LOCAL_TEST_AGENT"

func testMain(m *testing.M) int {
	if agent = os.Getenv(agentVariable); agent != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "tare-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Setenv("XDG_STATE_HOME", dir)
	os.Setenv("TMPDIR", dir)
	agent = filepath.Join(dir, "tare-agent")
	if err := programtest.Build(dir, "tare-agent"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func fetchProgram(ctx context.Context, name string) (string, string, error) {
	if name != "envoy" && name != "consul" {
		return "", "", fmt.Errorf("no program %q", name)
	}
	found, err := fetch.Find(ctx, name, fetch.Options{})
	return found.Path, found.Version, err
}

func realEnvoy(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real Envoy")
	}
}

func newPlatform(*testing.T) platform.Platform {
	return New(Options{AgentPath: agent, FetchProgram: fetchProgram}).Declare()
}

func load(t *testing.T, name string) mesh.Definition {
	t.Helper()
	return must.Get(mesh.Load(name))(t)
}

func TestPlatform(t *testing.T) {
	names := []string{"none", "reference", "reference-mtls", "envoy", "envoy-plaintext", "envoy-xds", "envoy-tcp"}
	switch {
	case testing.Short():
		t.Attr("short", "without Envoy and Consul")
		names = names[:3]
	case os.Getenv("TARE_TEST_ALL") != "":
		names = append(names, "consul")
	}
	var meshes []mesh.Definition
	for _, n := range names {
		meshes = append(meshes, load(t, n))
	}
	if !testing.Short() {
		meshes = append(meshes, must.Get(load(t, "envoy-xds").Variant("envoy-xds-mtls", mesh.Overrides{Options: map[string]string{"mtls": "true"}}))(t))
	}
	abilities := platformtest.Traits{
		Parallel:          true,
		PlatformAbilities: []string{"Faults"},
		Abilities:         []string{"Verify", "Broken", "MeshCounters", "RequestCounts", "CheckConnections", "TaskFaults", "Ended", "Configurer", "Changer", "Serial", "Moments", "StopAndStart", "NetworkFaults"},
	}
	t.Run("meshes", func(t *testing.T) { platformtest.Run(t, abilities, newPlatform, meshes) })
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("runtime directories are left: %v", left)
	}
}

// leftovers are the runtime directories that exist.
func leftovers(t *testing.T) []string {
	t.Helper()
	return must.Get(filepath.Glob(filepath.Join(os.TempDir(), runtimePrefix+"*")))(t)
}

// deploy deploys one service named echo, or a chain.
func deploy(t *testing.T, o Options, m mesh.Definition, services ...string) (*deployment, platform.Spec, error) {
	t.Helper()
	if o.AgentPath == "" {
		o.AgentPath = agent
	}
	if o.FetchProgram == nil {
		o.FetchProgram = fetchProgram
	}
	o.settle = 200 * time.Millisecond
	spec := platformtest.Spec(t, m, 1, append([]string{"echo"}, services...)...)
	declared, err := New(o).Deploy(t.Context(), spec)
	if err != nil {
		return nil, spec, err
	}
	d := declared.Running.(*deployment)
	platformtest.Removed(t, d)
	return d, spec, nil
}

func mustDeploy(t *testing.T, o Options, m mesh.Definition, services ...string) *deployment {
	t.Helper()
	d, _, err := deploy(t, o, m, services...)
	must.OK(t, err)
	return d
}

// verdict verifies and returns the failed checks, by name.
func verdict(t *testing.T, d *deployment) map[string]check.Check {
	t.Helper()
	checks := must.Get(platformtest.Checks(d.verifier.Verify(t.Context(), platform.Probe{})))(t)
	failed := map[string]check.Check{}
	for _, c := range checks {
		if !c.OK {
			failed[c.Name] = c
			if c.Hint == "" {
				t.Errorf("%s fails without a hint", c.Name)
			}
		}
	}
	return failed
}

// probed sends the probes without reading a counter.
func probed(t *testing.T, d *deployment) check.Check {
	t.Helper()
	probe := d.layout.spec.Completed(platform.Probe{}, d.layout.entry)
	requests := must.Get(requestsOf(probe.Load))(t)
	c, _ := d.verifier.probe(t.Context(), probe, requests)
	return c
}

func wantFailed(t *testing.T, got map[string]check.Check, names ...string) {
	t.Helper()
	for _, n := range names {
		if _, ok := got[n]; !ok {
			t.Errorf("%q holds, though it should not", n)
		}
		delete(got, n)
	}
	for n, c := range got {
		t.Errorf("%q does not hold, though it should: %s", n, c.Detail)
	}
}

func TestApplicationThatAnswers500(t *testing.T) {
	d := mustDeploy(t, Options{edit: func(i *app.Instance) { i.Status = 500 }}, load(t, "none"))
	failed := verdict(t, d)
	if c := failed["answers of echo"]; !strings.Contains(c.Detail, "0 of 20 probes") || !strings.Contains(c.Detail, "500 Internal Server Error") {
		t.Errorf("detail: %s", c.Detail)
	}
	wantFailed(t, failed, "answers of echo")
}

func TestApplicationOfTheWrongSize(t *testing.T) {
	d := mustDeploy(t, Options{edit: func(i *app.Instance) { n, _ := i.ResponseSize.Fixed(); i.ResponseSize = app.FixedSize(n - 1) }}, load(t, "none"))
	failed := verdict(t, d)
	if c := failed["answers of echo"]; !strings.Contains(c.Detail, "1020 bytes") {
		t.Errorf("detail: %s", c.Detail)
	}
	wantFailed(t, failed, "answers of echo")
}

// An application that cannot start: the error has its output.
func TestApplicationThatExits(t *testing.T) {
	_, spec, err := deploy(t, Options{edit: func(i *app.Instance) { i.Status = 42 }}, load(t, "none"))
	var exit *proc.ExitError
	if !errors.As(err, &exit) || !strings.Contains(err.Error(), "echo-0/app is gone") || !strings.Contains(err.Error(), "42 is not from 200 to 599") {
		t.Fatalf("got %v", err)
	}
	must.Contain(t, hint.Of(err), filepath.Join(spec.Provenance, "echo-0-app.log"))
}

func TestAgentMissing(t *testing.T) {
	_, err := New(Options{AgentPath: "/nonexistent/tare-agent"}).Prepare(t.Context(), nil)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(hint.Of(err), "make build") {
		t.Errorf("got %v, hint %s", err, hint.Of(err))
	}
}

func TestProgramMissing(t *testing.T) {
	m := load(t, "envoy")
	o := Options{AgentPath: agent, FetchProgram: func(context.Context, string) (string, string, error) { return "", "", os.ErrNotExist }}
	if _, err := New(o).Prepare(t.Context(), []mesh.Definition{m}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "prepare mesh envoy: find envoy") {
		t.Errorf("got %v", err)
	}
	o.FetchProgram = func(context.Context, string) (string, string, error) { return "/nonexistent/envoy", "1", nil }
	if _, err := New(o).Deploy(t.Context(), platformtest.Spec(t, m, 1, "echo")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestUnsupported(t *testing.T) {
	for name, change := range map[string]func(*platform.Spec){
		"protocol": func(s *platform.Spec) { s.Treatment.Levels.Protocol = "http3" },
		"mesh":     func(s *platform.Spec) { s.Mesh = mesh.Definition{Name: "ambient", Provides: mesh.Provides{MTLS: true}} },
	} {
		spec := platformtest.Spec(t, load(t, "none"), 1, "echo")
		change(&spec)
		if _, err := newPlatform(t).Deploy(t.Context(), spec); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	spec := platformtest.Spec(t, load(t, "none"), 1, "load")
	if _, err := newPlatform(t).Deploy(t.Context(), spec); err == nil || hint.Of(err) == "" {
		t.Errorf("a service called load: %v", err)
	}
}

func TestDeployIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newPlatform(t).Deploy(ctx, platformtest.Spec(t, load(t, "none"), 1, "echo")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A process that tare starts outside the trial is reported. A process of a task belongs to the task.
func TestUnknownProcesses(t *testing.T) {
	d := mustDeploy(t, Options{}, load(t, "none"))
	unknown := must.Get(proc.Start(t.Context(), proc.Command{Path: "sleep", Args: []string{"60"}}))(t)
	defer func() { _ = unknown.Stop(context.Background(), 0) }()
	must.Get(d.StartLoad(t.Context(), proc.Command{Path: "sh", Args: []string{"-c", "sleep 60; true"}}))(t)
	planes := func() map[metric.Plane]int {
		all := must.Get(d.Tasks(t.Context()))(t)
		n := map[metric.Plane]int{}
		for _, task := range all {
			if task.Plane == metric.Unattributed && task.PID != unknown.PID {
				t.Errorf("unattributed: %+v", task)
			}
			n[task.Plane]++
		}
		return n
	}
	eventually(t, "two tasks of load", func() bool { n := planes(); return n[metric.Load] == 2 && n[metric.Unattributed] == 1 })
}

func TestPinning(t *testing.T) {
	spec := platformtest.Spec(t, load(t, "none"), 1, "echo")
	spec.CPUs = map[string]string{"app": "0"}
	d := must.Get(newPlatform(t).Deploy(t.Context(), spec))(t)
	defer d.Remove(context.Background())
	tasks := must.Get(d.Tasks(t.Context()))(t)
	for _, task := range tasks {
		b := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", task.PID)))(t)
		if pinned := strings.Contains(string(b), "Cpus_allowed_list:\t0\n"); task.Plane == metric.App && !pinned {
			t.Errorf("%s is not pinned", task.ID)
		}
	}
	commands := must.Get(os.ReadFile(filepath.Join(spec.Provenance, "commands.sh")))(t)
	must.Contain(t, string(commands), "taskset -c 0 ")
	spec.CPUs = map[string]string{"app": "1023"}
	must.Fail(t, must.Err(newPlatform(t).Deploy(t.Context(), spec)), "1023", "processor 1023")
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	within(t, 10*time.Second, what, ok)
}

func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.After(limit), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
