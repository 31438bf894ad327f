package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// The answer of a kubelet 1.36, with a pod that has a native sidecar.
const resourceText = `# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container in core-seconds
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="app",namespace="a",pod="p-0"} 1.234567891 1795271164123
container_cpu_usage_seconds_total{container="istio-proxy",namespace="a",pod="p-0"} 0.5 1795271165001
container_memory_working_set_bytes{container="app",namespace="a",pod="p-0"} 8.462336e+06 1795271164123
container_memory_working_set_bytes{container="istio-proxy",namespace="a",pod="p-0"} 3.1e+07 1795271165001
container_memory_working_set_bytes{container="new",namespace="a",pod="p-0"} 4096 1795271165001
container_start_time_seconds{container="app",namespace="a",pod="p-0"} 1.7952761300962274e+09
node_cpu_usage_seconds_total 16757.5 1795271160000
node_memory_working_set_bytes 5.275086848e+09 1795271160000
resource_scrape_error 0
`

// The same containers from cAdvisor: app by its name, the sidecar as a control group only.
const cadvisorText = `# TYPE container_memory_max_usage_bytes gauge
container_cpu_usage_seconds_total{container="",cpu="total",id="/",image="",name="",namespace="",pod=""} x
container_cpu_cfs_throttled_seconds_total{container="app",id="/kubepods/burstable/pod51927d57/aaa1",image="i",name="aaa1",namespace="a",pod="p-0"} 0.25 1795271164123
container_memory_max_usage_bytes{container="",id="/kubepods/burstable/pod51927d57",image="",name="",namespace="a",pod="p-0"} 9.9e+07 1795271164000
container_memory_max_usage_bytes{container="app",id="/kubepods/burstable/pod51927d57/aaa1",image="i",name="aaa1",namespace="a",pod="p-0"} 9.5e+06 1795271164123
container_memory_max_usage_bytes{container="",id="/kubepods.slice/kubepods-pod51927d57.slice/cri-containerd-bbb2.scope",image="",name="",namespace="",pod=""} 3.3e+07 1795271164123
`

const summaryText = `{"node": {"nodeName": "n1", "systemContainers": [
 {"name": "kubelet", "cpu": {"time": "2026-11-21T15:49:05Z", "usageNanoCores": 48084230, "usageCoreNanoSeconds": 7443587585}, "memory": {"workingSetBytes": 386060288}},
 {"name": "runtime", "cpu": {"time": "2026-11-21T15:49:05Z", "usageCoreNanoSeconds": 7443587585}},
 {"name": "misc", "cpu": {"time": "2026-11-21T15:49:05Z"}},
 {"name": "pods", "cpu": {"time": "2026-11-21T15:49:13Z", "usageCoreNanoSeconds": 535554401}}]}, "pods": []}`

// answers has the answers of a node, by path, and other paths are errors.
type answers struct {
	paths      map[string]string
	down       map[string]bool // nodes
	containers []cluster.Container
}

func (s *answers) NodeRead(_ context.Context, node, path string) ([]byte, error) {
	text, ok := s.paths[path]
	if s.down[node] || !ok {
		return nil, errors.New("connection refused")
	}
	return []byte(text), nil
}

func (s *answers) Containers(context.Context, string) ([]cluster.Container, error) {
	return s.containers, nil
}

func whole() *answers {
	return &answers{down: map[string]bool{}, paths: map[string]string{resourcePath: resourceText, summaryPath: summaryText, cadvisorPath: cadvisorText}}
}

func task(id, namespace, pod, container string) platform.Task {
	return platform.Task{Task: mesh.Task{ID: id, Namespace: namespace, Pod: pod, Container: container}}
}

var (
	oneNode = []cluster.Node{{Name: "n1", CPUs: 2, Cores: 1.9, Memory: 1 << 30}}
	inPod   = []platform.Task{task("p-0/app", "a", "p-0", "app"), task("p-0/istio-proxy", "a", "p-0", "istio-proxy"), task("p-0/new", "a", "p-0", "new")}
)

