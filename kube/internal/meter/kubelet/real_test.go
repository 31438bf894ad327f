package kubelet

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/part"
)

// The cluster of this part has a kubelet that refreshes its counters every 10 to 20 s.
var _ = part.Of("cadvisor", TestRealKubeletAgainstControlGroup)

func TestMain(m *testing.M) { part.M{M: m}.Run() }

// burner starts a pod that burns CPU. It returns its tasks, and their CPU time by their control groups at a moment.
func burner(t *testing.T, c *cluster.Cluster) (tasks []platform.Task, value func(name string, at time.Time) (int64, bool)) {
	t.Helper()
	groups := map[string]func(time.Time) (int64, bool){}
	for _, k := range clustertest.Burner(t, c) {
		groups[k.Name] = clustertest.Follow(t, k.ID)
		tasks = append(tasks, task(k.Name, k.Namespace, k.Pod, k.Name))
		if k.Sidecar != (k.Name == "proxy") || k.Limited != (k.Name != "idle") || k.Node == "" {
			t.Errorf("%+v", k)
		}
	}
	if len(tasks) != 3 {
		t.Fatalf("%+v: want app, proxy and idle, and not setup, which has ended", tasks)
	}
	return tasks, func(name string, at time.Time) (int64, bool) { return groups[name](at) }
}

// The kubelet's CPU of a container, a native sidecar included, equals the CPU of its
// control group, between the same two moments.
func TestRealKubeletAgainstControlGroup(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("TestKubernetesMetersAgree reads the kubelet too: make e2e-all runs it")
	}
	c := clustertest.Connect(t)
	tasks, value := burner(t, c)
	m := must.Get(Open(t.Context(), c))(t)
	p, err := m.Probe(t.Context())
	if err != nil {
		t.Fatalf("%+v, %v", p, err)
	} else if d := difftest.Wrong("p.Containers > Longest", p.Containers > Longest, "p.Node > Longest", p.Node > Longest, "p.Intervals < 5", p.Intervals < 5); d != "" {
		t.Fatalf("%s: %+v, %v", d, p, err)
	}
	t.Logf("refreshed every %v (containers) and %v (node), of %d intervals", p.Containers, p.Node, p.Intervals)
	first := settledLook(t, m, tasks, value)
	last := first
	for end := time.Now().Add(30 * time.Second); ; {
		must.OK(t, wait.For(t.Context(), 2*time.Second))
		last, err = m.Read(t.Context(), tasks, meter.Edge)
		read := err == nil && last.Gap == nil // a busy kubelet may not answer in time
		late := time.Now().After(end)
		if read && late && moved(first, last, tasks, 15*time.Second) && moved(first, last, last.Found, 15*time.Second) {
			break
		}
		if time.Now().After(end.Add(2 * Longest)) {
			t.Fatalf("the counters did not move: %+v and %+v, %v", first, last, err)
		}
	}
	for _, want := range []struct {
		name  string
		cores float64
	}{{"app", clustertest.BurnerCores}, {"proxy", clustertest.BurnerCores / 2}} {
		a, b := first.Tasks[want.name], last.Tasks[want.name]
		got := float64(b.CPU-a.CPU) / float64(b.At.Sub(a.At))
		own := between(t, value, want.name, a, b)
		t.Logf("%s: kubelet %.4f cores, control group %.4f, over %v; peak %d of %d; throttling known: %v", want.name, got, own, b.At.Sub(a.At), b.Peak, b.RSS, b.Throttled != nil)
		if math.Abs(got/own-1) > 0.02 {
			t.Errorf("%s: the kubelet has %.4f cores, the control group %.4f", want.name, got, own)
		}
		if got > 1.1*want.cores || got < 0.3*want.cores { // on a machine in use it may get less than it may take
			t.Errorf("%s burned %.3f cores, and may burn %.2f", want.name, got, want.cores)
		}
		if b.Throttled == nil && p.Containers > 0 {
			t.Errorf("%s: %+v", want.name, b)
		} else if d := difftest.Wrong("b.Throttled != nil && *b.Throttled <= *a.Throttled", b.Throttled != nil && *b.Throttled <= *a.Throttled, "b.Peak < b.RSS", b.Peak < b.RSS, "b.RSS == 0", b.RSS == 0, "b.Restarts != 0", b.Restarts != 0); d != "" {
			t.Errorf("%s: %s: %+v", d, want.name, b)
		}
	}
	if idle := last.Tasks["idle"]; idle.Throttled == nil || *idle.Throttled != 0 || idle.CPU > int64(time.Second) {
		t.Errorf("%+v", idle)
	}
	sane(t, first, last)
}

