package debate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// In a cluster a sample contains only the tasks refreshed since the previous
// one; the rates of the others continue. Every task counts in the debate's
// category. Node usage beside pods does not count.
func TestDebateOfACluster(t *testing.T) {
	begin := time.Unix(1000, 0)
	task := func(id string, p metric.Plane, namespace, role string) result.TaskUsage {
		return result.TaskUsage{Task: mesh.Task{ID: id, Plane: p, Namespace: namespace, Role: role}}
	}
	record := &result.Record{Node: &result.NodeUsage{Nodes: []result.MachineUsage{{Name: "n1", AllocatableCPU: 1.93, AllocatableMemory: 3 << 30}, {Name: "n2"}}}, Tasks: []result.TaskUsage{
		task("face", metric.App, "faces", ""), task("proxy", metric.Data, "faces", "sidecar"), task("dns", metric.Platform, "kube-system", "system"),
		task("agent", metric.Platform, "gke-managed-system", "system"), task("other", metric.Unattributed, "x", ""), task("kernel", metric.Platform, "", mesh.RoleRemainder),
	}}
	l := newLooks(record)
	rates := map[string]float64{"face": 0.5, "proxy": 0.25, "dns": 0.1, "agent": 0.05, "other": 0.01, "kernel": 3}
	var s planeSample
	known := false
	for second := range 40 {
		look := map[string]result.Reading{}
		at := time.Duration(second) * time.Second
		for i, u := range record.Tasks {
			if second%10 == i { // each is refreshed every ten seconds, at its own time
				look[u.ID] = result.Reading{At: begin.Add(at), CPU: int64(rates[u.ID] * float64(at)), RSS: 1 << 20}
			}
		}
		l.add(look)
		if second%10 == 7 { // one node is refreshed as often, the other only once
			l.addNodes(map[string]result.NodeReading{"n1": {At: begin.Add(at), Busy: int64(1.25 * float64(at)), Memory: 1 << 30}})
			if second == 7 {
				l.addNodes(map[string]result.NodeReading{"n2": {At: begin.Add(at), Busy: 1}})
			}
		}
		s, known = l.sample(begin.Add(at))
		if known != (second >= 14) {
			t.Fatalf("after %v: known %v", at, known)
		}
	}
	for _, c := range columns {
		want := map[string]float64{"faces": 0.5, "load": 0, "gke": 0.05, "k8s": 0.1, "data-plane": 0.25, "control-plane": 0, "mesh": 0.25,
			"non-mesh": 0.51, "business": 0.76, "overhead": 0.15, "total": 0.91}[c.name]
		got := 0.0
		for _, p := range c.planes {
			got += s.cores[p]
		}
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v cores, want %v", c.name, got, want)
		}
	}
	lines := strings.Split(string(metricsCSV(nodesOf(record), []planeSample{s})), "\r\n")
	if want := "timestamp,n1 CPU,n1 allocatable CPU,n1 mem,n1 allocatable mem,n2 CPU,n2 allocatable CPU,n2 mem,n2 allocatable mem,faces CPU,faces mem,"; !strings.HasPrefix(lines[0], want) {
		t.Errorf("the columns are %s", lines[0])
	}
	if want := ",1250000000,1930000000,1073741824,3221225472,,0,,0,500000000,1048576,"; !strings.Contains(lines[1], want) {
		t.Errorf("a row is %s, want %s in it", lines[1], want)
	}
}
