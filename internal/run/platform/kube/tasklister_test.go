package kube

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/kube/agents"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// In a round, a trial leaves out the pods of the trials beside it and of their meshes. A node agent of the run is plane
// harness, and one of another run is not.
func TestTasksOfRound(t *testing.T) {
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for namespace, name := range map[string]string{"tare-r-1": "own", "tare-r-2": "beside", "mesh-system": "control", "shop": "foreign",
		"kube-system": "dns", "tare-r-agents": "agent", "tare-s-agents": "agent-of-s"} {
		pod := podIn(namespace, name, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, 0)
		switch namespace {
		case "tare-r-agents":
			pod.Labels = map[string]string{agents.Label: "yes", cluster.LabelRun: "r"}
		case "tare-s-agents":
			pod.Labels = map[string]string{agents.Label: "yes", cluster.LabelRun: "s"}
		}
		if err := store.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	for round, want := range map[int][]string{
		0: {"agent harness", "agent-of-s unattributed", "beside unattributed", "control unattributed", "dns platform", "foreign unattributed", "own unattributed"},
		1: {"agent harness", "agent-of-s unattributed", "dns platform", "foreign unattributed", "own unattributed"},
	} {
		of := &trial{options: &Options{Run: "r", meshNamespaces: homes([]mesh.Definition{{Kubernetes: &mesh.Kubernetes{Namespace: "mesh-system"}}, {}})},
			namespace: "tare-r-1", spec: platform.Spec{Mesh: noMesh(t), Trial: plan.Trial{Round: round, Ordinal: 1}}}
		l := &taskLister{trial: of, pods: &trialPods{trial: of, store: &podStore{informer: fixedInformer{store: store}}}, load: &localLoad{}}
		tasks, err := l.Tasks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, task := range tasks {
			got = append(got, task.Pod+" "+string(task.Plane))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("round %d: %q, want %q", round, got, want)
		}
	}
}
