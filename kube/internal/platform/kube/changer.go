package kube

import (
	"cmp"
	"context"
	"encoding/json"
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

	"github.com/tare-mesh/tare/internal/base/lists"
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
	all = lists.Map(c.entry(), func(pod *corev1.Pod) string { return pod.Name })
	slices.Sort(all)
	return all
}

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
		all = lists.Map(c.entry(), c.pods.name)
		slices.Sort(all)
	case plane == metric.Control && k != nil:
		all = lists.Map(k.Workloads, func(w mesh.Workload) string { return w.Name })
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

// upgrade moves the application to further revisions of the mesh. Without a mesh it only rolls the application out.
type upgrade struct {
	*trial
	pods    *trialPods
	monitor *podMonitor
	faults  *faults
	applier *applier

	revisions []*meshes.Revision // whose installation was begun
	marks     mesh.Marks         // of the namespace, as the last move left it
}

func (u *upgrade) install(ctx context.Context, version int) error {
	if u.spec.Mesh.Kubernetes == nil {
		return nil
	}
	if u.revisions == nil {
		u.marks = u.enrolment.Namespace
	}
	revision, err := u.mesh.Revision(fmt.Sprintf("tare-%d", version), u.options.UpgradeTo)
	if err != nil {
		return err
	}
	u.revisions = append(u.revisions, revision)
	return revision.Install(ctx)
}

// move puts the namespace under the latest revision and rolls out the services. It returns when all new pods are ready, and
// describes the move in moved.
func (u *upgrade) move(ctx context.Context, moved *mesh.Moved) error {
	var proof mesh.Marks
	if u.spec.Mesh.Kubernetes != nil {
		if err := u.before(ctx, moved); err != nil {
			return err
		}
		to, err := u.latest().Enrol(u.namespace, mesh.Way{LoadInside: u.enrolment.loadInside, Front: u.enrolment.front, Services: protocolsOf(u.spec)})
		if err != nil {
			return err
		}
		if err := u.relabel(ctx, to.Namespace); err != nil {
			return err
		}
		u.marks, proof = to.Namespace, to.Proof
	}
	var old []*corev1.Pod
	var refs []cluster.Ref
	now := time.Now().Format(time.RFC3339Nano)
	for _, s := range u.agentServices() {
		for _, pod := range u.pods.ofService(s.Name) {
			u.faults.release(pod, false)
			old = append(old, pod)
		}
		refs = append(refs, cluster.Ref{Kind: cluster.KindDeployment, Namespace: u.namespace, Name: s.Name})
	}
	for _, ref := range refs {
		if err := u.cluster.Patch(ctx, ref, rollOut(now)); err != nil {
			return err
		}
	}
	if err := u.applier.wait(ctx, refs...); err != nil {
		return err
	}
	for _, pod := range old {
		if err := u.pods.awaitDeleted(ctx, pod, graceSeconds*time.Second); err != nil {
			return err
		}
	}
	if err := u.follow(proof); err != nil || u.spec.Mesh.Kubernetes == nil {
		return err
	}
	moved.End(u.proxies(), u.latest().ProxyImage())
	return nil
}

func (u *upgrade) latest() *meshes.Revision { return u.revisions[len(u.revisions)-1] }

// before reads the images of both control planes, and of the proxies that are to be replaced.
func (u *upgrade) before(ctx context.Context, moved *mesh.Moved) error {
	from, err := meshes.ControlImages(ctx, u.cluster, *u.spec.Mesh.Kubernetes)
	if n := len(u.revisions); n > 1 {
		from, err = u.revisions[n-2].ControlImages(ctx)
	}
	if err != nil {
		return err
	}
	to, err := u.latest().ControlImages(ctx)
	if err == nil {
		moved.Begin(from, to, u.proxies())
	}
	return err
}

// proxies are the images of the proxies of each pod of the application, by the pod's name.
func (u *upgrade) proxies() map[string][]string {
	all := map[string][]string{}
	for _, s := range u.agentServices() {
		for _, pod := range u.pods.ofService(s.Name) {
			all[pod.Name] = meshes.ProxyImages(*u.spec.Mesh.Kubernetes, pod)
		}
	}
	return all
}

// rollOut is the patch of kubectl rollout restart.
func rollOut(at string) []byte {
	return fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, at)
}

// relabel replaces the marks of the mesh on the namespace.
func (u *upgrade) relabel(ctx context.Context, to mesh.Marks) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": replacement(u.marks.Labels, to.Labels), "annotations": replacement(u.marks.Annotations, to.Annotations)}})
	if err != nil {
		return err
	}
	return u.cluster.Patch(ctx, u.namespaceRef(), patch)
}

