package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// removeTimeout bounds the removal of a trial if the caller's context has no deadline.
const removeTimeout = 3 * time.Minute

// deployment is one trial in the cluster: its parts, in the order in which they are made.
type deployment struct {
	*trial
	applier    *applier
	manifests  manifests
	helm       *helmRelease
	objects    *sourceObjects
	inPlace    *inPlace // nil unless the application is measured where it runs
	pods       *trialPods
	monitor    *podMonitor
	nodes      *nodeMonitor
	visitors   *visitors
	records    *podRecords
	entry      *entryPoint
	workers    *workerPool // nil if the load comes from this machine
	load       loadSource
	tasks      *taskLister
	verifier   *verifier
	faults     *faults
	scaler     *scaler
	configurer *configurer
	changer    *changer
	background *background
	starter    *podStarter
	counters   *requestCounters
}

// Declare returns the platform with its abilities.
func (p *Platform) Declare() platform.Platform {
	return platform.Platform{Deployer: p, CounterRefresh: p, DeploysAtOnce: true, Faults: Faults()}
}

// Deploy implements [platform.Deployer]: it makes the trial's namespace with everything in it and waits until all is ready.
func (p *Platform) Deploy(ctx context.Context, spec platform.Spec) (*platform.Deployment, error) {
	d, err := p.deploy(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("deploy %s: %w", spec.Title(), err)
	}
	return d.declare(p), nil
}

