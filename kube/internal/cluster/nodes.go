package cluster

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment/manifest"
)

// Node is one node and its allocatable resources.
type Node struct {
	Name   string
	CPUs   int     // capacity, logical processors
	Cores  float64 // allocatable CPU
	Memory int64   // allocatable, bytes
	BootID string  // of its kernel: the same for nodes that are containers of one machine
	Ready  bool    // its kubelet reports that it can run pods
}

// typeLabel is the label of simulated nodes, which have no kernel, and simulatedTypes its values: KWOK's and virtual-kubelet's.
const (
	typeLabel = "type"
	kwokType  = "kwok"
	kwokTaint = "kwok.x-k8s.io/node" // keeps other pods away
)

var simulatedTypes = []string{kwokType, "virtual-kubelet"}

// RealNodes selects the nodes that are not simulated.
func RealNodes() metav1.ListOptions { return nodesWhose(" notin ") }

func nodesWhose(is string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: typeLabel + is + "(" + strings.Join(simulatedTypes, ",") + ")"}
}

// OnRealNodes requires a node that is not simulated.
func OnRealNodes() *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: typeLabel, Operator: corev1.NodeSelectorOpNotIn, Values: simulatedTypes}}}}}}}
}

// OnKWOKNodes places a pod on the nodes of KWOK, where no program runs. Those of virtual-kubelet may run it elsewhere.
func OnKWOKNodes(spec *corev1.PodSpec) {
	spec.NodeSelector = map[string]string{typeLabel: kwokType}
	spec.Tolerations = []corev1.Toleration{{Key: kwokTaint, Operator: corev1.TolerationOpExists}}
}

// KWOKPods returns the number of pods for which the nodes of KWOK have room, those that exist included.
func (c *Cluster) KWOKPods(ctx context.Context) (room int, err error) {
	err = c.Retry(ctx, "list the simulated nodes", func(ctx context.Context) error {
		list, err := c.typed.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: typeLabel + "=" + kwokType})
		if err != nil {
			return err
		}
		room = 0
		for _, n := range list.Items {
			if IsReady(n) && !n.Spec.Unschedulable {
				room += int(n.Status.Allocatable.Pods().Value())
			}
		}
		return nil
	})
	return room, err
}

// SimulatedNodes are the names of the simulated nodes, none without permission to list nodes.
func (c *Cluster) SimulatedNodes(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	err := c.Retry(ctx, "list the simulated nodes", func(ctx context.Context) error {
		list, err := c.typed.CoreV1().Nodes().List(ctx, nodesWhose(" in "))
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			names[n.Name] = true
		}
		return nil
	})
	if IsForbidden(err) {
		err = nil
	}
	return names, err
}

// Nodes lists the real nodes.
func (c *Cluster) Nodes(ctx context.Context) ([]Node, error) {
	var all []Node
	err := c.Retry(ctx, "list the nodes", func(ctx context.Context) error {
		list, err := c.typed.CoreV1().Nodes().List(ctx, RealNodes())
		if err != nil {
			return err
		}
		all = nil
		for _, n := range list.Items {
			all = append(all, Node{Name: n.Name, CPUs: int(n.Status.Capacity.Cpu().Value()),
				Cores: n.Status.Allocatable.Cpu().AsApproximateFloat64(), Memory: n.Status.Allocatable.Memory().Value(),
				BootID: n.Status.NodeInfo.BootID, Ready: IsReady(n)})
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

// IsReady reports whether the kubelet of a node reports that it can run pods.
func IsReady(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// isSilent reports whether the kubelet of a node has not answered for some time: it confirms the end of no pod.
func isSilent(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	}) || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnreachable })
}

// SystemNamespace exists on every cluster for as long as the cluster does.
const SystemNamespace = "kube-system"

// systemPriorities are the priority classes of a cluster's own components, in any namespace.
var systemPriorities = []string{"system-node-critical", "system-cluster-critical"}

// IsSystem reports whether a pod is one of the cluster's own components, by its namespace or its priority class.
func IsSystem(pod *corev1.Pod) bool {
	return slices.Contains(systemPriorities, pod.Spec.PriorityClassName) || manifest.IsSystemNamespace(pod.Namespace)
}
