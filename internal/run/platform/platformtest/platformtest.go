// Package platformtest is the suite that every platform passes. What it asks of
// a platform is what the runner relies on.
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
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/base/proc"
)

// responseSize of the suite's applications, bytes. It is no round number, so that nothing answers with it by chance.
const responseSize = 1021

// patience is how long a condition that nothing announces is waited for.
const patience = 20 * time.Second

// Traits are what a platform whose tasks are no processes of this machine does
// in another way; the zero value is one whose tasks are.
type Traits struct {
	// Get asks an URL of the deployment and returns status and length of the answer; nil: from here.
	Get func(ctx context.Context, d platform.Deployment, url string) (status int, n int64, err error)
	// Work is a command for a load worker that writes a line beginning with Says
	// and goes on until it is stopped; without a path: a shell's.
	Work proc.Command
	Says string
	// Kill ends a task behind the platform's back; nil: its process is killed.
	Kill func(t *testing.T, task platform.Task)
	// Standing says that load workers are tasks whether they have work or not, by the name of each.
	Standing []string
	// Outside says that tare itself is no task.
	Outside bool
}

// Run runs the suite for each mesh. Every test has a platform of its own.
func Run(t *testing.T, newPlatform func(t *testing.T) platform.Platform, meshes []mesh.Definition) {
	RunAs(t, Traits{}, newPlatform, meshes)
}

// RunAs is [Run] for a platform with traits of its own.
func RunAs(t *testing.T, traits Traits, newPlatform func(t *testing.T) platform.Platform, meshes []mesh.Definition) {
	if traits.Work.Path == "" {
		traits.Work, traits.Says = proc.Command{Path: "sh", Args: []string{"-c", "echo working; exec sleep 60"}}, "working"
	}
	for _, m := range meshes {
		t.Run(m.Name, func(t *testing.T) {
			s := suite{newPlatform, m, traits}
			t.Run("one service", s.oneService)
			t.Run("chain", s.chain)
			t.Run("load", s.load)
			t.Run("killed application", s.killed)
		})
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

// deploy prepares and deploys, and sees to it that removal leaves nothing.
func (s suite) deploy(t *testing.T, spec platform.Spec) platform.Deployment {
	t.Helper()
	p := s.newPlatform(t)
	versions, err := p.Prepare(t.Context(), []mesh.Definition{s.mesh})
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range versions {
		if v == "" {
			t.Errorf("the version of %s is empty", name)
		}
	}
	d, err := p.Deploy(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removed(t, d) })
	return d
}

// removed removes d, twice, and holds that its tasks are gone.
func removed(t *testing.T, d platform.Deployment) {
	t.Helper()
	// The test's own context has ended; removal must not mind.
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
		if task.PID != 0 && task.PID != os.Getpid() && alive(task.PID) {
			t.Errorf("%s, process %d, outlives the removal", task.ID, task.PID)
		}
	}
	if _, err := d.StartLoad(context.Background(), proc.Command{Path: "sleep", Args: []string{"60"}}); err == nil {
		t.Error("load can be started on what was removed")
	}
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func (s suite) oneService(t *testing.T) {
	spec := Spec(t, s.mesh, 2, "echo")
	d := s.deploy(t, spec)
	if len(d.Entry()) == 0 {
		t.Fatal("no entry")
	}
	verify(t, d) // first, as in every trial: it waits until the ways between pods are open
	for _, url := range d.Entry() {
		s.get(t, d, url)
	}
	verify(t, d) // and once more: nothing it does spoils the next
	s.tasks(t, d, []string{"echo-0", "echo-1"})
	s.probed(t, d)
	provenance(t, spec)
}

func (s suite) chain(t *testing.T) {
	d := s.deploy(t, Spec(t, s.mesh, 1, "front", "back"))
	verify(t, d)
	s.get(t, d, d.Entry()[0])
	s.tasks(t, d, []string{"front-0", "back-0"})
}

// load starts a worker and finds it in the load plane for as long as it runs.
func (s suite) load(t *testing.T) {
	d := s.deploy(t, Spec(t, s.mesh, 1, "echo"))
	out, in := io.Pipe()
	defer in.Close()
	command := s.traits.Work
	command.Stdout = in
	worker, err := d.StartLoad(t.Context(), command)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); !strings.HasPrefix(line, s.traits.Says) {
		t.Errorf("the worker's output is %q, %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	if n := count(t, d, metric.Load); n != 1 {
		t.Errorf("%d tasks in the load plane, want 1", n)
	}
	if err := worker.Stop(t.Context(), patience); err != nil {
		t.Error(err)
	}
	if n, want := count(t, d, metric.Load), len(s.traits.Standing); n != want {
		t.Errorf("%d tasks in the load plane after its end, want %d", n, want)
	}
	if w, ok := d.(platform.Watcher); ok && w.Err() != nil {
		t.Errorf("a load worker that ends breaks the deployment: %v", w.Err())
	}
}

// killed ends an application behind the platform's back.
func (s suite) killed(t *testing.T) {
	d := s.deploy(t, Spec(t, s.mesh, 1, "echo"))
	w, ok := d.(platform.Watcher)
	if !ok {
		t.Skip("this platform does not watch its tasks")
	}
	if err := w.Err(); err != nil {
		t.Fatal(err)
	}
	all, err := d.Tasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(task platform.Task) bool { return task.Plane == metric.App })
	if i < 0 {
		t.Fatalf("no application in %v", all)
	}
	if s.traits.Kill != nil {
		s.traits.Kill(t, all[i])
	} else if all[i].PID == 0 || syscall.Kill(all[i].PID, syscall.SIGKILL) != nil {
		t.Fatalf("no application process in %v", all)
	}
	deadline, tick := time.After(patience), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for w.Err() == nil {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("a killed application is not noticed")
		}
	}
	if text := w.Err().Error(); !strings.Contains(text, all[i].ID) || !strings.Contains(text, "killed") {
		t.Errorf("the error names neither task nor cause: %s", text)
	}
	if v, ok := d.(platform.Verifier); ok {
		if _, err := v.Verify(t.Context()); err == nil {
			t.Error("what is broken can be verified")
		}
	}
}

