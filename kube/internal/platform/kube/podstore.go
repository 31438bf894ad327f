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
	"k8s.io/client-go/tools/cache"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// podStore follows the pods of the cluster with a watch, but for those of simulated nodes, in which nothing runs. The API server gets no requests during the measurement, and the
// last known pods remain available while it is down.
type podStore struct {
	informer  cache.SharedIndexInformer
	simulated map[string]bool // nodes
	close     func()
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
	simulated, err := c.SimulatedNodes(ctx)
	if err != nil {
		return nil, err
	}
	lw := listWatch(c.Typed().CoreV1().Pods(scope))
	s := &podStore{informer: cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, cache.Indexers{}), simulated: simulated}
	_ = s.informer.SetTransform(dropManagedFields) // fails only on a started informer
	if s.close, err = follow(ctx, "pods", s.informer, func(pod *corev1.Pod, deleted bool) {
		if !simulated[pod.Spec.NodeName] {
			changed(pod, deleted)
		}
	}); err != nil {
		return nil, err
	}
	return s, nil
}

// listWatch lists and watches the objects that a typed client has.
func listWatch[List runtime.Object](objects interface {
	List(ctx context.Context, o metav1.ListOptions) (List, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) },
		WatchFuncWithContext: objects.Watch,
	}
}

// follow runs an informer until stop is called, which may be more than once. It returns once all objects are listed, and
// calls changed for every object that appears, changes or is deleted.
func follow[Object any](ctx context.Context, what string, informer cache.SharedIndexInformer, changed func(o Object, deleted bool)) (stop func(), err error) {
	call := func(o any, deleted bool) {
		if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = last.Obj
		}
		if object, ok := o.(Object); ok {
			changed(object, deleted)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { call(o, false) },
		UpdateFunc: func(_, o any) { call(o, false) },
		DeleteFunc: func(o any) { call(o, true) },
	}); err != nil {
		return nil, fmt.Errorf("follow %s: %w", what, err)
	}
	done := make(chan struct{})
	stop = sync.OnceFunc(func() { close(done) })
	go routine.Guarded(func() { informer.Run(done) })()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		stop()
		return nil, fmt.Errorf("follow %s: %w", what, context.Cause(ctx))
	}
	return stop, nil
}

// dropManagedFields removes the largest part of a pod that is not used here.
func dropManagedFields(o any) (any, error) {
	if pod, ok := o.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return o, nil
}

// all are the pods in their last known state, by namespace and name.
func (s *podStore) all() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, o := range s.informer.GetStore().List() {
		if pod, ok := o.(*corev1.Pod); ok && !s.simulated[pod.Spec.NodeName] {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return pods
}

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

func statuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses)
}

// isReady reports whether a pod's condition Ready is true.
func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
