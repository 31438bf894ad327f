package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// labelListed is the label of pods that the entry's Service selects. Without it a pod goes on serving, so that its answers
// show which proxies still use it.
const labelListed = "tare.dev/listed"

// changer changes the endpoints of the entry's Service, applies the mesh's objects of a change, or without a mesh changes the
// application. It restarts pods of the entry and workloads of the control plane.
type changer struct {
	*trial
	pods       *trialPods
	applier    *applier
	configurer *configurer
	faults     *faults
	upgrade    *upgrade

	mu  sync.Mutex
	out map[string]bool // pods that were taken out
}

// Endpoints implements [platform.Changer]. A pod's answers have its name.
func (c *changer) Endpoints() (all []string) {
	all = printable.Texts(c.entry(), func(pod *corev1.Pod) string { return pod.Name })
	slices.Sort(all)
	return all
}

// Change implements [platform.Changer].
func (c *changer) Change(ctx context.Context, change platform.Change) error {
	if err := c.spec.Mesh.CanChange(mesh.OnKubernetes, change.Kind); err != nil {
		return fmt.Errorf("mesh %s: %w: %w", c.spec.Mesh.Name, errors.ErrUnsupported, err)
	}
	switch {
	case change.Kind == metric.VersionChanged && change.Prepare:
		return c.upgrade.install(ctx, change.Version)
	case change.Kind == metric.VersionChanged:
		return c.upgrade.move(ctx, change.Moved)
	case change.Kind == metric.EndpointRemoved, change.Kind == metric.EndpointAdded:
		return c.list(change.OnRequest(ctx), change.Endpoints)
	case c.spec.Mesh.Kubernetes == nil:
		return c.reload(change.OnRequest(ctx), change.Version)
	}
	return c.apply(ctx, change)
}

// Restartable implements [platform.Restarter]: pods of the entry, and workloads of the control plane.
func (c *changer) Restartable(plane metric.Plane) (all []string) {
	k := c.spec.Mesh.Kubernetes
	switch {
	case plane == metric.Data:
		all = printable.Texts(c.entry(), c.pods.name)
		slices.Sort(all)
	case plane == metric.Control && k != nil:
		all = printable.Texts(k.Workloads, func(w mesh.Workload) string { return w.Name })
	}
	return all
}

// Restart implements [platform.Restarter]: it deletes a pod and waits for another, rolls a workload, or scales it to none for
// a time.
func (c *changer) Restart(ctx context.Context, plane metric.Plane, id string, stopped time.Duration) error {
	switch {
	case plane == metric.Control && stopped > 0:
		return c.stop(ctx, c.workload(id), stopped)
	case plane == metric.Control:
		return c.roll(ctx, c.workload(id))
	}
	pod, err := c.pods.find(id + "/" + appContainer)
	if err != nil {
		return err
	}
	if err := c.faults.deletePod(ctx, pod, graceSeconds*time.Second); err != nil {
		return err
	}
	return c.faults.Restart(ctx, id)
}

func (c *changer) entry() []*corev1.Pod { return c.pods.ofService(c.spec.Topology.EntryName()) }

// list makes pods of the entry the endpoints of its Service.
func (c *changer) list(ctx context.Context, endpoints []string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range c.Endpoints() {
		out := !slices.Contains(endpoints, name)
		c.mu.Lock()
		is := c.out[name]
		c.mu.Unlock()
		if is != out {
			group.Go(routine.Guarded(func() error { return c.label(ctx, name, out) }))
		}
	}
	return group.Wait()
}

func (c *changer) label(ctx context.Context, pod string, out bool) error {
	value := `"true"`
	if out {
		value = "null"
	}
	_, err := c.cluster.Typed().CoreV1().Pods(c.namespace).Patch(ctx, pod, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, labelListed, value), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("change the label of pod %s: %w", pod, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out == nil {
		c.out = map[string]bool{}
	}
	c.out[pod] = out
	return nil
}

// reload gives each replica of the entry a configuration with another version.
func (c *changer) reload(ctx context.Context, version int) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, pod := range c.entry() {
		group.Go(routine.Guarded(func() error {
			_, err := c.configurer.Configure(ctx, c.pods.name(pod)+"/"+appContainer, fmt.Appendf(nil, `{"version":%d}`, version))
			return err
		}))
	}
	return group.Wait()
}

// apply applies the objects of a change in the trial's namespace, which is removed with them. The results have the change, and no
// manifest of it.
func (c *changer) apply(ctx context.Context, change platform.Change) error {
	text, err := c.spec.Mesh.Kubernetes.Change(change.Kind, mesh.ChangeContext{Service: c.spec.Topology.EntryName(), Version: change.Version,
		Before: max(0, change.Version-1)})
	if err != nil {
		return err
	}
	var objects []runtime.Object
	err = eachObject(text, func(o *unstructured.Unstructured) error {
		o.SetNamespace(c.namespace)
		objects = append(objects, o)
		return nil
	})
	if err != nil {
		return err
	}
	return c.cluster.Apply(change.OnRequest(ctx), cluster.Stamp{Run: c.options.Run, Labels: c.stampLabels()}, objects...)
}

// workload is the object of a workload of the control plane, by its name.
func (c *changer) workload(name string) cluster.Ref {
	k := c.spec.Mesh.Kubernetes
	i := slices.IndexFunc(k.Workloads, func(w mesh.Workload) bool { return w.Name == name })
	return meshes.RefOf(k.Workloads[i], k.Namespace)
}

// roll replaces the pods of a workload, as kubectl rollout restart does, and waits for the new ones.
func (c *changer) roll(ctx context.Context, ref cluster.Ref) error {
	if err := c.cluster.Patch(ctx, ref, rollOut(time.Now().Format(time.RFC3339Nano))); err != nil {
		return err
	}
	return c.applier.wait(ctx, ref)
}

// stop scales a workload to none and, after a time or at the end of ctx, to its replicas again. It waits for these.
func (c *changer) stop(ctx context.Context, ref cluster.Ref, stopped time.Duration) error {
	o, err := c.cluster.Get(ctx, ref)
	if err != nil {
		return err
	}
	replicas, has, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if err != nil || !has {
		return cmp.Or(err, fmt.Errorf("%s has no number of replicas", ref))
	}
	scale := func(ctx context.Context, n int64) error {
		return c.cluster.Patch(ctx, ref, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n))
	}
	if err := scale(ctx, 0); err != nil {
		return err
	}
	err = wait.For(ctx, stopped)
	late, cancel := removalContext(context.WithoutCancel(ctx))
	defer cancel()
	if err := errors.Join(err, scale(late, replicas)); err != nil {
		return err
	}
	return c.applier.wait(ctx, ref)
}