// replacement is a merge patch that removes the keys of a map that another lacks, and sets the other's.
func replacement(from, to map[string]string) map[string]any {
	all := map[string]any{}
	for key := range from {
		all[key] = nil
	}
	for key, value := range to {
		all[key] = value
	}
	return all
}

// follow monitors the new pods. Each must have the marks of its revision.
func (u *upgrade) follow(proof mesh.Marks) error {
	for _, s := range u.agentServices() {
		for _, pod := range u.pods.ofService(s.Name) {
			if !has(pod.Labels, proof.Labels) || !has(pod.Annotations, proof.Annotations) {
				return fmt.Errorf("pod %s did not move to the new revision of the mesh: it lacks %v", pod.Name, proof)
			}
			u.monitor.add(pod)
		}
	}
	return nil
}

func has(all, some map[string]string) bool {
	for key, value := range some {
		if is, ok := all[key]; !ok || is != value {
			return false
		}
	}
	return true
}

// withdraw removes the control planes of all revisions, after the application.
func (u *upgrade) withdraw(ctx context.Context) (err error) {
	for _, revision := range u.revisions {
		err = errors.Join(err, revision.Remove(ctx))
	}
	if err == nil {
		u.revisions = nil
	}
	return err
}

// moments implements [platform.Moments] of proxies, by the pages in the mesh's definition. A proxy has the clock of its node, which the
// node agent compares with this machine's.
type moments struct {
	*trial
	pods  *trialPods
	clock func(node string) (ahead, unsure time.Duration, ok bool)                                // [agents.Agents.Clock], nil without agents
	read  func(context.Context, *cluster.Cluster, mesh.Updates, *corev1.Pod) ([]time.Time, error) // [meshes.UpdateTimes]
}

func newMoments(t *trial, pods *trialPods) moments {
	m := moments{trial: t, pods: pods, read: meshes.UpdateTimes}
	if t.options.Agents != nil {
		m.clock = t.options.Agents.Clock
	}
	return m
}

// known reports whether proxies have pages of their updates, and the clocks of nodes are compared.
func (m moments) known() bool {
	k := m.spec.Mesh.Kubernetes
	return k != nil && m.clock != nil && slices.ContainsFunc(k.Proxies, func(x mesh.Proxy) bool { return x.In == mesh.InPod && len(x.Updates) > 0 })
}

// ControlMoments implements [platform.Moments]: the histograms of [trial.ControlTimes] have no instants.
func (moments) ControlMoments(context.Context) ([]mesh.ControlMoment, error) { return nil, nil }

// ProxyUpdates implements [platform.Moments]: of the proxies that requests of the load pass in the direction of each page.
func (m moments) ProxyUpdates(ctx context.Context) (map[string][]time.Time, error) {
	var mu sync.Mutex
	all := map[string][]time.Time{}
	group, ctx := errgroup.WithContext(ctx)
	for _, x := range m.spec.Mesh.Kubernetes.Proxies {
		if x.In != mesh.InPod {
			continue
		}
		for _, u := range x.Updates {
			service := loadService
			if u.Direction == mesh.WayIn {
				service = m.spec.Topology.EntryName()
			}
			for _, pod := range m.pods.ofService(service) {
				if !slices.ContainsFunc(containerNames(pod), func(name string) bool { return mesh.Match(x.Container, name) }) {
					continue
				}
				group.Go(routine.Guarded(func() error {
					ahead, _, has := m.clock(pod.Spec.NodeName)
					if !has {
						return fmt.Errorf("the clock of node %s is not compared", pod.Spec.NodeName)
					}
					times, err := m.read(ctx, m.cluster, u, pod)
					mu.Lock()
					defer mu.Unlock()
					for _, at := range times {
						all[m.pods.name(pod)] = append(all[m.pods.name(pod)], at.Add(-ahead))
					}
					return err
				}))
			}
		}
	}
	return all, group.Wait()
}

// ControlTimes implements [platform.Deployment.ControlTimes], by the histograms in the mesh's definition.
func (t *trial) ControlTimes(ctx context.Context) ([]mesh.CountedTime, error) {
	k := t.spec.Mesh.Kubernetes
	if k == nil || len(k.ControlTimes) == 0 {
		return nil, nil
	}
	return meshes.ControlTimes(ctx, t.cluster, *k)
}
