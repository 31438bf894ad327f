// Package platformtest is the suite that every platform passes. It checks what
// the runner relies on: the running application, and each declared ability.
package platformtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
)

// responseSize of the suite's applications, bytes. No other answer has this odd size.
const responseSize = 1021

// timeout bounds the wait for a condition that is polled. Consul renews a certificate within 30 s.
const timeout = 40 * time.Second

// Traits are the expected properties of a platform. The zero value is a platform
// without abilities whose tasks are processes of this machine.
type Traits struct {
	// PlatformAbilities and Abilities are the names of the fields that [platform.Platform]
	// and [platform.Deployment] must declare. A field missing there, or here, is an error.
	PlatformAbilities []string
	Abilities         []string
	// Get requests a URL of the deployment and returns status and length of the answer. nil: from this machine.
	Get func(ctx context.Context, d *platform.Deployment, url string) (status int, n int64, err error)
	// Work is a command for a load worker. It prints a line that begins with
	// WorkOutput and runs until it is stopped. Without a path: a shell command.
	Work       proc.Command
	WorkOutput string
	// Change makes changes of the entry, and sees them. nil: every kind that the mesh can make, seen from this machine.
	Change func(t *testing.T, d *platform.Deployment)
	// Kill ends a task without the platform. nil: its process is killed.
	Kill func(t *testing.T, task platform.Task)
	// LoadPods are the names of load workers that are tasks even without a load.
	LoadPods []string
	// Outside: tare itself is not a task.
	Outside bool
	// Parallel: deployments have no tasks of each other, so tests run at the same time.
	Parallel bool
}

