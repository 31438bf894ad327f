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
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/run/platform"
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
	if d.Broken != nil && d.Broken() != nil {
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
	if d.Verify == nil {
		t.Error("the deployment declares no Verify")
		return
	}
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

// abilityTests has a test for each field of [platform.Deployment], in this order.
// Each leaves the deployment running, the last excepted.
var abilityTests = []struct {
	name string
	test func(suite, *testing.T, *platform.Deployment)
}{
	{"Verify", func(_ suite, t *testing.T, d *platform.Deployment) { verify(t, d) }},
	{"Probe", suite.prober},
	{"Warnings", suite.warner},
	{"LoadWorkers", suite.loadWorkers},
	{"CounterRefresh", suite.counterRefresh},
	{"MeshCounters", suite.meshCounters},
	{"RequestCounts", suite.requestCounters},
	{"CheckConnections", suite.connections},
	{"Configurer", suite.configurer},
	{"Changer", suite.changer},
	{"Moments", suite.moments}, // after the changes of Changer
	{"ControlTimes", suite.controlTimer},
	{"Background", suite.background},
	{"Serial", suite.certificates},
	{"NetworkFaults", suite.networkFaults},
	{"Restarter", suite.restarter},
	{"Scaler", suite.scaler},
	{"TaskFaults", suite.taskFaults},
	{"Ended", suite.endedTasks}, // after a test that ends tasks
	{"StopAndStart", suite.starter},
	{"Visitors", suite.visitors},
	{"Broken", suite.watcher}, // breaks the deployment
}

// abilities checks that exactly the expected abilities are declared, and that each works.
func (s suite) abilities(t *testing.T) {
	p := s.newPlatform(t)
	for _, problem := range compare(declared(p), s.traits.PlatformAbilities) {
		t.Errorf("platform: %s", problem)
	}
	if p.CounterRefresh != nil && p.CounterRefresh.Refresh() < 0 {
		t.Errorf("the platform's counters are refreshed every %v", p.CounterRefresh.Refresh())
	}
	spec, expected := Spec(t, s.mesh, 1, "echo"), s.traits.Abilities
	spec.Changing = s.traits.Change != nil // answers name their pod
	local := s.mesh.Local
	if local != nil && local.Background != nil { // an ability of the mesh, not of this machine
		expected = append(slices.Clone(expected), "Background")
	}
	if slices.Contains(expected, "Background") {
		spec.Treatment.Levels.BackgroundServices, spec.Treatment.Levels.BackgroundProxies = 3, simulatedProxies(local)
	}
	d := s.deploy(t, p, spec)
	abilities := declared(*d)
	for _, problem := range compare(abilities, expected) {
		t.Errorf("deployment: %s", problem)
	}
	verify(t, d) // it waits until pods reach each other
	for _, a := range abilityTests {
		if slices.Contains(abilities, a.name) {
			t.Run(a.name, func(t *testing.T) { a.test(s, t, d) })
		}
	}
}

// declared returns the names of the abilities in v, a [platform.Platform] or [platform.Deployment].
func declared(v any) (names []string) {
	value := reflect.ValueOf(v)
	for i := range value.NumField() {
		if field := value.Type().Field(i); !field.Anonymous && field.Type.Kind() != reflect.String && !value.Field(i).IsZero() {
			names = append(names, field.Name)
		}
	}
	return names
}

// compare returns a sentence for each name in one of the lists only.
func compare(got, want []string) (problems []string) {
	for _, name := range want {
		if !slices.Contains(got, name) {
			problems = append(problems, fmt.Sprintf("does not declare %s", name))
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			problems = append(problems, fmt.Sprintf("declares %s, which its table of abilities lacks", name))
		}
	}
	return problems
}

func (s suite) prober(t *testing.T, d *platform.Deployment) {
	r, err := d.Probe(t.Context())
	if us, ok := r.Microseconds(); err != nil || !ok || us <= 0 || r.Work == "" || r.At.IsZero() || r.Took <= 0 {
		t.Errorf("the calibration probe returns %+v, %v", r, err)
	}
	s.intact(t, d)
}

func (s suite) warner(t *testing.T, d *platform.Deployment) {
	for _, w := range d.Warnings() {
		if w.Code == "" || w.Message == "" {
			t.Errorf("a warning without code or message: %+v", w)
		}
	}
}

func (s suite) connections(t *testing.T, d *platform.Deployment) {
	tasks := must.Get(d.Tasks(t.Context()))(t)
	checks, err := d.CheckConnections(t.Context(), tasks)
	if err != nil {
		t.Error(err)
	}
	if c, failed := check.Failed(checks); failed {
		t.Errorf("%s: %s", c.Name, c.Detail)
	}
	s.intact(t, d)
}

func (s suite) loadWorkers(t *testing.T, d *platform.Deployment) {
	for i := range d.LoadWorkers.LoadWorkers() {
		ahead, unsure, err := d.LoadWorkers.LoadClock(t.Context(), i)
		if err != nil || unsure < 0 || ahead.Abs() > time.Hour {
			t.Errorf("the clock of load worker %d is %v ahead, within %v, %v", i, ahead, unsure, err)
		}
	}
}

func (s suite) counterRefresh(t *testing.T, d *platform.Deployment) {
	if refresh, nodes := d.CounterRefresh.Refresh(), d.CounterRefresh.NodeRefresh(); refresh < 0 || nodes < 0 {
		t.Errorf("counters are refreshed every %v, those of nodes every %v", refresh, nodes)
	}
}

// visitors: nothing comes and goes in a moment before the deployment.
func (s suite) visitors(t *testing.T, d *platform.Deployment) {
	if v := d.Visitors(time.Time{}, time.Unix(1, 0)); len(v) > 0 {
		t.Errorf("visitors in 1970: %+v", v)
	}
}

func (s suite) meshCounters(t *testing.T, d *platform.Deployment) {
	counters, err := d.MeshCounters(t.Context())
	if err != nil {
		t.Error(err)
	}
	all := map[string]int64{}
	for _, proxy := range counters {
		for name, n := range proxy {
			all[name] = min(all[name], n)
		}
	}
	for _, problem := range counterProblems(s.mesh, all) {
		t.Error(problem)
	}
}

// counterProblems returns a sentence for each difference from the counters that the mesh's definition names.
func counterProblems(m mesh.Definition, counters map[string]int64) (problems []string) {
	var want []string
	if m.Local != nil {
		names, err := m.Local.Counters(mesh.SidecarContext{Pod: "echo-0", Outbound: []mesh.Outbound{{Service: "echo"}}})
		if err != nil {
			return []string{err.Error()}
		}
		if names.Outbound[0].Retries != "" {
			want = append(want, "retries")
		}
		if names.Outbound[0].Timeouts != "" {
			want = append(want, "timeouts")
		}
	}
	if got := slices.Sorted(maps.Keys(counters)); !slices.Equal(got, want) {
		problems = append(problems, fmt.Sprintf("counters %v, want %v", got, want))
	}
	for name, n := range counters {
		if n < 0 {
			problems = append(problems, fmt.Sprintf("counter %s is %d", name, n))
		}
	}
	return problems
}

// requestCounters checks that each request is counted once at every point of its way.
func (s suite) requestCounters(t *testing.T, d *platform.Deployment) {
	const answers = 3 // of one request or more each
	read := func(ctx context.Context) []balance.Count {
		counts := must.Get(d.RequestCounts(ctx))(t)
		return counts
	}
	before := read(t.Context())
	for range answers {
		must.OK(t, s.answers(t.Context(), d, d.Entry()[0]))
	}
	s.eventually(t, "all points count the same requests", func(ctx context.Context) bool {
		var served int64
		var counts []int64
		for _, f := range balance.Changes(before, read(ctx)) {
			switch {
			case f.Unit != balance.Requests || f.Unknown != "" && f.Point != balance.Served:
				continue // a proxy may count connections only
			case f.Unknown != "":
				t.Errorf("%+v", f)
			case f.Point == balance.Served:
				served = f.Count
			}
			counts = append(counts, f.Count)
		}
		return served >= answers && slices.Min(counts) == served && slices.Max(counts) == served
	})
}

func (s suite) configurer(t *testing.T, d *platform.Deployment) {
	id := appVictim(t, d).ID
	undo := must.Get(d.Configurer.Configure(t.Context(), id, []byte(`{"errors":{"ratio":1,"status":503}}`)))(t)
	s.eventually(t, "requests fail", func(ctx context.Context) bool { return s.answers(ctx, d, d.Entry()[0]) != nil })
	if config, err := d.Configurer.Configuration(t.Context(), id); err != nil || !strings.Contains(string(config), `"status": 503`) {
		t.Errorf("configuration %s, %v", config, err)
	}
	if _, err := d.Configurer.Configure(t.Context(), id, undo); err != nil {
		t.Fatal(err)
	}
	s.intact(t, d)
}

// changer makes each kind of change that the mesh can, and sees it in the answers.
func (s suite) changer(t *testing.T, d *platform.Deployment) {
	if s.traits.Change != nil {
		s.traits.Change(t, d)
		s.intact(t, d)
		return
	}
	endpoints := d.Changer.Endpoints()
	if len(endpoints) != 1 {
		t.Fatalf("endpoints %v, want one", endpoints)
	}
	served := func(ctx context.Context) (text string, status int) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.Entry()[0], nil)
		if err != nil {
			return err.Error(), 0
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err.Error(), 0
		}
		resp.Body.Close()
		return resp.Header.Get(load.VersionHeader), resp.StatusCode
	}
	for _, c := range []struct {
		platform.Change
		seen func(text string, status int) bool
	}{
		{platform.Change{Kind: metric.RouteChanged, Version: 7, Endpoints: endpoints}, func(text string, status int) bool {
			version, by, _ := strings.Cut(text, " ")
			return version == "7" && (by == "" || by == endpoints[0]) && status == http.StatusOK
		}},
		{platform.Change{Kind: metric.WeightShifted, Version: 8, Endpoints: endpoints}, func(text string, status int) bool {
			return strings.HasPrefix(text, "8 ") && status == http.StatusOK
		}},
		{platform.Change{Kind: metric.RouteAdded, Version: 9, Endpoints: endpoints}, func(text string, status int) bool {
			return strings.HasPrefix(text, "9 ") && status == http.StatusOK
		}},
		{platform.Change{Kind: metric.PolicyDenied, Version: 9}, func(_ string, status int) bool { return status == http.StatusForbidden }},
		{platform.Change{Kind: metric.PolicyAllowed, Version: 9}, func(_ string, status int) bool { return status == http.StatusOK }},
		{platform.Change{Kind: metric.EndpointRemoved, Version: 7, Endpoint: endpoints[0]}, func(_ string, status int) bool { return status == http.StatusServiceUnavailable }},
		{platform.Change{Kind: metric.EndpointAdded, Version: 7, Endpoint: endpoints[0], Endpoints: endpoints}, func(_ string, status int) bool { return status == http.StatusOK }},
	} {
		if local := s.mesh.Local; local != nil && slices.Contains(local.Changes[c.Kind].Without, metric.RouteChanged) {
			continue // an experiment has the one or the other
		}
		err := d.Changer.Change(t.Context(), c.Change)
		if can := s.mesh.CanChange(mesh.OnLocal, c.Kind) == nil; can != (err == nil) {
			t.Errorf("%s: got %v, and the mesh can make it: %v", c.Kind, err, can)
		}
		if err == nil {
			s.eventually(t, c.Kind, func(ctx context.Context) bool { return c.seen(served(ctx)) })
		}
	}
	s.intact(t, d)
}