func (s suite) get(t *testing.T, d platform.Deployment, url string) {
	t.Helper()
	ask := s.traits.Get
	if ask == nil {
		ask = get
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	status, n, err := ask(ctx, d, url)
	if err != nil || status != http.StatusOK || n != responseSize {
		t.Errorf("%s answers %d with %d bytes, %v", url, status, n, err)
	}
}

func get(ctx context.Context, _ platform.Deployment, url string) (int, int64, error) {
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

func verify(t *testing.T, d platform.Deployment) {
	t.Helper()
	v, ok := d.(platform.Verifier)
	if !ok {
		t.Error("the deployment cannot be verified")
		return
	}
	checks, err := v.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(checks) == 0 {
		t.Error("nothing was verified")
	}
	names := map[string]bool{}
	for _, c := range checks {
		if !c.OK {
			t.Errorf("%s: %s (hint: %s)", c.Name, c.Detail, c.Hint)
		}
		if c.Name == "" || c.Detail == "" || names[c.Name] {
			t.Errorf("a check lacks evidence, or its name is not its own: %+v", c)
		}
		names[c.Name] = true
		t.Logf("%s: %s", c.Name, c.Detail)
	}
}

// probed holds that the calibration probe leaves the deployment as it was, and says what the work took.
func (s suite) probed(t *testing.T, d platform.Deployment) {
	t.Helper()
	p, ok := d.(platform.Probed)
	if !ok {
		return
	}
	r, err := p.Probe(t.Context())
	if us, ok := r.Microseconds(); err != nil || !ok || us <= 0 || r.Work == "" || r.At.IsZero() || r.Took <= 0 {
		t.Errorf("the calibration probe says %+v, %v", r, err)
	}
	if w, ok := d.(platform.Watcher); ok && w.Err() != nil {
		t.Errorf("the calibration probe breaks the deployment: %v", w.Err())
	}
	s.get(t, d, d.Entry()[0])
}

// tasks holds that each pod has its application and, with a mesh, its data plane, and
// that the control plane is there, each in its plane.
func (s suite) tasks(t *testing.T, d platform.Deployment, pods []string) {
	t.Helper()
	m := s.mesh
	all, err := d.Tasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	ids := map[string]bool{}
	for _, task := range all {
		if task.Plane == metric.Platform {
			continue // of the cluster, however many
		}
		pod, _, _ := strings.Cut(task.ID, "/")
		seen[fmt.Sprintf("%s %s", pod, task.Plane)]++
		if ids[task.ID] {
			t.Errorf("two tasks are called %s", task.ID)
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
	for _, name := range s.traits.Standing {
		want[name+" load"] = 1
	}
	if m.Local != nil {
		for _, c := range m.Local.Control {
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
			t.Errorf("%d tasks of %s, want %d; there are %v", seen[k], k, n, seen)
		}
	}
	for k := range seen {
		if want[k] == 0 {
			t.Errorf("unexpected task: %s", k)
		}
	}
}

func count(t *testing.T, d platform.Deployment, plane metric.Plane) (n int) {
	t.Helper()
	all, err := d.Tasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range all {
		if task.Plane == plane {
			n++
		}
	}
	return n
}

// provenance holds that something is kept, and no secret among it.
func provenance(t *testing.T, spec platform.Spec) {
	t.Helper()
	files, err := os.ReadDir(spec.Provenance)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Error("nothing is kept in provenance")
	}
	for _, f := range files {
		b, err := os.ReadFile(spec.Provenance + "/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte("PRIVATE KEY")) {
			t.Errorf("%s has a private key in it", f.Name())
		}
	}
}