func (p *Platform) deploy(ctx context.Context, spec platform.Spec) (_ *deployment, err error) {
	if err := errors.Join(checkSupported(spec), p.checkPlacement(spec)); err != nil {
		return nil, err
	}
	if err := p.holdAgain(ctx); err != nil {
		return nil, err
	}
	d, err := p.newDeployment(spec)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Remove(context.WithoutCancel(ctx))) // ctx may have ended
		}
	}()
	p.noteInotify(ctx, d.trial)
	for _, step := range []func(context.Context) error{
		d.installMesh, d.applier.createTrialNamespace, d.inPlace.enrol, d.enterMesh, d.background.create, d.createObjects,
		d.awaitReady, d.entry.awaitGateway, d.background.start, d.followPods, d.openLoad, d.background.connect,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// newDeployment makes the parts. Nothing is in the cluster yet.
func (p *Platform) newDeployment(spec platform.Spec) (*deployment, error) {
	o := &p.options
	t := &trial{options: o, nodes: p.nodes, cluster: o.Cluster, spec: spec,
		namespace: cmp.Or(o.Namespace, namespaceOf(o.Run, spec)), token: newToken(o.Cluster.DryRun())}
	var err error
	if t.enrolment, err = enrol(o, spec.Mesh, t.namespace, frontOf(o, spec), protocolsOf(spec)...); err != nil {
		return nil, err
	}
	archive := archive{platform.Provenance(spec.Provenance)}
	d := &deployment{trial: t}
	d.applier = &applier{trial: t, archive: archive}
	d.manifests = manifests{t}
	d.helm = &helmRelease{trial: t, archive: archive}
	d.objects = &sourceObjects{trial: t, applier: d.applier}
	if o.InPlace {
		d.inPlace = &inPlace{trial: t, applier: d.applier}
	}
	d.pods = &trialPods{trial: t}
	d.monitor = &podMonitor{pods: d.pods}
	d.nodes = &nodeMonitor{trial: t, pods: d.pods, forbidden: func() { p.unfollowed.Do(func() { o.Report(nodesNotFollowed) }) }}
	d.visitors = &visitors{pods: d.pods, since: time.Now()}
	d.records = &podRecords{trial: t, pods: d.pods, archive: archive}
	d.entry = &entryPoint{trial: t, pods: d.pods}
	if o.Outside {
		d.load = &localLoad{archive: archive, dryRun: o.Cluster.DryRun(), lost: d.monitor.Err}
	} else {
		d.workers = &workerPool{trial: t, pods: d.pods, archive: archive, lost: d.monitor.Err}
		d.load = d.workers
		d.monitor.loadLost = d.workers.abandon
	}
	d.tasks = &taskLister{trial: t, pods: d.pods, load: d.load, lost: d.nodes}
	d.verifier = &verifier{trial: t, pods: d.pods, monitor: d.monitor, applier: d.applier, archive: archive,
		prober: &prober{trial: t, pods: d.pods, entry: d.entry, load: d.load}}
	d.faults = &faults{trial: t, pods: d.pods, monitor: d.monitor}
	d.scaler = &scaler{trial: t, pods: d.pods, faults: d.faults}
	d.configurer = &configurer{d.pods}
	d.changer = &changer{trial: t, pods: d.pods, applier: d.applier, configurer: d.configurer, faults: d.faults,
		upgrade: &upgrade{trial: t, pods: d.pods, monitor: d.monitor, faults: d.faults, applier: d.applier}}
	d.background = &background{t, &backgroundPods{trial: t}, &simulatedProxies{trial: t, applier: d.applier, pods: d.pods, monitor: d.monitor}}
	d.starter = &podStarter{trial: t, pods: d.pods, monitor: d.monitor, faults: d.faults, scaler: d.scaler, prober: d.verifier.prober, load: d.load, workers: d.workers, archive: archive}
	d.counters = &requestCounters{trial: t, pods: d.pods, read: func(ctx context.Context, x mesh.Proxy, pod *corev1.Pod) ([]float64, error) {
		return meshes.Counters(ctx, t.cluster, x, pod)
	}}
	return d, nil
}

// declare returns the deployment with its abilities, each a part of it.
func (d *deployment) declare(p *Platform) *platform.Deployment {
	declared := &platform.Deployment{
		Running:       d,
		Verify:        d.verifier.Verify,
		Broken:        func() error { return cmp.Or(d.nodes.Err(), d.monitor.Err(), p.holds()) },
		Visitors:      d.visitors.Visitors,
		Warnings:      d.entry.Warnings,
		TaskFaults:    d.faults,
		Scaler:        d.scaler,
		Configurer:    d.configurer,
		RequestCounts: d.counters.RequestCounts,
		Changer:       d.changer,
		ControlTimes:  d.trial.ControlTimes,
		Restarter:     d.changer,
		StopAndStart:  d.starter.StopAndStart,
	}
	if d.workers != nil {
		declared.LoadWorkers = d.workers
	}
	if of := newMoments(d.trial, d.pods); of.known() {
		declared.Moments = of
	}
	if d.spec.Treatment.Levels.BackgroundServices > 0 {
		declared.Background = d.background
	}
	return declared
}

// installMesh installs the trial's mesh and uninstalls any other, except the meshes of the other trials of a round.
func (d *deployment) installMesh(ctx context.Context) (err error) {
	if d.options.Meshes == nil {
		return nil
	}
	d.mesh, err = d.options.Meshes.Ready(ctx, d.spec.Mesh, d.spec.Trial.Round > 0)
	if err != nil || !d.enrolment.enrolled {
		return err
	}
	// The labels of a mesh that tare did not install are those that its injector selects.
	d.enrolment.Enrolled, err = d.mesh.Enrol(d.namespace, mesh.Way{LoadInside: d.enrolment.loadInside, Front: d.enrolment.front, Services: protocolsOf(d.spec)})
	return err
}

// enterMesh enrols the namespace in the trial's mesh, before it has any pod.
func (d *deployment) enterMesh(ctx context.Context) error {
	if !d.enrolment.enrolled {
		return nil
	}
	return d.mesh.Enter(ctx, d.applier.stamp(), d.namespace, d.enrolment.Enrolled)
}

// createObjects creates the services and the load workers, or installs the application that others wrote.
func (d *deployment) createObjects(ctx context.Context) error {
	objects, err := d.manifests.all()
	if err != nil {
		return err
	}
	if err := d.applier.checkFree(ctx, objects); err != nil {
		return err
	}
	if err := d.applier.apply(ctx, objects...); err != nil {
		return err
	}
	switch {
	case d.spec.Topology.Chart != nil:
		return d.helm.install(ctx)
	case d.inPlace != nil:
		return d.inPlace.restart(ctx)
	case d.spec.Topology.IsSet():
		return d.objects.install(ctx)
	}
	return nil
}

func (d *deployment) awaitReady(ctx context.Context) error {
	var refs []cluster.Ref
	if d.foreign != nil {
		if err := d.applier.awaitJobs(ctx, d.foreign.jobs); err != nil {
			return err
		}
		refs = slices.Clone(d.foreign.workloads)
	}
	for _, s := range d.agentServices() {
		refs = append(refs, cluster.Ref{Kind: cluster.KindDeployment, Namespace: d.namespace, Name: s.Name})
	}
	if d.workers != nil {
		refs = append(refs, cluster.Ref{Kind: cluster.KindJob, Namespace: d.namespace, Name: loadService})
	}
	return d.applier.wait(ctx, refs...)
}

// followPods begins to follow and to monitor the trial's pods, and checks and archives them.
func (d *deployment) followPods(ctx context.Context) (err error) {
	if d.cluster.DryRun() {
		return nil
	}
	if d.pods.store, err = followPods(ctx, d.cluster, d.namespace, func(pod *corev1.Pod, deleted bool) {
		d.starter.changed(pod, deleted)
		d.monitor.changed(pod, deleted)
		d.visitors.changed(pod, deleted)
	}); err != nil {
		return err
	}
	d.monitor.start()
	if err := d.nodes.start(ctx); err != nil {
		return err
	}
	if err := d.records.savePods(); err != nil {
		return err
	}
	return d.records.checkDigests()
}

// openLoad connects to the load workers, or finds the entry's URLs for a load from this machine.
func (d *deployment) openLoad(ctx context.Context) error {
	if d.options.Agents != nil {
		if err := d.options.Agents.Compare(ctx); err != nil {
			return err
		}
	}
	if d.workers != nil {
		return d.workers.connect(ctx)
	}
	return d.entry.open(ctx)
}

func (d *deployment) Entry() []string { return d.entry.Entry() }

func (d *deployment) Tasks(ctx context.Context) ([]platform.Task, error) { return d.tasks.Tasks(ctx) }

// Remove implements [platform.Running]: it saves the containers' logs and deletes the namespace, or the created objects in
// an existing one.
func (d *deployment) Remove(ctx context.Context) error {
	ctx, cancel := removalContext(ctx)
	defer cancel()
	first := d.monitor.stop()
	err := d.load.stop(ctx)
	if first && len(d.applier.created) > 0 {
		d.records.saveLogs(ctx)
	}
	if d.workers != nil {
		d.workers.close()
	}
	d.background.close()
	err = errors.Join(err, d.helm.uninstall(ctx))
	d.nodes.close()
	d.pods.close()
	return hint.Prefix(errors.Join(d.applier.deleteAll(ctx), d.inPlace.restore(ctx), d.changer.upgrade.withdraw(ctx), err), "remove the deployment")
}

// removalContext lasts beyond the cancellation of ctx: until its deadline or, without one, for removeTimeout.
func removalContext(ctx context.Context) (context.Context, context.CancelFunc) {
	kept := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(kept, deadline)
	}
	return context.WithTimeout(kept, removeTimeout)
}

