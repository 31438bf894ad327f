package compare

import (
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// Faults are described by what happened in the trial with most targets: the number of pods, the service, the plane.
func TestFaultsOf(t *testing.T) {
	tasks := []result.TaskUsage{{Task: mesh.Task{ID: "istiod-0/istiod", Pod: "istiod-0", Plane: metric.Control}}}
	for _, pod := range []string{"server-0", "server-1", "server-2"} {
		tasks = append(tasks, result.TaskUsage{Task: mesh.Task{ID: pod + "/app", Pod: pod, Service: "server", Plane: metric.App}},
			result.TaskUsage{Task: mesh.Task{ID: pod + "/sidecar", Pod: pod, Service: "server", Plane: metric.Data}})
	}
	tasks = append(tasks, result.TaskUsage{Task: mesh.Task{ID: "web-0/app", Pod: "web-0", Service: "web", Plane: metric.App}})
	for _, c := range []struct {
		name   string
		faults []result.Fault
		want   []string
	}{
		{"replicas", []result.Fault{{Kind: "scale", Targets: []string{"server-0"}}, {Kind: "scale", Targets: []string{"server-1"}}}, []string{"2 of 3 replicas of server were removed"}},
		{"twice the same", []result.Fault{{Kind: "kill", Targets: []string{"web-0/app"}}, {Kind: "kill", Targets: []string{"web-0/app"}}}, []string{"web was killed"}},
		{"planes", []result.Fault{{Kind: "kill", Targets: []string{"server-0/sidecar", "server-1/sidecar"}}, {Kind: "restart", Targets: []string{"istiod-0/istiod"}}},
			[]string{"2 of 3 replicas of the sidecar of server were killed", "the control plane was restarted"}},
		{"none", nil, nil},
	} {
		got := faultsOf([]result.Record{{Tasks: tasks}, {Tasks: tasks, Faults: c.faults}})
		onCluster := slices.Clone(tasks)
		for i := range onCluster {
			onCluster[i].Pod += "-5fb999b754-x92rw"
		}
		if inPods := faultsOf([]result.Record{{Tasks: onCluster, Faults: c.faults}}); !slices.Equal(got, c.want) || !slices.Equal(inPods, c.want) {
			t.Errorf("%s: %q, on a cluster %q, want %q", c.name, got, inPods, c.want)
		}
	}
}
