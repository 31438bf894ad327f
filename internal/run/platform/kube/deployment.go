package kube

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// removeTimeout bounds the removal of a trial where the caller's context does not.
const removeTimeout = 3 * time.Minute

// deployment is one trial's namespace, and what is in it.
type deployment struct {
	platform  *Platform
	cluster   *cluster.Cluster
	spec      platform.Spec
	enrolment enrolment
	namespace string
	token     string // of the services' REST interfaces, and of the load workers
	made      []cluster.Ref
	pods      *podStore // nil until the pods are followed
	workers   []*loadWorker
	charted   *charted // where the application is a chart's
	outside   outside  // where the load is sent from this machine

	scaling sync.Mutex
	scaled  map[string]int // by how much a service has more replicas than it was given; scaling is held

	mu      sync.Mutex
	seats   map[string][]*seat // pods by service, in the order of their numbers
	watcher watcher
	broken  error // why the trial can no longer be measured
	loads   []*remote
	active  int // load workers at work
	started int // since none was
	removed bool
}

var errRemoved = errors.New("the deployment has been removed")

// stamp is what every object of the trial carries.
func (d *deployment) stamp() cluster.Stamp {
	return cluster.Stamp{Run: d.platform.options.Run, Labels: map[string]string{labelTrial: fmt.Sprint(d.spec.Trial.Ordinal)}, Archive: d.sent}
}

// sent keeps the manifest of an object that is about to be made. In a namespace that stays each goes by itself.
func (d *deployment) sent(m cluster.Manifest) error {
	if d.platform.given() {
		d.made = append(d.made, m.Ref)
	}
	return d.archive(m)
}

// readyMesh makes the cluster what the trial's mesh needs it to be.
func (d *deployment) readyMesh(ctx context.Context) error {
	if d.platform.options.Meshes == nil {
		return nil
	}
	return d.platform.options.Meshes.Ready(ctx, d.spec.Mesh)
}

// makeNamespace makes the trial's namespace; one of the same name is what an interrupted attempt at the trial left.
func (d *deployment) makeNamespace(ctx context.Context) error {
	if d.platform.given() {
		return d.enterGiven(ctx)
	}
	ref := d.namespaceRef()
	if err := d.clear(ctx, ref); err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.namespace}}
	d.enrolment.enrolNamespace(ns)
	d.made = append(d.made, ref)
	if err := d.cluster.Apply(ctx, d.stamp(), ns); err != nil {
		return err
	}
	return d.wait(ctx, ref)
}

func (d *deployment) namespaceRef() cluster.Ref {
	return cluster.Ref{Kind: cluster.KindNamespace, Name: d.namespace}
}

// clear removes a namespace of this run; another's is not touched.
func (d *deployment) clear(ctx context.Context, ref cluster.Ref) error {
	if d.cluster.DryRun() {
		return nil
	}
	there, err := d.cluster.Get(ctx, ref)
	if cluster.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if there.GetLabels()[cluster.LabelRun] != d.platform.options.Run {
		return &Error{fmt.Errorf("make %s: it is there, and not of this run", ref), "run into another directory: --out names it"}
	}
	return d.cluster.Delete(ctx, d.platform.options.Report, ref)
}

// enterMesh puts the namespace under the trial's mesh, before there is a pod in it.
func (d *deployment) enterMesh(ctx context.Context) error {
	if !d.enrolment.is {
		return nil
	}
	return d.platform.options.Meshes.Enter(ctx, d.stamp(), d.namespace, d.enrolment.Enrolled)
}

