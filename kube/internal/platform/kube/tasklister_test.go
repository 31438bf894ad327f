package kube

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/agents"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/must"
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
		must.OK(t, store.Add(pod))
	}
	for round, want := range map[int][]string{
		0: {"agent harness", "agent-of-s unattributed", "beside unattributed", "control unattributed", "dns platform", "foreign foreign", "own unattributed"},
		1: {"agent harness", "agent-of-s unattributed", "dns platform", "foreign foreign", "own unattributed"},
	} {
		of := &trial{options: &Options{Run: "r", meshNamespaces: homes([]mesh.Definition{{Kubernetes: &mesh.Kubernetes{Namespace: "mesh-system"}}, {}})},
			namespace: "tare-r-1", spec: platform.Spec{Mesh: noMesh(t), Trial: plan.Trial{Round: round, Ordinal: 1}}}
		got := listedPods(t, of, store, func(task platform.Task) string { return string(task.Plane) })
		if !slices.Equal(got, want) {
			t.Errorf("round %d: %q, want %q", round, got, want)
		}
	}
}

// Nodes of interest can have pods of the trial, or have pods of the cluster. Pods of DaemonSets are on every node, and on
// the others no tasks. A pod of the mesh is a task anywhere.
func TestNodesOfInterest(t *testing.T) {
	nodes := []Node{{Name: "app", Schedulable: true, Role: RoleApplication}, {Name: "spare", Schedulable: true}, {Name: "control"}, {Name: "gpu"}}
	pod := func(namespace, name, node, owner string) *corev1.Pod {
		p := podIn(namespace, name, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, 0)
		p.Spec.NodeName = node
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "x", Controller: new(true)}}
		}
		return p
	}
	pods := []*corev1.Pod{
		pod("kube-system", "dns", "app", "ReplicaSet"), pod("kube-system", "api", "control", "Node"), pod("shop", "foreign", "gpu", "ReplicaSet"),
		pod("kube-system", "net-app", "app", "DaemonSet"), pod("kube-system", "net-spare", "spare", "DaemonSet"),
		pod("kube-system", "net-control", "control", "DaemonSet"), pod("kube-system", "net-gpu", "gpu", "DaemonSet"),
	}
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	var list []corev1.Pod
	for _, p := range pods {
		list = append(list, *p)
		must.OK(t, store.Add(p))
	}
	for affinity, want := range map[string]struct{ nodes, tasks []string }{
		affinityAuto:   {[]string{"app", "control", "spare"}, []string{"api control", "dns app", "net-app app", "net-control control", "net-spare spare"}},
		AffinityLabels: {[]string{"app", "control"}, []string{"api control", "dns app", "net-app app", "net-control control"}},
	} {
		interest := NodesOfInterest(nodes, list, affinity)
		if got := slices.Sorted(maps.Keys(interest)); !slices.Equal(got, want.nodes) {
			t.Errorf("%s: nodes %v, want %v", affinity, got, want.nodes)
		}
		of := &trial{options: &Options{Run: "r", Interest: interest}, namespace: "tare-r-1", spec: platform.Spec{Mesh: noMesh(t)}}
		got := listedPods(t, of, store, func(task platform.Task) string { return task.Node })
		if !slices.Equal(got, want.tasks) {
			t.Errorf("%s: tasks %q, want %q", affinity, got, want.tasks)
		}
	}
	if NodesOfInterest(nil, list, affinityAuto) != nil {
		t.Error("without permission to list nodes they are unknown")
	}
}

// listedPods are the pods of a trial's tasks in a store, each with a word about its task, in order.
func listedPods(t *testing.T, of *trial, store cache.Indexer, word func(platform.Task) string) (pods []string) {
	t.Helper()
	l := &taskLister{trial: of, pods: &trialPods{trial: of, store: &podStore{informer: fixedInformer{store: store}}}, load: &localLoad{}}
	for _, task := range must.Get(l.Tasks(t.Context()))(t) {
		pods = append(pods, task.Pod+" "+word(task))
	}
	slices.Sort(pods)
	return pods
}
