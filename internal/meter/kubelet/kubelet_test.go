package kubelet

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/cluster"
	"github.com/tare-mesh/tare/internal/mesh"
	"github.com/tare-mesh/tare/internal/meter"
	"github.com/tare-mesh/tare/internal/platform"
)

const text = `# HELP container_cpu_usage_seconds_total Cumulative cpu time
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="app",namespace="a",pod="p-0"} 1.234567891 1795271164123
container_memory_working_set_bytes{container="app",namespace="a",pod="p-0"} 8.462336e+06 1795271164123
container_cpu_usage_seconds_total{container="istio-proxy",namespace="a",pod="p-0"} 0.5 1795271165001
node_cpu_usage_seconds_total 16757.5 1795271160000
scrape_error 0
`

func task(id, namespace, pod, container string) platform.Task {
	return platform.Task{Task: mesh.Task{ID: id, Namespace: namespace, Pod: pod, Container: container}}
}

func TestRead(t *testing.T) {
	m := New([]Node{{"n1", 2}}, func(context.Context, string) ([]byte, error) { return []byte(text), nil })
	l, err := m.Read(t.Context(), []platform.Task{task("p-0/app", "a", "p-0", "app"), task("gone", "a", "p-1", "app")}, meter.Edge)
	if err != nil {
		t.Fatal(err)
	}
	if r := l.Tasks["p-0/app"]; r.CPU != 1234567891 || r.RSS != 8462336 || r.At.UnixMilli() != 1795271164123 {
		t.Errorf("%+v", r)
	}
	if l.Missing["gone"] == nil || len(l.Tasks) != 1 || l.Node == nil || l.Node.Busy != 16757500000000 || l.NodeCPUs != 2 || l.Gap != nil {
		t.Errorf("%+v", l)
	}
}

// What one node cannot tell is missing; where none can be reached it is a gap, and no end.
func TestUnreachable(t *testing.T) {
	down := map[string]bool{"n2": true}
	m := New([]Node{{"n1", 2}, {"n2", 2}}, func(_ context.Context, node string) ([]byte, error) {
		if down[node] {
			return nil, errors.New("connection refused")
		}
		return []byte(text), nil
	})
	tasks := []platform.Task{task("p-0/app", "a", "p-0", "app")}
	if l, err := m.Read(t.Context(), tasks, meter.Counters); err != nil || l.Gap != nil || len(l.Tasks) != 1 || l.Node != nil || l.NodeErr == nil {
		t.Errorf("%+v, %v", l, err)
	}
	down["n1"] = true
	if l, err := m.Read(t.Context(), tasks, meter.Counters); err != nil || l.Gap == nil {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestParseRefusesGarbage(t *testing.T) {
	for _, bad := range []string{"x", "x{a=1} 1 2", `x{a="1" 1 2`, "x one 2", "x 1 two"} {
		if _, err := parse([]byte(bad + "\n")); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(text))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = parse(b) })
}

// A real kubelet's counters move, within the refresh that is promised, for every container there is.
func TestRealKubelet(t *testing.T) {
	path := os.Getenv("TARE_TEST_KUBECONFIG")
	switch {
	case path == "" && os.Getenv("CI") == "true" && !testing.Short():
		t.Fatal("TARE_TEST_KUBECONFIG is not set: there is no cluster to test against")
	case path == "" || testing.Short():
		t.Skip("needs a cluster: set TARE_TEST_KUBECONFIG")
	}
	c, err := cluster.Connect(t.Context(), cluster.Options{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Typed().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []Node
	for _, n := range list.Items {
		nodes = append(nodes, Node{n.Name, int(n.Status.Capacity.Cpu().Value())})
	}
	pods, err := c.Typed().CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var tasks []platform.Task
	for _, p := range pods.Items {
		if p.Status.Phase == "Running" {
			for _, k := range p.Spec.Containers {
				tasks = append(tasks, task(p.Name+"/"+k.Name, p.Namespace, p.Name, k.Name))
			}
		}
	}
	if len(tasks) == 0 {
		t.Fatal("nothing runs in kube-system")
	}
	m := New(nodes, c.NodeMetrics)
	before, err := m.Read(t.Context(), tasks, meter.Counters)
	if err != nil || len(before.Missing) > 0 || before.Node == nil || before.Gap != nil {
		t.Fatalf("%+v, %v", before, err)
	}
	deadline := time.Now().Add(2 * Refresh) // one refresh, and as much for a busy machine
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range tick.C {
		now, err := m.Read(t.Context(), tasks, meter.Counters)
		if err != nil {
			t.Fatal(err)
		}
		waiting := ""
		for id, r := range now.Tasks {
			was := before.Tasks[id]
			if r.CPU < was.CPU || r.RSS == 0 {
				t.Fatalf("%s: %+v after %+v", id, r, was)
			}
			if !r.At.After(was.At) {
				waiting = id
			}
		}
		if waiting == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the counters of %s were not refreshed in %v", waiting, 2*Refresh)
		}
	}
}