func (d *deployment) StartLoad(ctx context.Context, cmd proc.Command) (platform.Process, error) {
	return d.load.StartLoad(ctx, cmd)
}

// trial is the common data of the parts of one deployment. It changes only while the deployment is made.
type trial struct {
	options   *Options
	nodes     nodeList
	cluster   *cluster.Cluster
	spec      platform.Spec
	namespace string
	enrolment enrolment
	mesh      *meshes.Batch   // nil: none is installed for the trial
	token     string          // bearer token of the services' REST interfaces and of the load workers
	foreign   *foreignObjects // nil unless others' objects run the application
}

// meta is the metadata of an object in the trial's namespace.
func (t *trial) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: t.namespace, Name: name}
}

func (t *trial) namespaceRef() cluster.Ref {
	return cluster.Ref{Kind: cluster.KindNamespace, Name: t.namespace}
}

func (t *trial) stampLabels() map[string]string {
	return map[string]string{labelTrial: fmt.Sprint(t.spec.Trial.Ordinal)}
}

// agentServices are the services that tare-agent plays: none when others' objects run the application.
func (t *trial) agentServices() []app.Service {
	if t.spec.Topology.Foreign() {
		return nil
	}
	return t.spec.Topology.Services
}

// serviceOf is the service of the trial that a pod belongs to, or "".
func (t *trial) serviceOf(pod *corev1.Pod) string {
	if !t.owns(pod) {
		return ""
	}
	if t.foreign != nil && pod.Labels[labelService] == "" {
		return t.foreign.service(pod, t.spec.Topology)
	}
	return pod.Labels[labelService]
}

// owns reports whether a pod belongs to the trial. In an existing namespace only pods with the run's label do,
// except of an application in place.
func (t *trial) owns(pod *corev1.Pod) bool {
	return pod.Namespace == t.namespace && (!t.options.existing() || t.options.InPlace || pod.Labels[cluster.LabelRun] == t.options.Run)
}