// moments reads the changes that [suite.changer] made: their instants have an order, and no proxy updates in the future.
func (s suite) moments(t *testing.T, d *platform.Deployment) {
	all, err := d.Moments.ControlMoments(t.Context())
	if counts := s.mesh.Local != nil && s.mesh.Local.Moments != nil; err != nil || counts != (len(all) > 0) {
		t.Errorf("%d changes, %v, and the control plane counts them: %v", len(all), err, counts)
	}
	for i, m := range all {
		if m.ReceivedNS > m.SentNS || m.SentNS > time.Now().UnixNano() || i > 0 && m.SentNS < all[i-1].SentNS {
			t.Errorf("change %d: %+v", i+1, m)
		}
	}
	updates, err := d.Moments.ProxyUpdates(t.Context())
	if err != nil || len(all) > 0 && len(updates) == 0 {
		t.Errorf("updates of proxies: %v, %v", updates, err)
	}
	for proxy, times := range updates {
		for _, at := range times {
			if at.After(time.Now()) || at.Before(time.Now().Add(-time.Hour)) {
				t.Errorf("proxy %s was updated at %v", proxy, at)
			}
		}
	}
}

// controlTimer reads the stages of the control plane, as far as the mesh's definition has them.
func (s suite) controlTimer(t *testing.T, d *platform.Deployment) {
	all, err := d.ControlTimes(t.Context())
	if k := s.mesh.Kubernetes; err != nil || (k != nil && len(k.ControlTimes) > 0) != (len(all) > 0) {
		t.Errorf("%+v, %v", all, err)
	}
}

