package kubecli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// threeNodes skips on a cluster with fewer nodes, and where this machine can have but one.
func threeNodes(t *testing.T) {
	t.Helper()
	n := os.Getenv("TARE_TEST_NODES")
	if n == "" {
		clustertest.Kubeconfig(t)
	}
	if nodes, err := strconv.Atoi(n); err != nil || nodes < 3 {
		t.Skip("needs three nodes: bin/tare-cluster up --nodes 3, which control groups of version 2 alone refuse")
	}
	clustertest.Kubeconfig(t)
}

const onThreeNodes = `
phases: {warmup: 2s, measure: %s, drain: 2s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
`

// Services are on one node or each on its own, as the factor requires, at the same time. The agent of each node reads
// that node alone.
func TestThreeNodesPlacement(t *testing.T) {
	threeNodes(t)
	r := experimentOnKubernetes(t, `
application: {topology: chain-2}
factors: {placement: [same-node, other-nodes], rate: [50], connections: [4]}
baseline: {placement: same-node}
order: interleaved
slices: {length: 250ms, guard: 50ms}
blocks: 1
`+fmt.Sprintf(onThreeNodes, "5s"))
	disposable(t, r.cluster)
	for _, one := range r.allUsable(t, 2) {
		nodes := r.placed(t, one)
		together := nodes["front-0"] == nodes["back-0"]
		if nodes["front-0"] == "" || nodes["back-0"] == "" || together != strings.HasSuffix(one.Treatment, "same-node") {
			t.Errorf("%s: %v", one.Treatment, nodes)
		}
		if together && nodes["load-0"] == nodes["back-0"] {
			t.Errorf("the load is on the node of the application: %v", nodes)
		}
		if _, tasks := usedBy(one, metric.Harness); tasks != 3 {
			t.Errorf("%d node agents, want 3", tasks)
		}
		r.ownNodes(t, one)
	}
}

// allUsable runs an experiment of n trials, which must be usable.
func (r *onKubernetes) allUsable(t *testing.T, n int) []result.Record {
	t.Helper()
	all := r.records(t, console.Done, nil)
	if len(all) != n {
		t.Fatalf("%d trials, want %d", len(all), n)
	}
	for _, one := range all {
		if !usable(one) {
			t.Errorf("%s: %s: %+v", one.ID, one.Error, one.Warnings)
		}
	}
	return all
}

// ownNodes checks that each node has counters of its own: the first, with the control plane, used more than any other.
func (r *onKubernetes) ownNodes(t *testing.T, one result.Record) {
	t.Helper()
	used := map[string]int64{}
	for _, task := range one.Tasks {
		if task.Plane == metric.Node {
			node, _, _ := strings.Cut(task.ID, "/")
			used[node] += task.End.CPU - task.Start.CPU
		}
	}
	if len(used) != 3 || used["tare-node"] <= max(used["tare-node-2"], used["tare-node-3"]) {
		t.Errorf("CPU of the nodes' own tasks: %v", used)
	}
}

var podPlace = regexp.MustCompile(`(?ms)^# (\S+)$.*?^  nodeName: (\S+)$`)

// placed are the nodes of a trial's pods by the pods' names in tare.
func (r *onKubernetes) placed(t *testing.T, one result.Record) map[string]string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(r.dir, "trials", one.ID, "provenance", "pods.yaml")))(t)
	nodes := map[string]string{}
	for _, m := range podPlace.FindAllStringSubmatch(string(text), -1) {
		nodes[m[1]] = m[2]
	}
	return nodes
}