// Run runs the suite for each mesh. Every test has a platform of its own.
func Run(t *testing.T, traits Traits, newPlatform func(t *testing.T) platform.Platform, meshes []mesh.Definition) {
	if traits.Work.Path == "" {
		traits.Work, traits.WorkOutput = proc.Command{Path: "sh", Args: []string{"-c", "echo working; exec sleep 60"}}, "working"
	}
	if traits.Get == nil {
		traits.Get = get
	}
	// Programs are asked for their versions before deployments run beside each other: a child process of tare
	// would be a task of each.
	if traits.Parallel {
		if _, err := newPlatform(t).Prepare(t.Context(), meshes); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range meshes {
		t.Run(m.Name, func(t *testing.T) {
			traits.beside(t)
			s := suite{newPlatform, m, traits}
			for name, test := range map[string]func(*testing.T){"one service": s.oneService, "chain": s.chain, "load": s.load, "abilities": s.abilities} {
				t.Run(name, func(t *testing.T) {
					traits.beside(t)
					test(t)
				})
			}
		})
	}
}

// beside lets a test run beside others, if it can.
func (traits Traits) beside(t *testing.T) {
	if traits.Parallel {
		t.Parallel()
	}
}

type suite struct {
	newPlatform func(t *testing.T) platform.Platform
	mesh        mesh.Definition
	traits      Traits
}

// Spec is a deployment of the named services, each calling the next.
func Spec(t *testing.T, m mesh.Definition, replicas int, services ...string) platform.Spec {
	t.Helper()
	topology := app.Topology{Name: "test", Entry: services[0]}
	for i, name := range services {
		s := app.Service{Name: name}
		if i+1 < len(services) {
			s.Calls = []app.Call{{Service: services[i+1]}}
		}
		topology.Services = append(topology.Services, s)
	}
	levels := experiment.Levels{Mesh: m.Name, Replicas: replicas, ResponseSize: responseSize, RequestSize: 17, Connections: 1, Protocol: "http1"}
	return platform.Spec{
		Trial:      plan.Trial{ID: "1-test-b1", Ordinal: 1, Block: 1, Treatment: "test"},
		Treatment:  plan.Treatment{ID: "test", Levels: levels},
		Topology:   topology,
		Mesh:       m,
		Provenance: t.TempDir(),
	}
}

func (s suite) oneService(t *testing.T) {
	spec := Spec(t, s.mesh, 2, "echo")
	d := s.deploy(t, s.newPlatform(t), spec)
	if len(d.Entry()) == 0 {
		t.Fatal("no entry")
	}
	verify(t, d) // first, as in every trial: it waits until pods reach each other
	for _, url := range d.Entry() {
		s.get(t, d, url)
	}
	verify(t, d) // again: the first run must not influence the second
	s.tasks(t, d, []string{"echo-0", "echo-1"})
	provenance(t, spec)
}

func (s suite) chain(t *testing.T) {
	d := s.deploy(t, s.newPlatform(t), Spec(t, s.mesh, 1, "front", "back"))
	verify(t, d)
	s.get(t, d, d.Entry()[0])
	s.tasks(t, d, []string{"front-0", "back-0"})
}

// load checks that a worker is a task of the load plane while it runs, and only then.
func (s suite) load(t *testing.T) {
	d := s.deploy(t, s.newPlatform(t), Spec(t, s.mesh, 1, "echo"))
	out, in := io.Pipe()
	defer in.Close()
	command := s.traits.Work
	command.Stdout = in
	worker := must.Get(d.StartLoad(t.Context(), command))(t)
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); !strings.HasPrefix(line, s.traits.WorkOutput) {
		t.Errorf("the worker's output is %q, %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	if n := count(t, d, metric.Load); n != 1 {
		t.Errorf("%d tasks in the load plane, want 1", n)
	}
	if err := worker.Stop(t.Context(), timeout); err != nil {
		t.Error(err)
	}
	if n, want := count(t, d, metric.Load), len(s.traits.LoadPods); n != want {
		t.Errorf("%d tasks in the load plane after its end, want %d", n, want)
	}
	if d.Broken() != nil {
		t.Errorf("a load worker that ends breaks the deployment: %v", d.Broken())
	}
}

// deploy prepares and deploys. The test's end removes the deployment and checks that nothing is left.
func (s suite) deploy(t *testing.T, p platform.Platform, spec platform.Spec) *platform.Deployment {
	t.Helper()
	versions := must.Get(p.Prepare(t.Context(), []mesh.Definition{s.mesh}))(t)
	for name, v := range versions {
		if v == "" {
			t.Errorf("the version of %s is empty", name)
		}
	}
	d := must.Get(p.Deploy(t.Context(), spec))(t)
	t.Cleanup(func() { removed(t, d) })
	return d
}

// removed removes d twice and checks that its tasks are gone.
func removed(t *testing.T, d *platform.Deployment) {
	t.Helper()
	// Removal must work with an ended context, as the test's own is by now.
	ctx, cancel := context.WithCancel(context.Background())
	tasks, err := d.Tasks(ctx)
	if err != nil {
		t.Error(err)
	}
	cancel()
	for range 2 {
		if err := d.Remove(ctx); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	for _, task := range tasks {
		if task.PID == 0 || task.PID == os.Getpid() || !alive(task.PID) {
			continue
		}
		// Descendants of tare itself may be short commands of a test beside this one.
		if task.Plane != metric.Harness || !eventuallyGone(task.PID) {
			t.Errorf("%s, process %d, still runs after the removal", task.ID, task.PID)
		}
	}
	if _, err := d.StartLoad(context.Background(), proc.Command{Path: "sleep", Args: []string{"60"}}); err == nil {
		t.Error("a removed deployment starts a load")
	}
}

// eventuallyGone reports whether a process ends within the timeout.
func eventuallyGone(pid int) bool {
	return wait.Within(context.Background(), timeout, 10*time.Millisecond, func(context.Context) error {
		if alive(pid) {
			return errors.New("it runs")
		}
		return nil
	}) == nil
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func (s suite) get(t *testing.T, d *platform.Deployment, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := s.answers(ctx, d, url); err != nil {
		t.Error(err)
	}
}

// answers requests a URL and checks status and length of the answer.
func (s suite) answers(ctx context.Context, d *platform.Deployment, url string) error {
	status, n, err := s.traits.Get(ctx, d, url)
	if err != nil || status != http.StatusOK || n != responseSize {
		return fmt.Errorf("%s answers %d with %d bytes, %w", url, status, n, err)
	}
	return nil
}

func get(ctx context.Context, _ *platform.Deployment, url string) (int, int64, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, 0, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, n, err
}

func verify(t *testing.T, d *platform.Deployment) {
	t.Helper()
	checks := must.Get(Checks(d.Verify(t.Context(), platform.Probe{})))(t)
	if len(checks) == 0 {
		t.Error("no checks were made")
	}
	names := map[string]bool{}
	for _, c := range checks {
		if !c.OK {
			t.Errorf("%s: %s (hint: %s)", c.Name, c.Detail, c.Hint)
		}
		if c.Name == "" || c.Detail == "" || names[c.Name] {
			t.Errorf("a check without evidence, or with the name of another: %+v", c)
		}
		names[c.Name] = true
		t.Logf("%s: %s", c.Name, c.Detail)
	}
}

// tasks checks that each pod has its application and, with a mesh, its proxy, and
// that the control plane runs. Each task is in its plane.
func (s suite) tasks(t *testing.T, d *platform.Deployment, pods []string) {
	t.Helper()
	m := s.mesh
	all := must.Get(d.Tasks(t.Context()))(t)
	seen := map[string]int{}
	ids := map[string]bool{}
	for _, task := range all {
		if task.Plane == metric.Platform {
			continue // of the cluster, any number
		}
		pod, _, _ := strings.Cut(task.ID, "/")
		seen[fmt.Sprintf("%s %s", pod, task.Plane)]++
		if ids[task.ID] {
			t.Errorf("two tasks have the ID %s", task.ID)
		}
		ids[task.ID] = true
		if task.Plane == metric.Unattributed {
			t.Errorf("unattributed: %+v", task)
		}
		if task.Plane == metric.Data && (task.Service == platform.LoadService) != (task.Component == "load") {
			t.Errorf("only the load generator's own proxy has the component load: %+v", task)
		}
	}
	want := map[string]int{}
	if !s.traits.Outside {
		want["tare harness"] = 1
	}
	for _, name := range s.traits.LoadPods {
		want[name+" load"] = 1
	}
	if m.Local != nil {
		for _, c := range m.Local.Controls() {
			want[c.Name+" control"] = 1
		}
	}
	for _, p := range pods {
		want[p+" app"] = 1
		if m.Local != nil {
			want[p+" data"], want["load data"] = 1, 1
		}
	}
	for k, n := range want {
		if seen[k] != n {
			t.Errorf("%d tasks of %s, want %d, among %v", seen[k], k, n, seen)
		}
	}
	for k := range seen {
		if want[k] == 0 {
			t.Errorf("unexpected task: %s", k)
		}
	}
}

func count(t *testing.T, d *platform.Deployment, plane metric.Plane) (n int) {
	t.Helper()
	all := must.Get(d.Tasks(t.Context()))(t)
	for _, task := range all {
		if task.Plane == plane {
			n++
		}
	}
	return n
}

// provenance checks that files are kept, and none with a secret.
func provenance(t *testing.T, spec platform.Spec) {
	t.Helper()
	files := must.Get(os.ReadDir(spec.Provenance))(t)
	if len(files) == 0 {
		t.Error("the provenance directory is empty")
	}
	for _, f := range files {
		b := must.Get(os.ReadFile(spec.Provenance + "/" + f.Name()))(t)
		if bytes.Contains(b, []byte("PRIVATE KEY")) {
			t.Errorf("%s contains a private key", f.Name())
		}
	}
}

// Checks are the checks of a verification.
func Checks(v platform.Verification, err error) ([]check.Check, error) { return v.Checks, err }

// Verified verifies a deployment, and reports each check that does not hold.
func Verified(t *testing.T, verify func(context.Context, platform.Probe) (platform.Verification, error)) []check.Check {
	t.Helper()
	checks := must.Get(Checks(verify(t.Context(), platform.Probe{})))(t)
	for _, c := range checks {
		if !c.OK {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
	return checks
}

// Removed removes a deployment with the test.
func Removed(t *testing.T, d interface{ Remove(context.Context) error }) {
	t.Cleanup(func() {
		if err := d.Remove(context.Background()); err != nil {
			t.Errorf("remove the deployment: %v", err)
		}
	})
}