// simulatedProxies is the number of simulated proxies in a test: none if the mesh has no address for them.
func simulatedProxies(l *mesh.Local) int {
	if l == nil || l.Background == nil || l.Background.Proxies == "" {
		return 0
	}
	return 5
}

// background changes services that no request calls: the entry's answers stay, and each change reaches every simulated proxy.
func (s suite) background(t *testing.T, d *platform.Deployment) {
	for number := range 4 {
		if err := d.Background.ChangeBackground(t.Context(), number+1); err != nil {
			t.Errorf("change %d: %v", number+1, err)
		}
	}
	if n := simulatedProxies(s.mesh.Local); n > 0 {
		reached := map[int]bool{}
		s.eventually(t, "the last change at every simulated proxy", func(ctx context.Context) bool {
			r, err := d.Background.Received(ctx)
			if err != nil || r == nil || r.Proxies != n || r.Synced != n {
				t.Fatalf("the simulated proxies have %+v, %v", r, err)
			}
			for _, a := range r.Arrivals {
				for i, us := range a.AtUS {
					reached[i] = reached[i] || a.Number == 4 && us > 0
				}
			}
			return len(reached) == n && !slices.Contains(slices.Collect(maps.Values(reached)), false)
		})
	}
	s.intact(t, d)
}

// certificates reads the certificate of a sidecar, which stays until it is renewed.
func (s suite) certificates(t *testing.T, d *platform.Deployment) {
	endpoint := d.Changer.Endpoints()[0]
	read := func(ctx context.Context) string {
		serial, err := d.Serial(ctx, endpoint)
		if (err == nil) != s.mesh.Provides.MTLS {
			t.Fatalf("serial number %q, %v, and the mesh has mutual TLS: %v", serial, err, s.mesh.Provides.MTLS)
		}
		return serial
	}
	before := read(t.Context())
	if again := read(t.Context()); again != before {
		t.Errorf("the serial number is %s, and was %s before", again, before)
	}
	if s.mesh.CanChange(mesh.OnLocal, metric.CertificateRenewed) != nil {
		return
	}
	must.OK(t, d.Changer.Change(t.Context(), platform.Change{Kind: metric.CertificateRenewed, Version: 10, Endpoint: endpoint}))
	s.eventually(t, "the new certificate", func(ctx context.Context) bool { return read(ctx) != before })
	s.intact(t, d)
}

