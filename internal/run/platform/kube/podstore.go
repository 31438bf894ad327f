package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// podStore follows the pods of the cluster with a watch. The API server gets no requests during the measurement, and the
// last known pods remain available while it is down.
type podStore struct {
	informer cache.SharedIndexInformer
	stop     chan struct{}
	once     sync.Once
}

// followPods returns once all pods are listed. It calls changed for every pod that appears, changes or is deleted. Without
// permission to list pods of all namespaces it follows the trial's namespace only.
func followPods(ctx context.Context, c *cluster.Cluster, namespace string, changed func(pod *corev1.Pod, deleted bool)) (*podStore, error) {
	scope := metav1.NamespaceAll
	err := c.Retry(ctx, "list the pods of every namespace", func(ctx context.Context) error {
		_, err := c.Typed().CoreV1().Pods(scope).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
	if apierrors.IsForbidden(err) {
		scope, err = namespace, nil
	}
	if err != nil {
		return nil, err
	}
	s := &podStore{informer: newInformer(c.Typed(), scope), stop: make(chan struct{})}
	if _, err := s.informer.AddEventHandler(podHandlers(changed)); err != nil {
		return nil, fmt.Errorf("follow pods: %w", err)
	}
	go routine.Guarded(func() { s.informer.Run(s.stop) })()
	if !cache.WaitForCacheSync(ctx.Done(), s.informer.HasSynced) {
		s.close()
		return nil, fmt.Errorf("follow pods: %w", context.Cause(ctx))
	}
	return s, nil
}

func newInformer(client kubernetes.Interface, namespace string) cache.SharedIndexInformer {
	pods := client.CoreV1().Pods(namespace)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, o)
		},
	}
	i := cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, cache.Indexers{})
	_ = i.SetTransform(dropManagedFields) // fails only on a started informer
	return i
}

// dropManagedFields removes the largest part of a pod that is not used here.
func dropManagedFields(o any) (any, error) {
	if pod, ok := o.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return o, nil
}

func podHandlers(changed func(pod *corev1.Pod, deleted bool)) cache.ResourceEventHandler {
	call := func(o any, deleted bool) {
		if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = last.Obj
		}
		if pod, ok := o.(*corev1.Pod); ok {
			changed(pod, deleted)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { call(o, false) },
		UpdateFunc: func(_, o any) { call(o, false) },
		DeleteFunc: func(o any) { call(o, true) },
	}
}

// all are the pods in their last known state, by namespace and name.
func (s *podStore) all() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, o := range s.informer.GetStore().List() {
		if pod, ok := o.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return pods
}

func (s *podStore) close() { s.once.Do(func() { close(s.stop) }) }

// running are the running containers of a pod, including native sidecars (init containers with restart policy Always)
// and ephemeral containers.
func running(pod *corev1.Pod) (names []string) {
	for _, s := range statuses(pod) {
		if s.State.Running != nil {
			names = append(names, s.Name)
		}
	}
	return names
}

// statuses are the statuses of all containers of a pod.
func statuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses)
}

// isReady reports whether a pod's condition Ready is true.
func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
