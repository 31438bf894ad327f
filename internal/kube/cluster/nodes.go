package cluster

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Node is one node and its allocatable resources.
type Node struct {
	Name   string
	CPUs   int     // capacity, logical processors
	Cores  float64 // allocatable CPU
	Memory int64   // allocatable, bytes
	BootID string  // of its kernel: the same for nodes that are containers of one machine
}

// Nodes lists the nodes.
func (c *Cluster) Nodes(ctx context.Context) ([]Node, error) {
	var all []Node
	err := c.Retry(ctx, "list the nodes", func(ctx context.Context) error {
		list, err := c.typed.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		all = nil
		for _, n := range list.Items {
			all = append(all, Node{Name: n.Name, CPUs: int(n.Status.Capacity.Cpu().Value()),
				Cores: n.Status.Allocatable.Cpu().AsApproximateFloat64(), Memory: n.Status.Allocatable.Memory().Value(),
				BootID: n.Status.NodeInfo.BootID})
		}
		return nil
	})
	return all, err
}

// TakesPods reports whether a pod without tolerations can be scheduled on a node.
func TakesPods(n corev1.Node) bool {
	return !n.Spec.Unschedulable && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	})
}

// SystemNamespace exists on every cluster for as long as the cluster does.
const SystemNamespace = "kube-system"

// systemNamespaces are those of a cluster's own components, by distribution. They are whole names: users have namespaces
// such as azure-shop and kube-demo. Other components are recognised by their priority class.
var systemNamespaces = []string{
	"kube-system", "kube-public", "kube-node-lease", // Kubernetes
	"kube-flannel", "calico-system", "calico-apiserver", "tigera-operator", // networks
	"local-path-storage", "metallb-system", // storage of kind and k3s, load balancers of bare metal
	"gke-managed-system", "gke-managed-cim", "gke-managed-dpv2-observability", "gke-managed-networking-dra-driver", // GKE
	"gke-managed-volumepopulator", "gke-managed-filestorecsi", "gke-managed-parallelstorecsi", "gke-managed-lustrecsi",
	"gke-gmp-system", "gke-mcs", "gmp-system", "gmp-public",
	"aks-command", "azure-arc", "azure-extensions-usage-system", "azure-workload-identity-system", // AKS
	"amazon-cloudwatch", "amazon-guardduty", "amazon-network-flow-monitor", // EKS
}

// reservedPrefix begins the names of OpenShift's namespaces. OpenShift gives it to no user.
const reservedPrefix = "openshift-"

// SystemNamespaces lists the namespaces of a cluster's own components.
func SystemNamespaces() []string { return slices.Clone(systemNamespaces) }

// systemPriorities are the priority classes of a cluster's own components, in any namespace.
var systemPriorities = []string{"system-node-critical", "system-cluster-critical"}

// IsSystem reports whether a pod is one of the cluster's own components, by its namespace or its priority class.
func IsSystem(pod *corev1.Pod) bool {
	return slices.Contains(systemPriorities, pod.Spec.PriorityClassName) || slices.Contains(systemNamespaces, pod.Namespace) ||
		strings.HasPrefix(pod.Namespace, reservedPrefix)
}