// starter stops and starts a pod, and each part of it answers.
func (s suite) starter(t *testing.T, d *platform.Deployment) {
	all, err := d.StopAndStart(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%d pods started: %v", len(all), err)
	}
	did := all[0]
	for _, part := range []string{"app", "through"} {
		if took := did.First[part]; took <= 0 {
			t.Errorf("%s answers %v after its start", part, took)
		}
	}
	if _, gone := did.Gone["app"]; !gone {
		t.Error("the application did not end")
	}
	if _, has := did.First["outbound"]; has {
		t.Error("an application that calls nothing has a first call")
	}
	s.intact(t, d)
}

// networkFaults needs privileges on some systems. Without them the platform must return ErrUnsupported.
func (s suite) networkFaults(t *testing.T, d *platform.Deployment) {
	pod, lost := appVictim(t, d).Pod, platform.Impairment{Loss: 1}
	err := d.NetworkFaults.Impair(t.Context(), pod, lost)
	if errors.Is(err, errors.ErrUnsupported) {
		if supported := s.newPlatform(t).Faults.CanImpair(lost); !errors.Is(supported, errors.ErrUnsupported) {
			t.Errorf("CanImpair returns %v, Impair %v", supported, err)
		}
		return
	}
	must.OK(t, err)
	s.eventually(t, "requests fail", func(ctx context.Context) bool { return s.answers(ctx, d, d.Entry()[0]) != nil })
	for range 2 {
		if err := d.NetworkFaults.Mend(t.Context(), pod); err != nil {
			t.Error(err)
		}
	}
	s.intact(t, d)
}

// restarter restarts a pod of the entry, by its place: its name may be another afterwards.
func (s suite) restarter(t *testing.T, d *platform.Deployment) {
	before := d.Restarter.Restartable(metric.Data)
	if len(before) == 0 {
		t.Fatal("nothing of the data plane can be restarted")
	}
	must.OK(t, d.Restarter.Restart(t.Context(), metric.Data, before[0], 0))
	if after := d.Restarter.Restartable(metric.Data); len(after) != len(before) {
		t.Errorf("%v can be restarted, then %v", before, after)
	}
	s.intact(t, d)
}