// sane checks a node's usage: the pods' usage is part of it, and its CPUs are the limit.
func sane(t *testing.T, first, last meter.Look) {
	t.Helper()
	if last.Node == nil || len(last.Nodes) != 1 {
		t.Fatalf("%+v", last)
	} else if d := difftest.Wrong("last.Nodes[0].AllocatableCPU <= 0", last.Nodes[0].AllocatableCPU <= 0, "last.Nodes[0].AllocatableMemory <= 0", last.Nodes[0].AllocatableMemory <= 0, "last.Node.Memory <= 0", last.Node.Memory <= 0); d != "" {
		t.Fatalf("%s: %+v", d, last)
	}
	cores := map[string]float64{}
	for _, f := range last.Found {
		a, b := first.Tasks[f.ID], last.Tasks[f.ID]
		cores[f.Container] = float64(b.CPU-a.CPU) / float64(b.At.Sub(a.At))
	}
	whole := float64(last.Node.Busy-first.Node.Busy) / float64(last.Node.At.Sub(first.Node.At))
	t.Logf("node: %.3f cores of %d, of them beside the pods: %v", whole, last.NodeCPUs, cores)
	if whole <= 0.4*0.45 || whole > 1.02*float64(last.NodeCPUs) {
		t.Errorf("the node burned %.3f of its %d cores", whole, last.NodeCPUs)
	}
	if cores["kubelet"] <= 0 || cores["kernel"] < 0 || cores["kernel"] >= whole {
		t.Errorf("%v of %.3f", cores, whole)
	}
}

func between(t *testing.T, value func(string, time.Time) (int64, bool), name string, a, b result.Reading) float64 {
	t.Helper()
	// A current counter may be newer than the followed one. The followed one then needs one more reading.
	for end := time.Now().Add(10 * time.Second); ; {
		from, ok := value(name, a.At)
		to, too := value(name, b.At)
		if ok && too {
			return float64(to-from) / float64(b.At.Sub(a.At))
		}
		if time.Now().After(end) {
			t.Fatalf("%s: the control group was not read at %v and %v", name, a.At, b.At)
		}
		must.OK(t, wait.For(t.Context(), 50*time.Millisecond))
	}
}

// settledLook returns the first look with all counters read while the control groups were followed.
func settledLook(t *testing.T, m *Meter, tasks []platform.Task, value func(string, time.Time) (int64, bool)) meter.Look {
	t.Helper()
	var l meter.Look
	var err error
	for end := time.Now().Add(3 * Longest); time.Now().Before(end); {
		l, err = m.Read(t.Context(), tasks, meter.Edge)
		// A busy kubelet may not answer in time.
		ready := err == nil && l.Gap == nil && len(l.Missing) == 0 && l.Node != nil && len(l.Found) > 1
		must.OK(t, wait.For(t.Context(), time.Second))
		for _, k := range tasks {
			_, known := value(k.ID, l.Tasks[k.ID].At)
			ready = ready && known
		}
		if ready {
			return l
		}
	}
	t.Fatalf("the kubelet does not come to know the pod: %+v, %v", l, err)
	return meter.Look{}
}

func moved(first, last meter.Look, tasks []platform.Task, by time.Duration) bool {
	for _, k := range tasks {
		if last.Tasks[k.ID].At.Sub(first.Tasks[k.ID].At) < by {
			return false
		}
	}
	return last.Node != nil && last.Node.At.Sub(first.Node.At) >= by
}

// The error of CPU over a measure phase from the kubelet's counters, by the pair of
// readings nearest to its edges. The reference is the container's control group. Phases
// have several lengths and begin at any time. The results are in
// docs/reference/kubernetes.md.
func TestRealErrorByLength(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("measures for three minutes: make e2e-all runs it")
	}
	c := clustertest.Connect(t)
	tasks, value := burner(t, c)
	m := must.Get(Open(t.Context(), c))(t)
	tasks = slices.DeleteFunc(tasks, func(k platform.Task) bool { return k.ID != "app" })
	settledLook(t, m, tasks, value)
	var app line
	begin := time.Now()
	for time.Since(begin) < 150*time.Second {
		l := must.Get(m.Read(t.Context(), tasks, meter.Counters))(t)
		if r, ok := l.Tasks["app"]; ok {
			app.keep(r)
		}
		must.OK(t, wait.For(t.Context(), time.Second))
	}
	longest := time.Duration(0)
	for i := 1; i < len(app); i++ {
		longest = max(longest, app[i].at.Sub(app[i-1].at))
	}
	for _, length := range []time.Duration{10, 20, 30, 40, 60} {
		length *= time.Second
		var errs []float64
		for from := app[0].at.Add(longest); from.Add(length + longest).Before(app[len(app)-1].at); from = from.Add(time.Second) {
			a, b := app.nearest(from, from.Add(length))
			x, ok := value("app", from)
			y, too := value("app", from.Add(length))
			if !ok || !too || a == b {
				continue
			}
			got := float64(b.cpu-a.cpu) / float64(b.at.Sub(a.at))
			errs = append(errs, math.Abs(got/(float64(y-x)/float64(length))-1))
		}
		if len(errs) == 0 {
			continue
		}
		slices.Sort(errs)
		t.Logf("measure %v, refresh %v at most: of %d windows CPU is off by %.2f %% (median), %.2f %% (95 of 100), %.2f %% (worst)", length, longest.Round(100*time.Millisecond),
			len(errs), 100*errs[len(errs)/2], 100*errs[len(errs)*95/100], 100*errs[len(errs)-1])
	}
}

func (l *line) keep(r result.Reading) {
	if n := len(*l); n == 0 || r.At.After((*l)[n-1].at) {
		*l = append(*l, point{r.At, r.CPU})
	}
}

func (l line) nearest(from, to time.Time) (a, b point) {
	best := time.Duration(math.MaxInt64)
	for i, p := range l {
		for _, q := range l[i+1:] {
			if off := p.at.Sub(from).Abs() + q.at.Sub(to).Abs(); off < best {
				a, b, best = p, q, off
			}
		}
	}
	return a, b
}
