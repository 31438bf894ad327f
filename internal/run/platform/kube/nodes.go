package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// Node is one node of the cluster.
type Node struct {
	Name        string
	CPUs        int    // of the machine
	Allocatable string // what pods may have of it: "1930m cpu, 3.2Gi"
	MemoryMB    int64
	OS          string
	Arch        string
	Kernel      string
	Kubelet     string
	Runtime     string
	// Addresses of the machine, those for the outside first.
	Addresses []string
	// Schedulable says that pods may be placed on it.
	Schedulable bool
	// Role is what it is labelled for: [RoleApplication], [RoleLoad]; empty: nothing.
	Role string
}

// Nodes lists the nodes of a cluster, by name. Without the right to there are none.
func Nodes(ctx context.Context, c *cluster.Cluster) ([]Node, error) {
	if c.DryRun() {
		return nil, nil
	}
	var list *corev1.NodeList
	err := c.Retry(ctx, "list nodes", func(ctx context.Context) (err error) {
		list, err = c.Typed().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return Described(list.Items), nil
}

// Described are nodes as the API server tells of them, by name.
func Described(all []corev1.Node) (nodes []Node) {
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

// nodeCount is how many nodes pods can be placed on.
func (p *Platform) nodeCount() (n int) {
	for _, node := range p.nodes {
		if node.Schedulable {
			n++
		}
	}
	return n
}

// versions says what the cluster is: its own version, and a line a node.
func (p *Platform) versions(ctx context.Context) (map[string]string, error) {
	version, err := p.options.Cluster.Version(ctx)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{"kubernetes": version, "image": p.options.Image}
	for _, n := range p.nodes {
		versions["node "+n.Name] = fmt.Sprintf("kubelet %s, %s, Linux %s, %s, %d processors; for pods: %s", n.Kubelet, n.Runtime, n.Kernel, n.Arch, n.CPUs, n.Allocatable)
	}
	return versions, nil
}
