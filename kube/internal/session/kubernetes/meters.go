package kubernetes

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/kube/internal/agents"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/meter/agent"
	"github.com/tare-mesh/tare/kube/internal/meter/kubelet"
	"github.com/tare-mesh/tare/kube/internal/platform/kube"
)

var openers = map[string]func(context.Context, MeterSource) (ClusterMeter, error){
	session.MeterKubelet:   openKubelets,
	session.MeterNodeAgent: openNodeAgents,
}

// MeterSource has the parts of a meter.
type MeterSource struct {
	*cluster.Cluster
	Platform experiment.Platform
	// foreign: others' objects run the application. They may tolerate taints, and select any node.
	foreign bool
	// Run and Image are the run and the image of the node agents. An empty Run starts none.
	Run, Image string
	Note       func(string)
}

// ClusterMeter is a meter, with its refresh interval.
type ClusterMeter struct {
	meter.Meter
	Name string
	// Refresh measures the longest time between two refreshes of a container's
	// counters, 0 if they are current, and of the nodes' own, 0 if there are none.
	Refresh func(context.Context) (containers, nodes time.Duration, err error)
	// usual is the refresh interval to expect until it is measured, usualNode the interval of the nodes' own counters.
	usual, usualNode time.Duration
	// Agents are the node agents that a run starts. Nil means that the meter needs none.
	Agents *agents.Agents
	// interest are the nodes that are read in every trial. Nil means all.
	interest map[string]bool
}

// OpenMeter opens the meter that the experiment names. Without a name these are the kubelets, or node agents if the user may
// not read the kubelets.
func OpenMeter(ctx context.Context, s MeterSource) (ClusterMeter, error) {
	name := cmp.Or(s.Platform.Meter, session.MeterKubelet)
	m, err := openers[name](ctx, s)
	if cluster.IsForbidden(err) && name == session.MeterKubelet {
		err = hint.Wrap(err, "`tare cluster rbac` prints the permissions; platform.meter: node-agent needs none on nodes/proxy")
		if s.Platform.Meter == "" && s.Platform.Namespace == "" && s.Platform.InUse != "allow" {
			name = session.MeterNodeAgent
			m, err = openers[name](ctx, s)
		}
	}
	m.Name = name
	return m, err
}

func openKubelets(ctx context.Context, s MeterSource) (ClusterMeter, error) {
	m, err := kubelet.Open(ctx, s.Cluster)
	if err != nil {
		return ClusterMeter{}, err
	}
	if err := m.Check(ctx); err != nil {
		return ClusterMeter{}, err
	}
	interest, err := nodesOfInterest(ctx, s)
	if err != nil {
		return ClusterMeter{}, err
	}
	m.Only(interest)
	return ClusterMeter{Meter: m, interest: interest, usual: kubelet.Refresh, usualNode: kubelet.Refresh, Refresh: func(ctx context.Context) (containers, nodes time.Duration, err error) {
		pace, err := m.Probe(ctx)
		// A probe of current counters takes five seconds, in which a node's own counters may not be refreshed.
		return pace.Containers, cmp.Or(pace.Node, kubelet.Refresh), err
	}}, nil
}

// nodesOfInterest are the nodes that are read in every trial. They are nil, and so all, for
// a foreign application, or without permission to list pods of the cluster.
func nodesOfInterest(ctx context.Context, s MeterSource) (map[string]bool, error) {
	if s.foreign {
		return nil, nil
	}
	nodes, err := kube.Nodes(ctx, s.Cluster)
	if err != nil {
		return nil, err
	}
	pods, err := cluster.Retried(ctx, s.Cluster, "list the pods of every namespace", func(ctx context.Context) (*corev1.PodList, error) {
		return s.Typed().CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	})
	if cluster.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return kube.NodesOfInterest(nodes, pods.Items, s.Platform.Affinity), nil
}

// openNodeAgents prepares the meter of the node agents. The platform starts the agents once the run holds the cluster.
func openNodeAgents(ctx context.Context, s MeterSource) (ClusterMeter, error) {
	if err := agents.Permitted(ctx, s.Cluster); err != nil {
		return ClusterMeter{}, err
	}
	all := agents.New(s.Cluster, s.Run, s.Image, s.Note)
	// Each reading is current, also of the nodes' own counters.
	current := func(context.Context) (containers, nodes time.Duration, err error) { return 0, 0, nil }
	return ClusterMeter{Meter: agent.New(s.Reader(), all), Agents: all, Refresh: current}, nil
}