func TestRead(t *testing.T) {
	l := must.Get(Of(whole(), oneNode).Read(t.Context(), inPod, meter.Counters))(t)
	if r := l.Tasks["p-0/app"]; r.Throttled != nil {
		t.Errorf("%+v", r)
	} else if d := difftest.Of("r.CPU", r.CPU, 1234567891, "r.RSS", r.RSS, 8462336, "r.At.UnixMilli()", r.At.UnixMilli(), 1795271164123, "r.Peak", r.Peak, 0); d != "" {
		t.Errorf("%s: %+v", d, r)
	}
	if r := l.Tasks["p-0/istio-proxy"]; r.CPU != 500_000_000 || r.At.UnixMilli() != 1795271165001 {
		t.Errorf("%+v", r)
	}
	// One whose CPU was not read yet has no reading, whatever its memory.
	if l.Missing["p-0/new"] == nil || l.Node == nil || l.Gap != nil {
		t.Errorf("%+v", l)
	} else if d := difftest.Of("l.Node.Busy", l.Node.Busy, 16757500000000, "l.Node.Memory", l.Node.Memory, 5275086848, "l.NodeCPUs", l.NodeCPUs, 2); d != "" {
		t.Errorf("%s: %+v", d, l)
	}
	if n := l.Nodes; len(n) != 1 {
		t.Errorf("%+v", n)
	} else if d := difftest.Of("n[0].AllocatableCPU", n[0].AllocatableCPU, 1.9, "n[0].AllocatableMemory", n[0].AllocatableMemory, 1<<30, "n[0].Reading", n[0].Reading, *l.Node); d != "" {
		t.Errorf("%s: %+v", d, n)
	}
	// The kubelet shares its control group with the runtime: it is counted once.
	if len(l.Found) != 1 {
		t.Errorf("%+v", l.Found)
	} else if d := difftest.Of("l.Found[0].ID", l.Found[0].ID, "n1/kubelet", "l.Found[0].Plane", l.Found[0].Plane, metric.Node, `l.Tasks["n1/kubelet"].CPU`, l.Tasks["n1/kubelet"].CPU, 7443587585); d != "" {
		t.Errorf("%s: %+v", d, l.Found)
	}
}

// An edge has more values: by the container's name, or by its ID if cAdvisor has the
// control group only. Values that neither has are absent.
func TestEdge(t *testing.T) {
	s := whole()
	s.containers = []cluster.Container{
		{Namespace: "a", Pod: "p-0", Name: "app", ID: "aaa1", Restarts: 3, OOMKilled: true, Limited: true},
		{Namespace: "a", Pod: "p-0", Name: "istio-proxy", ID: "bbb2", Sidecar: true, Limited: true},
	}
	m := Of(s, oneNode)
	read := func() (meter.Look, error) { return m.Read(t.Context(), inPod, meter.Edge) }
	l := must.Get(read())(t)
	if r := l.Tasks["p-0/app"]; r.Throttled == nil {
		t.Errorf("%+v", r)
	} else if d := difftest.Of("r.Peak", r.Peak, 9500000, "*r.Throttled", *r.Throttled, 250_000_000, "r.Restarts", r.Restarts, 3, "r.OOMKills", r.OOMKills, 1); d != "" {
		t.Errorf("%s: %+v", d, r)
	}
	if r := l.Tasks["p-0/istio-proxy"]; r.Throttled == nil {
		t.Errorf("%+v", r)
	} else if d := difftest.Of("r.Peak", r.Peak, 33000000, "*r.Throttled", *r.Throttled, 0, "r.OOMKills", r.OOMKills, 0); d != "" {
		t.Errorf("%s: %+v", d, r)
	}
	// The same end is not counted twice, but another one is.
	if l, _ = read(); l.Tasks["p-0/app"].OOMKills != 1 {
		t.Errorf("%+v", l.Tasks["p-0/app"])
	}
	s.containers[0].Restarts++
	if l, _ = read(); l.Tasks["p-0/app"].OOMKills != 2 {
		t.Errorf("%+v", l.Tasks["p-0/app"])
	}
	delete(s.paths, cadvisorPath)
	s.containers[1].Limited = false
	l, _ = read()
	if r := l.Tasks["p-0/app"]; r.Throttled != nil || r.Peak != 8462336 {
		t.Errorf("a limit, and no cAdvisor: %+v", r)
	}
	if r := l.Tasks["p-0/istio-proxy"]; r.Throttled == nil || *r.Throttled != 0 {
		t.Errorf("no limit holds nothing back: %+v", r)
	}
}