// existing reports whether the trial runs in an existing namespace, which is not removed.
func (o *Options) existing() bool { return o.Namespace != "" }

// enrolment is how a mesh takes the trial's pods in. Only an enrolment changes the deployed objects for a mesh: the
// labels and annotations of the namespace and of pod templates, and the objects created before any pod.
type enrolment struct {
	mesh.Enrolled
	enrolled bool // false without a mesh
	// loadInside: the load workers are in the mesh as well.
	loadInside bool
	// gateway is the mesh's ingress gateway if the load goes through it, and front its destination, else nil.
	gateway *mesh.Gateway
	front   *mesh.Front
}

// enrol renders the enrolment of one namespace, which is empty without a mesh. front is the destination of an ingress
// gateway.
func enrol(o *Options, m mesh.Definition, namespace string, front mesh.Front, services ...mesh.ServiceProtocol) (enrolment, error) {
	e := enrolment{loadInside: !o.Outside && !o.Gateway}
	if err := m.On(mesh.OnKubernetes); err != nil || m.Kubernetes == nil {
		return e, err
	}
	if err := o.checkMeshAllowed(m); err != nil {
		return e, err
	}
	if o.Meshes == nil {
		return e, fmt.Errorf("mesh %s: %w: this platform installs no mesh", m.Name, errors.ErrUnsupported)
	}
	e.enrolled = true
	var err error
	if o.Gateway {
		if e.gateway, err = ingressOf(m, front); err != nil {
			return e, err
		}
		e.front = &front
	}
	e.Enrolled, err = m.Kubernetes.Enrol(o.Settings[m.Name], namespace, mesh.Way{LoadInside: e.loadInside, Front: e.front, Services: services})
	return e, err
}

func protocolsOf(spec platform.Spec) []mesh.ServiceProtocol {
	return lists.Map(spec.Topology.Services, func(s app.Service) mesh.ServiceProtocol {
		return mesh.ServiceProtocol{Name: s.Name, Protocol: spec.Protocol(s)}
	})
}

// ingressOf is the mesh's ingress gateway, or the reason why the load cannot go through it.
func ingressOf(m mesh.Definition, front mesh.Front) (*mesh.Gateway, error) {
	g, err := m.Ingress()
	if err == nil && g != nil {
		err = g.Carries(front.Protocol)
	}
	return g, err
}

// markNamespace adds the mesh's labels and annotations to the trial's namespace.
func (e enrolment) markNamespace(ns *corev1.Namespace) { mark(&ns.ObjectMeta, e.Namespace) }

// servingKinds are the workloads of an application whose pods serve. Jobs end, and a sidecar would keep them from it.
var servingKinds = map[schema.GroupKind][]string{
	cluster.KindDeployment.GroupKind():  {"spec", "template", "metadata"},
	cluster.KindStatefulSet.GroupKind(): {"spec", "template", "metadata"},
	cluster.KindDaemonSet.GroupKind():   {"spec", "template", "metadata"},
	cluster.KindPod.GroupKind():         {"metadata"},
}

// markForeign adds the mesh's labels and annotations to the pod template of a workload that others wrote.
func (e enrolment) markForeign(o *unstructured.Unstructured) error {
	at, ok := servingKinds[o.GroupVersionKind().GroupKind()]
	if !ok {
		return nil
	}
	for field, marks := range map[string]map[string]string{"labels": e.Pod.Labels, "annotations": e.Pod.Annotations} {
		if len(marks) == 0 {
			continue
		}
		path := append(slices.Clone(at), field)
		has, _, err := unstructured.NestedStringMap(o.Object, path...)
		if err == nil {
			err = unstructured.SetNestedStringMap(o.Object, cluster.Merged(has, marks), path...)
		}
		if err != nil {
			return fmt.Errorf("enrol the pods of %s: %w", nameOf(o), err)
		}
	}
	return nil
}

// markLoad adds the mesh's labels and annotations to the pod template of the load workers, which may be exempt.
func (e enrolment) markLoad(template *corev1.PodTemplateSpec) {
	if e.loadInside {
		mark(&template.ObjectMeta, e.Pod)
		return
	}
	mark(&template.ObjectMeta, e.Exempt)
}

func mark(on *metav1.ObjectMeta, m mesh.Marks) {
	on.Labels = cluster.Merged(on.Labels, m.Labels)
	on.Annotations = cluster.Merged(on.Annotations, m.Annotations)
}