// The debate's file runs with three replicas of each service and of the control plane, on three nodes. Its load is one
// topology at a low rate with few connections, in one short block without a control, and a backlog is tolerated: these
// are conditions of the machine. Ambient takes part if the cluster has a ztunnel, which is built elsewhere.
func TestThreeNodesDebate(t *testing.T) {
	threeNodes(t)
	_, charts := clusterWithIstio(t)
	text := must.Get(os.ReadFile("../../../../examples/great-sidecar-debate.yaml"))(t)
	// Tasks of each plane. The load's three workers have sidecars too. Of ambient each node has a ztunnel and a CNI agent,
	// and there are three waypoints.
	tasks := map[string]map[metric.Plane]int{
		"none":  {metric.App: 24},
		"istio": {metric.App: 24, metric.Data: 27, metric.Control: 3},
	}
	if os.Getenv("TARE_TEST_ISTIO_AMBIENT") == "" {
		t.Log("without istio-ambient: TARE_ZTUNNEL named no ztunnel when the cluster was brought up")
	} else {
		tasks["istio-ambient"] = map[metric.Plane]int{metric.App: 24, metric.Data: 6, metric.Control: 6}
	}
	names := slices.Sorted(maps.Keys(tasks))
	var meshes []string
	for _, name := range names {
		if name != "none" {
			meshes = append(meshes, fmt.Sprintf("%s: {profile: ha, version: %q, charts: %q, options: {envoy: stock}}", name, os.Getenv("TARE_TEST_ISTIO_TAG"), charts))
		}
	}
	r := fileOnKubernetes(t, text, "platform.meter=node-agent", fmt.Sprintf("factors.mesh=[%s]", strings.Join(names, ", ")), "factors.application=[faces]", "factors.rate=[30]", "factors.connections=[6]",
		"control=false", "blocks=1", "phases={warmup: 5s, measure: 10s, drain: 3s}", "validity={errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}",
		fmt.Sprintf("meshes={%s}", strings.Join(meshes, ", ")))
	disposable(t, r.cluster)
	for _, one := range r.allUsable(t, len(tasks)) {
		nodes := r.placed(t, one)
		for _, service := range []string{"face", "smiley", "color", "load"} {
			places := []string{nodes[service+"-0"], nodes[service+"-1"], nodes[service+"-2"]}
			if slices.Sort(places); !slices.Equal(places, []string{"tare-node", "tare-node-2", "tare-node-3"}) {
				t.Errorf("%s: %s is on %v", one.ID, service, places)
			}
		}
		for plane, want := range tasks[fmt.Sprint(one.Factors["mesh"])] {
			if _, n := usedBy(one, plane); n != want {
				t.Errorf("%s: %d tasks of plane %s, want %d", one.ID, n, plane, want)
			}
		}
	}
}

// A node whose kubelet stops in the measure phase ends its trial with the reason. Its pods are removed without it, and
// the next trial runs on the nodes that are left.
func TestThreeNodesLost(t *testing.T) {
	threeNodes(t)
	r := experimentOnKubernetes(t, `
application: {topology: echo}
factors: {replicas: [3], rate: [50], connections: [6]}
blocks: 2
`+fmt.Sprintf(onThreeNodes, "60s"), "platform.meter=node-agent")
	disposable(t, r.cluster)
	const lost = "tare-node-3"
	kubelet := func(signal string) {
		t.Helper()
		if out, err := exec.Command(os.Getenv("TARE_TEST_CLUSTER"), "signal", "kubelet", signal, "--node", lost).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	t.Cleanup(func() {
		kubelet("cont")
		awaitNode(t, r.cluster, lost)
	})
	all := r.records(t, console.Incomplete, func() { kubelet("stop") })
	if len(all) != 2 || all[0].Valid || !usable(all[1]) {
		t.Fatalf("want an invalid and a valid trial: %+v", all)
	}
	i := slices.IndexFunc(all[0].Warnings, func(w result.Warning) bool { return w.Code == "node-lost" })
	if i < 0 || !strings.Contains(all[0].Warnings[i].Message, "node "+lost+" is not ready: NodeStatusUnknown") {
		t.Errorf("the reason is not named: %+v", all[0].Warnings)
	}
	for pod, node := range r.placed(t, all[1]) {
		if node == lost {
			t.Errorf("%s is on the lost node", pod)
		}
	}
	if _, tasks := usedBy(all[1], metric.App); tasks != 3 {
		t.Errorf("%d replicas in the second trial, want 3", tasks)
	}
}

// awaitNode waits until a node takes pods again.
func awaitNode(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for {
		node, err := c.Typed().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && cluster.IsReady(*node) && len(node.Spec.Taints) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("node %s does not take pods: %v", name, err)
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}
