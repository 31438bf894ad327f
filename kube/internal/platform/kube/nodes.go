package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Node is one node of the cluster.
type Node struct {
	Name        string
	CPUs        int    // of the machine
	Allocatable string // to pods: "1930m cpu, 3.2Gi"
	MemoryMB    int64
	OS          string
	Arch        string
	Kernel      string
	Kubelet     string
	Runtime     string
	// Addresses of the machine, external ones first.
	Addresses []string
	// Schedulable reports whether pods can be placed on it.
	Schedulable bool
	// Zone is its label topology.kubernetes.io/zone, or "".
	Zone string
	// Role is its label [LabelRole]: [RoleApplication], [RoleLoad] or "".
	Role string
}

// nodeList are the nodes of a cluster, empty without permission to list nodes.
type nodeList []Node

// Nodes lists the nodes of a cluster by name. Without permission to list nodes the list is empty.
func Nodes(ctx context.Context, c *cluster.Cluster) ([]Node, error) {
	if c.DryRun() {
		return nil, nil
	}
	var list *corev1.NodeList
	err := c.Retry(ctx, "list nodes", func(ctx context.Context) (err error) {
		list, err = c.Typed().CoreV1().Nodes().List(ctx, cluster.RealNodes())
		return err
	})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return NodesFrom(list.Items), nil
}

// NodesOfInterest are the nodes that can have pods of a trial, and those that have pods of the cluster other than of
// DaemonSets. They are the same for all trials of a run. nil: unknown.
func NodesOfInterest(nodes []Node, pods []corev1.Pod, affinity string) map[string]bool {
	if len(nodes) == 0 {
		return nil
	}
	all := map[string]bool{}
	for _, n := range nodes {
		if n.Schedulable && (affinity != AffinityLabels || n.Role != "") {
			all[n.Name] = true
		}
	}
	for i := range pods {
		if p := &pods[i]; p.Spec.NodeName != "" && cluster.IsSystem(p) && !ofDaemonSet(p) {
			all[p.Spec.NodeName] = true
		}
	}
	return all
}

// ofDaemonSet reports whether a pod is one of those that every node has.
func ofDaemonSet(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "DaemonSet"
}

// NodesFrom converts nodes of the API server, sorted by name.
func NodesFrom(all []corev1.Node) (nodes []Node) {
	for _, n := range all {
		nodes = append(nodes, describe(n))
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

func describe(n corev1.Node) Node {
	info := n.Status.NodeInfo
	return Node{
		Name: n.Name, CPUs: int(n.Status.Capacity.Cpu().Value()), MemoryMB: n.Status.Capacity.Memory().Value() / 1e6,
		Allocatable: fmt.Sprintf("%s cpu, %s", n.Status.Allocatable.Cpu(), n.Status.Allocatable.Memory()),
		OS:          info.OperatingSystem, Arch: info.Architecture, Kernel: info.KernelVersion, Kubelet: info.KubeletVersion,
		Runtime: info.ContainerRuntimeVersion, Schedulable: cluster.TakesPods(n), Addresses: addresses(n), Role: n.Labels[LabelRole],
		Zone: n.Labels[corev1.LabelTopologyZone],
	}
}

func addresses(n corev1.Node) (all []string) {
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for _, a := range n.Status.Addresses {
			if a.Type == kind {
				all = append(all, a.Address)
			}
		}
	}
	return all
}

// schedulable is the number of nodes that pods can be placed on.
func (l nodeList) schedulable() (n int) {
	for _, node := range l {
		if node.Schedulable {
			n++
		}
	}
	return n
}

// nodeOf is the node of a pod, empty if unknown.
func (l nodeList) nodeOf(pod *corev1.Pod) Node {
	i := slices.IndexFunc(l, func(n Node) bool { return n.Name == pod.Spec.NodeName })
	if i < 0 {
		return Node{}
	}
	return l[i]
}

func (l nodeList) addressesOf(pod *corev1.Pod) []string {
	if all := l.nodeOf(pod).Addresses; len(all) > 0 {
		return all
	}
	return []string{pod.Status.HostIP}
}

// versions are the cluster's version, tare-agent's image and one line for each node.
func (p *Platform) versions(ctx context.Context) (map[string]string, error) {
	version, err := p.options.Cluster.Version(ctx)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{"kubernetes": version, "image": p.options.Image}
	for _, n := range p.nodes {
		versions["node "+n.Name] = fmt.Sprintf("kubelet %s, %s, Linux %s, %s, %d CPUs; allocatable: %s", n.Kubelet, n.Runtime, n.Kernel, n.Arch, n.CPUs, n.Allocatable)
	}
	return versions, nil
}