// Containers of an unreachable node are missing. Without a reachable node the reading is a gap, not an error.
func TestUnreachable(t *testing.T) {
	s := whole()
	s.down["n2"] = true
	m := Of(s, []cluster.Node{{Name: "n1", CPUs: 2}, {Name: "n2", CPUs: 2}})
	if l, err := m.Read(t.Context(), inPod[:1], meter.Counters); err != nil {
		t.Errorf("%+v, %v", l, err)
	} else if d := difftest.Wrong("l.Gap != nil", l.Gap != nil, "len(l.Nodes) != 1", len(l.Nodes) != 1, `l.Tasks["p-0/app"].CPU == 0`, l.Tasks["p-0/app"].CPU == 0, "l.Node != nil", l.Node != nil, "l.NodeErr == nil", l.NodeErr == nil); d != "" {
		t.Errorf("%s: %+v, %v", d, l, err)
	}
	s.down["n1"] = true
	if l, err := m.Read(t.Context(), inPod, meter.Counters); err != nil || l.Gap == nil {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := Of(s, nil).Read(t.Context(), inPod, meter.Counters); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// recorder records which path of which node is read.
type recorder struct {
	*answers
	mu   sync.Mutex
	read []string
}

func (r *recorder) NodeRead(ctx context.Context, node, path string) ([]byte, error) {
	r.mu.Lock()
	r.read = append(r.read, node+" "+path)
	r.mu.Unlock()
	return r.answers.NodeRead(ctx, node, path)
}

// A node without pods of interest is not read, and counts in no sum. One with a task is read for the task alone.
func TestNodesOfInterest(t *testing.T) {
	s := &recorder{answers: whole()}
	m := Of(s, []cluster.Node{{Name: "n1", CPUs: 2}, {Name: "n2", CPUs: 4}, {Name: "n3", CPUs: 8}})
	m.Only(map[string]bool{"n1": true})
	tasks := slices.Clone(inPod[:1])
	for _, c := range []struct {
		node string
		want []string
	}{
		{"n1", []string{"n1 metrics/resource", "n1 " + summaryPath}},
		{"n2", []string{"n1 metrics/resource", "n2 metrics/resource"}}, // the summary of n1 was read just now
	} {
		node, want := c.node, c.want
		m.own["n1"].asked = time.Time{}
		if node == "n2" {
			m.own["n1"].asked = time.Now()
		}
		s.read, tasks[0].Node = nil, node
		l, err := m.Read(t.Context(), tasks, meter.Counters)
		if err != nil || l.Tasks["p-0/app"].CPU == 0 {
			t.Fatalf("%+v, %v", l, err)
		}
		slices.Sort(s.read)
		if !slices.Equal(s.read, want) {
			t.Errorf("task on %s: %v are read, want %v", node, s.read, want)
		}
		if len(l.Nodes) != 1 || l.NodeCPUs != 2 || l.Node == nil || len(l.Found) != 1 || l.Found[0].ID != "n1/kubelet" {
			t.Errorf("task on %s: %+v", node, l)
		}
	}
	s.read = nil
	if _, _, err := m.times(t.Context()); err != nil || !slices.Equal(s.read, []string{"n1 metrics/resource"}) {
		t.Errorf("the probe reads %v, %v", s.read, err)
	}
}

// The remainder of a node is computed for one moment without a reading of any
// counter: on a machine, pods use 0.6 cores, the kubelet 0.1 and the kernel 0.2.
func TestRemainder(t *testing.T) {
	begin := time.Unix(1000, 0)
	r := remainder{node: "n1"}
	rates := map[string]float64{"whole": 0.9, "pods": 0.6, "kubelet": 0.1}
	phase := map[string]time.Duration{"whole": 0, "pods": 3700 * time.Millisecond, "kubelet": 8100 * time.Millisecond}
	var first, last *meterReading
	for second := range 120 {
		for name, rate := range rates {
			// Each is refreshed every ten seconds, with a different offset.
			at := time.Duration(second) * time.Second
			if read := (at - phase[name]).Truncate(10*time.Second) + phase[name]; read >= 0 {
				cpu := int64(rate * float64(read))
				if name == "whole" {
					r.whole.add(begin.Add(read), cpu)
				} else {
					r.group(name).cpu.add(begin.Add(read), cpu)
				}
			}
		}
		if left, ok := r.left(); ok {
			last = &meterReading{left.At, left.CPU}
			if first == nil {
				first = last
			}
		}
	}
	if first == nil || last.at.Sub(first.at) < 90*time.Second {
		t.Fatalf("%+v %+v", first, last)
	}
	if got := float64(last.cpu-first.cpu) / float64(last.at.Sub(first.at)); got < 0.1999 || got > 0.2001 {
		t.Errorf("%v cores are left, want 0.2", got)
	}
}

type meterReading struct {
	at  time.Time
	cpu int64
}

func TestParseRefusesGarbage(t *testing.T) {
	const name = "container_cpu_usage_seconds_total"
	for _, bad := range []string{name, name + "{a=1} 1 2", name + `{a="1" 1 2`, name + " one 2", name + " 1 two", name + " NaN 2", name + `{a="1"}`} {
		if _, err := parseResources([]byte(bad + "\n")); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := parseSummary([]byte("<html>")); err == nil {
		t.Error("a page is taken for a summary")
	}
}

func TestRuntimeID(t *testing.T) {
	for group, want := range map[string]string{
		"/kubepods/pod1/abc": "abc", "/a.slice/cri-containerd-abc.scope": "abc", "/a.slice/crio-abc.scope": "abc",
		"/a.slice/crio-conmon-abc.scope": "", "/": "",
	} {
		if got := runtimeID(group); got != want {
			t.Errorf("%s: %q, want %q", group, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(resourceText))
	f.Add([]byte(cadvisorText))
	f.Add([]byte(summaryText))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = parseResources(b)
		_, _ = parseCAdvisor(b)
		_, _ = parseSummary(b)
	})
}

// counters is a node with counters refreshed at an interval, on the test's clock.
type counters struct {
	answers
	now     time.Time
	refresh map[string]time.Duration // by container, and "node"
}

func (c *counters) NodeRead(_ context.Context, _, path string) ([]byte, error) {
	if path != resourcePath {
		return nil, errors.New("not asked for")
	}
	var text strings.Builder
	for name, every := range c.refresh {
		at := c.now
		if every > 0 {
			at = at.Truncate(every)
		}
		if name == "node" {
			fmt.Fprintf(&text, "node_cpu_usage_seconds_total 1 %d\n", at.UnixMilli())
			continue
		}
		fmt.Fprintf(&text, "container_cpu_usage_seconds_total{container=%q,namespace=\"a\",pod=\"p\"} 1 %d\n", name, at.UnixMilli())
	}
	return []byte(text.String()), nil
}

func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		refresh map[string]time.Duration
		want    Pace
	}{
		"read as they are asked for": {map[string]time.Duration{"app": 0, "dns": 0, "node": 10 * time.Second}, Pace{Node: 10 * time.Second}},
		"refreshed":                  {map[string]time.Duration{"app": 10 * time.Second, "dns": 16 * time.Second, "node": 10 * time.Second}, Pace{Containers: 16 * time.Second, Node: 10 * time.Second}},
		"one of them is":             {map[string]time.Duration{"app": 0, "dns": 12 * time.Second, "node": 10 * time.Second}, Pace{Containers: 12 * time.Second, Node: 10 * time.Second}},
		"never again":                {map[string]time.Duration{"app": 10 * time.Minute, "node": 10 * time.Second}, Pace{Containers: Longest, Node: 10 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			source := &counters{now: time.Unix(1_000_003, 0), refresh: c.refresh}
			m := Of(source, oneNode)
			m.pause = func(_ context.Context, d time.Duration) error { source.now = source.now.Add(d); return nil }
			got, err := m.Probe(t.Context())
			if err != nil || (got.Containers == 0) != (c.want.Containers == 0) || (got.Containers-c.want.Containers).Abs() > 2*probePeriod || got.Containers < c.want.Containers ||
				got.Node != 0 && (got.Node-c.want.Node).Abs() > 2*probePeriod {
				t.Errorf("%+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}
