package kubecli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/kube/agents"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/meter/agent"
	"github.com/tare-mesh/tare/internal/run/meter/kubelet"
	"github.com/tare-mesh/tare/internal/run/meter/metricsapi"
	"github.com/tare-mesh/tare/internal/run/platform/kube"
)

// openers open each meter of a cluster, by its name.
var openers = map[string]func(context.Context, meterSource) (clusterMeter, error){
	cli.MeterKubelet:    openKubelets,
	cli.MeterNodeAgent:  openNodeAgents,
	cli.MeterMetricsAPI: openMetricsAPI,
}

// meterSource has the parts of a meter.
type meterSource struct {
	*cluster.Cluster
	platform experiment.Platform
	// foreign: others' objects run the application. They may tolerate taints, and select any node.
	foreign bool
	// run and image are of the node agents. An empty run starts none.
	run, image string
	report     func(string)
}

// clusterMeter is a meter, with its refresh interval.
type clusterMeter struct {
	meter.Meter
	name string
	// refresh measures the longest time between two refreshes of a container's
	// counters, 0 if they are current, and of the nodes' own, 0 if there are none.
	refresh func(context.Context) (containers, nodes time.Duration, err error)
	// usual is the refresh interval to expect until it is measured, usualNode that of the nodes' own counters.
	usual, usualNode time.Duration
	// agents are the node agents that a run starts. Nil means that the meter needs none.
	agents *agents.Agents
	// interest are the nodes that are read in every trial. Nil means all.
	interest map[string]bool
	// note is the reason why this is not the preferred meter. Empty means that it is, or the experiment names it.
	note string
}

// openMeter opens the meter that the experiment names. Where it names none it is
// the kubelets, unless they may not be asked.
func openMeter(ctx context.Context, s meterSource) (clusterMeter, error) {
	if open, ok := openers[s.platform.Meter]; ok {
		m, err := open(ctx, s)
		m.name = s.platform.Meter
		return m, err
	}
	m, err := openKubelets(ctx, s)
	m.name = cli.MeterKubelet
	if !cluster.IsForbidden(err) {
		return m, err
	}
	refused := err
	if m, err = openMetricsAPI(ctx, s); err != nil {
		return m, fmt.Errorf("%w; and instead of the kubelets: %w", refused, err)
	}
	m.name = cli.MeterMetricsAPI
	m.note = fmt.Sprintf("CPU and memory are averages of the Metrics API: access to the kubelets is denied (%v)", refused)
	return m, nil
}

func openKubelets(ctx context.Context, s meterSource) (clusterMeter, error) {
	m, err := kubelet.Open(ctx, s.Cluster)
	if err != nil {
		return clusterMeter{}, err
	}
	if err := m.Check(ctx); err != nil {
		return clusterMeter{}, err
	}
	interest, err := nodesOfInterest(ctx, s)
	if err != nil {
		return clusterMeter{}, err
	}
	m.Only(interest)
	return clusterMeter{Meter: m, interest: interest, usual: kubelet.Refresh, usualNode: kubelet.Refresh, refresh: func(ctx context.Context) (containers, nodes time.Duration, err error) {
		pace, err := m.Probe(ctx)
		// A probe of current counters takes five seconds, in which those of a node may not be refreshed.
		return pace.Containers, cmp.Or(pace.Node, kubelet.Refresh), err
	}}, nil
}

// nodesOfInterest are the nodes that are read in every trial. They are nil, and so all, for
// a foreign application, or without permission to list pods of the cluster.
func nodesOfInterest(ctx context.Context, s meterSource) (map[string]bool, error) {
	if s.foreign {
		return nil, nil
	}
	nodes, err := kube.Nodes(ctx, s.Cluster)
	if err != nil {
		return nil, err
	}
	var pods *corev1.PodList
	err = s.Retry(ctx, "list the pods of every namespace", func(ctx context.Context) (err error) {
		pods, err = s.Typed().CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		return err
	})
	if cluster.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return kube.NodesOfInterest(nodes, pods.Items, s.platform.Affinity), nil
}

func openMetricsAPI(ctx context.Context, s meterSource) (clusterMeter, error) {
	m, err := metricsapi.Open(ctx, s.Cluster)
	if err != nil {
		return clusterMeter{}, err
	}
	return clusterMeter{Meter: m, usual: metricsapi.Refresh, refresh: func(ctx context.Context) (containers, nodes time.Duration, err error) {
		containers, err = m.Probe(ctx) // it reads no nodes
		return containers, 0, err
	}}, nil
}

// openNodeAgents prepares the meter of the node agents. The platform starts the agents once the run holds the cluster.
func openNodeAgents(ctx context.Context, s meterSource) (clusterMeter, error) {
	if err := agents.Permitted(ctx, s.Cluster); err != nil {
		return clusterMeter{}, err
	}
	all := agents.New(s.Cluster, s.run, s.image, s.report)
	// Each reading is current, that of the nodes included.
	current := func(context.Context) (containers, nodes time.Duration, err error) { return 0, 0, nil }
	return clusterMeter{Meter: agent.New(s.Reader(), all), agents: all, refresh: current}, nil
}
