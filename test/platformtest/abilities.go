package platformtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
)

// abilityTests has a test for each field of [platform.Deployment], in this order.
// Each leaves the deployment running, the last excepted.
var abilityTests = []struct {
	name string
	test func(suite, *testing.T, *platform.Deployment)
}{
	{"Verify", func(_ suite, t *testing.T, d *platform.Deployment) { verify(t, d) }},
	{"Warnings", suite.warner},
	{"LoadWorkers", suite.loadWorkers},
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
	if c := p.CounterRefresh; c != nil && (c.Refresh() < 0 || c.NodeRefresh() < 0) {
		t.Errorf("counters are refreshed every %v, those of nodes every %v", c.Refresh(), c.NodeRefresh())
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
	if d.Broken() != nil {
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