func (s suite) scaler(t *testing.T, d *platform.Deployment) {
	pod := appVictim(t, d).Pod
	for range 2 {
		must.OK(t, d.Scaler.Shrink(t.Context(), pod, 0))
	}
	if v := appVictim(t, d); v.Up {
		t.Errorf("%s runs after Shrink", v.ID)
	}
	must.OK(t, d.Scaler.Grow(t.Context(), pod))
	s.intact(t, d)
}

func (s suite) taskFaults(t *testing.T, d *platform.Deployment) {
	ids := map[string]bool{}
	for _, v := range d.TaskFaults.Victims() {
		service := v.Service != "" || v.Plane == metric.Control // which belongs to no service
		if ids[v.ID] || !v.Up || v.Pod == "" || !service {
			t.Errorf("victim %+v", v)
		}
		ids[v.ID] = true
	}
	id := appVictim(t, d).ID
	for _, frozen := range []bool{true, false} {
		if err := d.TaskFaults.Freeze(t.Context(), id, frozen); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	}
	for _, grace := range []time.Duration{0, 2 * time.Second} {
		for range 2 {
			must.OK(t, d.TaskFaults.End(t.Context(), id, grace))
		}
		must.OK(t, d.TaskFaults.Restart(t.Context(), id))
		s.intact(t, d)
	}
}

// endedTasks runs after taskFaults, which ends one application twice.
func (s suite) endedTasks(t *testing.T, d *platform.Deployment) {
	id := appVictim(t, d).ID
	n := 0
	for _, e := range d.Ended() {
		if strings.HasPrefix(e.ID, id) {
			n++
		}
		if e.CPU <= 0 {
			t.Errorf("ended task %+v has used nothing", e)
		}
	}
	if n != 2 {
		t.Errorf("%d ended tasks of %s, want 2", n, id)
	}
}

// watcher ends an application without the platform.
func (s suite) watcher(t *testing.T, d *platform.Deployment) {
	must.OK(t, d.Broken())
	all := must.Get(d.Tasks(t.Context()))(t)
	i := slices.IndexFunc(all, func(task platform.Task) bool { return task.Plane == metric.App })
	if i < 0 {
		t.Fatalf("no application in %v", all)
	}
	if s.traits.Kill != nil {
		s.traits.Kill(t, all[i])
	} else if all[i].PID == 0 || syscall.Kill(all[i].PID, syscall.SIGKILL) != nil {
		t.Fatalf("no application process in %v", all)
	}
	s.eventually(t, "the watcher reports the killed application", func(context.Context) bool { return d.Broken() != nil })
	if text := d.Broken().Error(); !strings.Contains(text, all[i].ID) || !strings.Contains(text, "killed") {
		t.Errorf("the error lacks task or cause: %s", text)
	}
	if _, err := d.Verify(t.Context(), platform.Probe{}); err == nil {
		t.Error("a broken deployment is verified")
	}
}

// intact checks that the deployment answers, and that the watcher reports nothing.
func (s suite) intact(t *testing.T, d *platform.Deployment) {
	t.Helper()
	s.eventually(t, "requests succeed", func(ctx context.Context) bool { return s.answers(ctx, d, d.Entry()[0]) == nil })
	if d.Broken != nil && d.Broken() != nil {
		t.Errorf("the deployment is broken: %v", d.Broken())
	}
}

const requestTimeout = 2 * time.Second

func (s suite) eventually(t *testing.T, what string, holds func(context.Context) bool) {
	t.Helper()
	must.OK(t, wait.Within(t.Context(), timeout, 20*time.Millisecond, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		if !holds(ctx) {
			return errors.New("it does not hold: " + what)
		}
		return nil
	}))
}

// appVictim returns the first application that faults can hit.
func appVictim(t *testing.T, d *platform.Deployment) platform.Victim {
	t.Helper()
	if d.TaskFaults == nil {
		t.Fatal("the deployment declares no TaskFaults, which names the tasks")
	}
	for _, v := range d.TaskFaults.Victims() {
		if v.Plane == metric.App {
			return v
		}
	}
	t.Fatal("no application among the victims")
	return platform.Victim{}
}
