package guard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Workload is a workload of others: neither tare's nor a component of the cluster.
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

// same reports whether two are the same workload, even if the number of pods differs.
func (w Workload) same(o Workload) bool {
	return w.Namespace == o.Namespace && w.Kind == o.Kind && w.Name == o.Name
}

// Foreign lists the workloads of others, by namespace, without pods that have ended. It needs permission to list pods
// and namespaces of the whole cluster.
func (g *Guard) Foreign(ctx context.Context) ([]Workload, error) {
	ours, err := g.ownNamespaces(ctx)
	if err != nil {
		return nil, err
	}
	var all []Workload
	err = g.eachPod(ctx, func(pod *corev1.Pod) {
		if ours[pod.Namespace] || !isForeign(pod) {
			return
		}
		kind, name := cluster.WorkloadOf(pod)
		w := Workload{Namespace: pod.Namespace, Kind: kind, Name: name}
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

// ownNamespaces are the namespaces that tare created, for a run or an installation.
func (g *Guard) ownNamespaces(ctx context.Context) (map[string]bool, error) {
	ours := map[string]bool{}
	err := g.cluster.Retry(ctx, "list namespaces", func(ctx context.Context) error {
		for _, selector := range []string{cluster.LabelRun, cluster.LabelInstalled} {
			list, err := g.cluster.Typed().CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: selector})
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

// pageSize bounds one page of the list of pods.
const pageSize = 500

func (g *Guard) eachPod(ctx context.Context, f func(*corev1.Pod)) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := cluster.Retried(ctx, g.cluster, "list the pods of every namespace", func(ctx context.Context) (*corev1.PodList, error) {
			return g.cluster.Typed().CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
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
	case pod.Labels[cluster.LabelRun] != "":
		return false
	}
	return !cluster.IsSystem(pod)
}