// makeServices applies the services and the load workers.
func (d *deployment) makeServices(ctx context.Context) error {
	var objects []runtime.Object
	d.token = rand.Text()
	if d.cluster.DryRun() {
		d.token = "drawn for each trial"
	}
	objects = append(objects, &corev1.Secret{ObjectMeta: d.meta(tokenName), StringData: map[string]string{tokenKey: d.token}})
	for _, s := range d.played() {
		of, err := d.objectsOf(s)
		if err != nil {
			return err
		}
		objects = append(objects, of...)
	}
	if !d.platform.options.Outside {
		objects = append(objects, d.loadJob())
	}
	if err := d.free(ctx, objects); err != nil {
		return err
	}
	if err := d.cluster.Apply(ctx, d.stamp(), objects...); err != nil || d.spec.Topology.Chart == nil {
		return err
	}
	return d.makeChart(ctx)
}

// played are the services that tare plays: none where a chart brings them.
func (d *deployment) played() []app.Service {
	if d.spec.Topology.Chart != nil {
		return nil
	}
	return d.spec.Topology.Services
}

// awaitReady waits for every workload; nothing is asked twice, so that the order does not matter.
func (d *deployment) awaitReady(ctx context.Context) error {
	var refs []cluster.Ref
	if d.charted != nil {
		refs = slices.Clone(d.charted.workloads)
	}
	for _, s := range d.played() {
		refs = append(refs, cluster.Ref{Kind: cluster.KindDeployment, Namespace: d.namespace, Name: s.Name})
	}
	if !d.platform.options.Outside {
		refs = append(refs, cluster.Ref{Kind: cluster.KindJob, Namespace: d.namespace, Name: loadService})
	}
	return d.wait(ctx, refs...)
}

func (d *deployment) wait(ctx context.Context, refs ...cluster.Ref) error {
	late := newPatience(d.platform.options.Report)
	defer late.end()
	return d.cluster.WaitReady(ctx, late.hear, refs...)
}

// follow begins to watch the trial's pods.
func (d *deployment) follow(ctx context.Context) (err error) {
	if d.cluster.DryRun() {
		return nil
	}
	if d.pods, err = followPods(ctx, d.cluster, d.namespace, d.podChanged); err != nil {
		return err
	}
	d.keepWatch()
	return nil
}

// reachLoad finds the way to the load workers; where the load is sent from here, that from here to the entry.
func (d *deployment) reachLoad(ctx context.Context) error {
	if d.platform.options.Outside {
		return d.openWay(ctx)
	}
	return d.reachWorkers(ctx)
}

// Entry implements [platform.Running]: the name of the Service that leads to the entry, which its replicas share.
func (d *deployment) Entry() []string {
	if d.platform.options.Outside {
		return d.spec.Targets(d.outside.roots)
	}
	in := d.wayIn()
	return d.spec.Targets([]string{fmt.Sprintf("http://%s.%s.%s:%d/", in.service.Name, d.namespace, clusterDomain, in.port)})
}

// Refresh implements [platform.CounterRefresh].
func (d *deployment) Refresh() time.Duration { return d.platform.options.Refresh }

// removal goes on when ctx is cancelled, until its deadline or, where it has none, for removeTimeout.
func removal(ctx context.Context) (context.Context, context.CancelFunc) {
	late := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(late, deadline)
	}
	return context.WithTimeout(late, removeTimeout)
}

// Remove implements [platform.Running]: it keeps the containers' logs and deletes the namespace, or what was made in
// one that was given.
func (d *deployment) Remove(ctx context.Context) error {
	ctx, cancel := removal(ctx)
	defer cancel()
	d.mu.Lock()
	first := !d.removed
	d.removed = true
	d.abandonLoad(errRemoved)
	d.mu.Unlock()
	if first {
		d.keepLogs(ctx)
	}
	for _, w := range d.workers {
		w.forward.Close()
	}
	left := errors.Join(d.closeOutside(ctx), d.removeChart(ctx))
	if d.pods != nil {
		d.pods.close()
	}
	late := newPatience(d.platform.options.Report)
	defer late.end()
	if err := errors.Join(d.cluster.Delete(ctx, late.hear, d.made...), left); err != nil {
		return fmt.Errorf("remove the deployment: %w", err)
	}
	return nil
}
