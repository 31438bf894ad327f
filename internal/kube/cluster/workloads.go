package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Workload is something that runs in the cluster and is neither tare's nor the system's.
type Workload struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"` // "Deployment", "Pod"
	Name      string `json:"name"`
	Pods      int    `json:"-"` // that have not ended
}

func (w Workload) String() string {
	s := fmt.Sprintf("%s %s/%s", strings.ToLower(w.Kind), w.Namespace, w.Name)
	if w.Pods > 1 {
		s += fmt.Sprintf(" (%d pods)", w.Pods)
	}
	return s
}

// same says whether two are the same workload, however many pods it has now.
func (w Workload) same(o Workload) bool {
	return w.Namespace == o.Namespace && w.Kind == o.Kind && w.Name == o.Name
}

// systemNamespaces are those of a cluster's own parts, by distribution; a name that ends in - stands for all that begin so.
var systemNamespaces = []string{
	"kube-",              // Kubernetes, kube-system, kube-public, kube-node-lease; kube-flannel
	"local-path-storage", // kind, k3s
	"gke-", "gmp-",       // GKE
	"aks-", "azure-", // AKS
	"amazon-",            // EKS
	"openshift-",         // OpenShift
	"calico-", "tigera-", // Calico
	"metallb-system", // load balancers of bare metal
}

// systemPriorities are the priority classes a cluster gives its own parts, wherever they run.
var systemPriorities = []string{"system-node-critical", "system-cluster-critical"}

func isSystemNamespace(name string) bool {
	return slices.ContainsFunc(systemNamespaces, func(s string) bool {
		return s == name || strings.HasSuffix(s, "-") && strings.HasPrefix(name, s)
	})
}

// Foreign lists what runs on the cluster that is neither tare's nor the system's, by namespace. A pod that has ended
// does not run. It needs the right to list pods and namespaces of the whole cluster.
func (c *Cluster) Foreign(ctx context.Context) ([]Workload, error) {
	ours, err := c.ownNamespaces(ctx)
	if err != nil {
		return nil, err
	}
	var all []Workload
	err = c.eachPod(ctx, func(pod *corev1.Pod) {
		if ours[pod.Namespace] || !isForeign(pod) {
			return
		}
		w := workloadOf(pod)
		i := slices.IndexFunc(all, w.same)
		if i < 0 {
			i = len(all)
			all = append(all, w)
		}
		all[i].Pods++
	})
	slices.SortFunc(all, func(a, b Workload) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

// ownNamespaces are those that tare made, for a run or to outlive it.
func (c *Cluster) ownNamespaces(ctx context.Context) (map[string]bool, error) {
	ours := map[string]bool{}
	err := c.Retry(ctx, "list namespaces", func(ctx context.Context) error {
		for _, selector := range []string{LabelRun, LabelInstalled} {
			list, err := c.typed.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: selector})
			if err != nil {
				return err
			}
			for _, ns := range list.Items {
				ours[ns.Name] = true
			}
		}
		return nil
	})
	return ours, err
}

// pageSize bounds one answer of a list that may be long.
const pageSize = 500

func (c *Cluster) eachPod(ctx context.Context, f func(*corev1.Pod)) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		var page *corev1.PodList
		err := c.Retry(ctx, "list the pods of every namespace", func(ctx context.Context) error {
			var err error
			page, err = c.typed.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
			return err
		})
		if err != nil {
			return err
		}
		for i := range page.Items {
			f(&page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

func isForeign(pod *corev1.Pod) bool {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return false
	case pod.Labels[LabelRun] != "":
		return false
	}
	return !IsSystem(pod)
}

// IsSystem says that a pod is one of the cluster's own parts: by its namespace, or its priority wherever it runs.
func IsSystem(pod *corev1.Pod) bool {
	return isSystemNamespace(pod.Namespace) || slices.Contains(systemPriorities, pod.Spec.PriorityClassName)
}

// TakesPods says whether a pod without tolerations may be put on a node.
func TakesPods(n corev1.Node) bool {
	return !n.Spec.Unschedulable && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	})
}

// workloadOf names what a pod belongs to: its controller, and a ReplicaSet's Deployment.
func workloadOf(pod *corev1.Pod) Workload {
	w := Workload{Namespace: pod.Namespace, Kind: "Pod", Name: pod.Name}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return w
	}
	w.Kind, w.Name = owner.Kind, owner.Name
	// The name of a Deployment's ReplicaSet ends in the hash that its pods are labelled with.
	if hash := pod.Labels["pod-template-hash"]; hash != "" && owner.Kind == "ReplicaSet" {
		if name, ok := strings.CutSuffix(owner.Name, "-"+hash); ok {
			w.Kind, w.Name = "Deployment", name
		}
	}
	return w
}
