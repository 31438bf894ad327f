package answer_test

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
)

// onCluster is a study whose trials have tasks of a cluster's pods and of its node.
func onCluster(change func(*result.Record)) answertest.Study {
	s := answertest.Quickstart()
	s.Platform, s.Treatments = mesh.OnKubernetes, s.Treatments[:3]
	s.Blocks, s.Warmup, s.Measure, s.Rate = 4, 1, 2, 50
	s.Change = func(r *result.Record) {
		// A Deployment's pods have another name in each block.
		addTask(r, fmt.Sprintf("kube-system/coredns-7d9f8b6c5d-x2x4%d/coredns", r.Block+3), "kube-system", metric.Platform, "", 100)
		addTask(r, "n1/kubelet", "", metric.Node, mesh.RoleDaemon, 20_000)
		addTask(r, "n1/kernel", "", metric.Node, mesh.RoleRemainder, 4_000)
		if change != nil {
			change(r)
		}
	}
	return s
}

// addTask adds a task that used some µs a request.
func addTask(r *result.Record, id, namespace string, plane metric.Plane, role string, us float64) {
	begin, end := r.Load.Start, r.Load.End
	used := us * 1e3 * float64(r.Load.Completed) * end.Sub(begin).Seconds() / r.Load.MeasureSeconds
	r.Tasks = append(r.Tasks, result.TaskUsage{Task: mesh.Task{ID: id, Pod: id, Namespace: namespace, Plane: plane, Role: role},
		Start: result.Reading{At: begin, CPU: 1e9, RSS: 1 << 20}, End: result.Reading{At: end, CPU: 1e9 + int64(used), RSS: 1 << 20}})
}

// asBefore is a record as it was when nodes were in the platform plane, and tasks
// without two refreshes were left out with a warning.
func asBefore(r *result.Record, unread bool) {
	kept := r.Tasks[:0]
	for _, t := range r.Tasks {
		if t.Plane == metric.Node {
			if t.Plane = metric.Platform; unread {
				r.Warnings = append(r.Warnings, result.Warning{Code: "node-unread", Metrics: []string{metric.NodeCPU},
					Message: "the machine's total could not be read: " + t.ID + ": its counters were refreshed 1 times under load; two are needed"})
				continue
			}
		}
		kept = append(kept, t)
	}
	r.Tasks = kept
}

func estimateOf(t *testing.T, r *answer.Report, treatment, name string) (float64, bool) {
	t.Helper()
	for _, tr := range r.Treatments {
		if tr.ID == treatment {
			e, ok := tr.Metrics[name]
			return e.Estimate, ok
		}
	}
	t.Fatalf("no treatment %s", treatment)
	return 0, false
}

// A sum is of the same tasks in every trial compared, or unknown. The node, whose
// counters may be refreshed too rarely in some trials, is in no total.
func TestSumsOfTheSameTasks(t *testing.T) {
	const total, node, cluster = "cpu_us_per_request/total", "cpu_us_per_request/node", "cpu_us_per_request/cluster"
	for _, c := range []struct {
		name            string
		change          func(*result.Record)
		unknown         []string // of none-control
		code, mentioned string
	}{
		{"all read", nil, nil, "", ""},
		{"the node unread in the A/A trials", func(r *result.Record) {
			for i := range r.Tasks {
				if r.Control && r.Tasks[i].ID == "n1/kernel" {
					r.Tasks[i].Missing = "its counters were refreshed 1 times under load; two are needed"
				}
			}
		}, []string{node, cluster}, "node-unknown", "n1/kernel: its counters were refreshed 1 times"},
		{"early records", func(r *result.Record) { asBefore(r, false) }, nil, "", ""},
		{"early records, the node unread in the A/A trials", func(r *result.Record) { asBefore(r, r.Control) },
			[]string{node, cluster}, "node-unknown", "n1/kubelet: its counters were refreshed 1 times"},
		{"early records, the node unread in all trials", func(r *result.Record) { asBefore(r, true) },
			[]string{node, cluster}, "node-unknown", "n1/kernel: its counters"},
		{"a pod of the cluster in one block only", func(r *result.Record) {
			if r.Block == 2 && r.Treatment == "none-control" {
				addTask(r, "kube-system/job-abc/job", "kube-system", metric.Platform, "", 3000)
			}
		}, []string{"cpu_us_per_request/platform", total, cluster}, "tasks-differ", "1 of kube-system/job-abc/job in 1 of 8 trials"},
		{"a second replica in one block", func(r *result.Record) {
			if r.Block == 3 && r.Treatment == "none" {
				addTask(r, "kube-system/coredns-7d9f8b6c5d-9zzzz/coredns", "kube-system", metric.Platform, "", 100)
			}
		}, []string{"cpu_us_per_request/platform", total, cluster}, "tasks-differ", "2 of kube-system/coredns/coredns in 1 of 8 trials"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := analyse(t, onCluster(c.change))
			for _, name := range []string{total, node, cluster, "cpu_us_per_request/app", "cpu_us_per_request/platform"} {
				_, known := estimateOf(t, r, "none-control", name)
				want := true
				for _, u := range c.unknown {
					want = want && u != name
				}
				if known != want {
					t.Errorf("%s known: %v", name, known)
				}
			}
			if v, ok := estimateOf(t, r, "none-control", total); ok && (v < 100 || v > 300) {
				t.Errorf("the total is %v µs, without the node about 160", v)
			}
			if v, ok := estimateOf(t, r, "none", node); ok && math.Abs(v-24_000) > 1 {
				t.Errorf("the node is %v µs, want 24000", v)
			}
			if c.code != "" && !strings.Contains(messageOf(r.Warnings, c.code), c.mentioned) {
				t.Errorf("%q is not in warning %s: %+v", c.mentioned, c.code, r.Warnings)
			}
			for _, code := range []string{"tasks-differ", "node-unknown"} {
				if code != c.code && messageOf(r.Warnings, code) != "" {
					t.Errorf("warning %s: %s", code, messageOf(r.Warnings, code))
				}
			}
			// The noise floor of identical treatments covers pods, never the node.
			for _, f := range r.Floor {
				if f.Metric == total && math.Abs(f.Difference.Estimate) > 20 {
					t.Errorf("identical treatments differ by %v µs", f.Difference.Estimate)
				}
			}
		})
	}
}

func messageOf(ws []figures.Warning, code string) string {
	for _, w := range ws {
		if w.Code == code {
			return w.Message
		}
	}
	return ""
}

// Runs on this machine have no nodes outside pods: no figure of them, and sums as before.
func TestNoNodeOnThisMachine(t *testing.T) {
	s := onCluster(nil)
	s.Platform = ""
	s.Change = nil
	r := analyse(t, s)
	for _, tr := range r.Treatments {
		for name := range maps.Keys(tr.Metrics) {
			if strings.HasSuffix(name, "/node") {
				t.Errorf("%s has %s", tr.ID, name)
			}
		}
		if _, ok := tr.Metrics["cpu_us_per_request/cluster"]; !ok {
			t.Errorf("%s has no sum of all tasks", tr.ID)
		}
	}
}
