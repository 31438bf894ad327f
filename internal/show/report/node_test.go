package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// addNode adds the kernel of a cluster's node, which used some µs a request.
func addNode(r *result.Record, us float64, missing string) {
	used := int64(us * 1e3 * float64(r.Load.Completed))
	r.Tasks = append(r.Tasks, result.TaskUsage{Task: mesh.Task{ID: "n1/kernel", Pod: "n1", Container: "kernel", Plane: metric.Node, Role: mesh.RoleRemainder},
		Start: result.Reading{At: r.Load.Start, CPU: 1}, End: result.Reading{At: r.Load.End, CPU: 1 + used}, Missing: missing})
}

// The node has a column and rows of its own beside the total. Where it is unknown they
// have ?, with the reason among the warnings.
func TestNodeBesideTheTotal(t *testing.T) {
	for name, unread := range map[string]func(*result.Record) bool{
		"read in all trials":       func(*result.Record) bool { return false },
		"unread in the A/A trials": func(r *result.Record) bool { return r.Control },
		"unread in all trials":     func(*result.Record) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			s := small(func(r *result.Record) {
				missing := ""
				if unread(r) {
					missing = "its counters were refreshed 1 times under load; two are needed"
				}
				addNode(r, 9_000+float64(r.Ordinal%5), missing)
			})
			s.Platform = mesh.OnKubernetes
			r := reportOf(t, s)
			var b bytes.Buffer
			must.OK(t, WriteText(&b, r, Options{Width: 200}))
			got := b.String()
			if strings.Contains(got, "node-unknown") != (name != "read in all trials") || strings.Count(got, "CPU/request, node outside pods") == 0 || !strings.Contains(got, "in no total but cluster") {
				t.Errorf("%s", got)
			}
			for _, line := range strings.Split(got, "\n") {
				if strings.Contains(line, "node outside pods") && strings.HasPrefix(strings.TrimSpace(line), "CPU/request") && strings.Contains(line, unknown) != (name == "unread in all trials") {
					t.Errorf("%q", line)
				}
			}
			for _, tr := range r.Treatments {
				if v := tr.Metrics[metric.CPUPerRequest+"/total"].Estimate; v <= 0 || v > 1000 {
					t.Errorf("the total of %s is %v µs", tr.ID, v)
				}
			}
		})
	}
}
