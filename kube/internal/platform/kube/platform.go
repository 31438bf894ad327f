// Package kube runs trials on a Kubernetes cluster. Each trial has a namespace of
// its own: a Deployment and a Service for every service of the topology, and a Job
// of load workers. A load worker runs load generators for tare. tare reaches it
// through the API server, so that no proxy of the mesh is in between.
//
// A watch follows the pods of the cluster. tare runs outside and is not a task of the
// trial.
//
// The parts of a deployment, each a type of its own:
//
//	trial        common data: options, specification, namespace, enrolment
//	applier      creates and deletes objects
//	manifests    builds the objects: services, workloads, load Job
//	helmRelease  installs an application from a chart
//	trialPods    follows the pods and numbers them (slots, podStore)
//	podMonitor   reports a pod that is lost or restarted
//	entryPoint   the URLs of the application, from inside and outside
//	workerPool   load workers in the cluster; localLoad: load from this machine
//	verifier     checks answers, containers and the mesh (prober, OutsideClient)
//	faults, scaler, configurer
//	             end pods, change replica counts, change services
//	background   services that no request calls, with backgroundPods and simulatedProxies
//	taskLister   the containers of the cluster as tasks
//	podRecords   pods, image digests and logs in the provenance directory (archive)
package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/inside/nodeagent"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/agents"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
	"github.com/tare-mesh/tare/kube/internal/leftover"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// loadService names the load workers' Job and the service label of its pods.
const loadService = platform.LoadService

// Options of the platform.
type Options struct {
	Cluster *cluster.Cluster
	// Run is the run's label, from [RunID].
	Run string
	// Image of tare-agent, which every node must have or be able to pull.
	Image string
	// Generators are images of load generators, by generator. A generator without an entry is in Image.
	Generators map[string]GeneratorImage
	// Digests are the required digests of images, by reference.
	Digests map[string]string
	// ChartCache is the directory for downloaded charts.
	ChartCache string
	// Workers is the number of load workers, one pod each, and 0 means one.
	Workers int
	// ReadyWithin is how long the workloads of a trial may take to be ready, and 0 means the default of experiments.
	ReadyWithin time.Duration
	// Namespace is an existing namespace to run in, and "" makes one for each trial.
	Namespace string
	// InPlace measures the application that runs in Namespace: each trial enrols it, restarts it, and puts it back.
	InPlace bool
	// Resources are the requests and limits of containers, by plane.
	Resources map[string]experiment.Resources
	// Affinity places pods: auto (the default), labels or none.
	Affinity string
	// Outside sends the load from this machine through Expose: nodePort (the default) or loadBalancer.
	// Agent is the path of tare-agent on this machine, for the verification probes.
	Outside bool
	Expose  string
	Agent   string
	// Gateway sends the load through the mesh's ingress gateway or, without a mesh, to the entry's Service.
	Gateway bool
	// Refresh is the longest interval between two refreshes of the meter's counters, NodeRefresh
	// the interval for nodes outside their pods. Zero: the meter has none of these.
	Refresh, NodeRefresh time.Duration
	// MeasureRefresh measures both before the first trial, and nil keeps them. Meter is the meter's name.
	MeasureRefresh func(context.Context) (containers, nodes time.Duration, err error)
	Meter          string
	// Interest are the nodes that the meter reads in every trial, from [NodesOfInterest], nil for all. Pods of DaemonSets
	// of the cluster count on these nodes only.
	Interest map[string]bool
	// Agents are the node agents, which Prepare starts and the caller removes, nil if there are none.
	Agents *agents.Agents
	// Lease is the claim of the run on the cluster, which the caller releases, nil without one.
	Lease *guard.Lease
	// BackgroundPods is the largest number of background pods of a trial.
	BackgroundPods int
	// Meshes installs the mesh of a trial, and nil allows only trials without a mesh.
	Meshes Meshes
	// UpgradeTo is the variant of the mesh that a version change moves to, empty for another revision of the same version.
	UpgradeTo string
	// Settings are the user's choices for each mesh, by mesh.
	Settings map[string]mesh.Settings
	// meshNamespaces are the namespaces of the control planes that the run installs.
	meshNamespaces []string
	// calls between services that were reported.
	calls string
	// placements of the trials so far.
	placements *placements
	// InUse allows a cluster that is in use or is not marked as disposable.
	InUse bool
	// Report receives progress of long waits, and nil discards it.
	Report func(string)
}

func (o *Options) readyWithin() time.Duration {
	return cmp.Or(o.ReadyWithin, experiment.Platform{}.ReadyDeadline())
}

// Meshes installs meshes in the cluster. [*meshes.Batches] implements it.
type Meshes interface {
	// Ready installs m and uninstalls other meshes, except the meshes of trials beside this one.
	Ready(ctx context.Context, m mesh.Definition, beside bool) (*meshes.Batch, error)
	// Foreign returns the namespaces of meshes that tare did not install, and refuses a mesh that it cannot use as it is.
	Foreign(ctx context.Context, all []mesh.Definition) (namespaces []string, err error)
}

// Platform is a Kubernetes cluster.
type Platform struct {
	options Options
	nodes   nodeList
	holding sync.Mutex // the members of a round are deployed at the same time
	// unfollowed is done when it was reported that nodes are not followed.
	unfollowed sync.Once
	// fewInotify is done when it was reported that nodes permit too few inotify instances.
	fewInotify sync.Once
}

// New makes the platform of a cluster. nodes come from [Nodes].
func New(o Options, nodes []Node) *Platform {
	o.Affinity = cmp.Or(o.Affinity, affinityAuto)
	o.Expose = cmp.Or(o.Expose, exposeNodePort)
	o.Workers = max(1, o.Workers)
	o.placements = &placements{first: map[string]string{}}
	if o.Report == nil {
		o.Report = func(string) {}
	}
	return &Platform{options: o, nodes: nodes}
}

// Prepare refuses a cluster that is in use or held by another run, takes the cluster's Lease, removes leftovers of dead runs, and returns the cluster's versions.
func (p *Platform) Prepare(ctx context.Context, meshes []mesh.Definition) (map[string]string, error) {
	for _, m := range meshes {
		if _, err := enrol(&p.options, m, "tare", sampleFront); err != nil {
			return nil, err
		}
	}
	p.options.meshNamespaces = homes(meshes)
	c := p.options.Cluster
	if c.DryRun() {
		return nil, nil
	}
	if !p.options.InUse {
		if err := guard.New(c).Check(ctx); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(p.checkLabels(), p.checkKWOK(ctx)); err != nil {
		return nil, err
	}
	if p.options.Meshes != nil {
		foreign, err := p.options.Meshes.Foreign(ctx, meshes)
		if err != nil {
			return nil, err
		}
		// In trials without it, a control plane of others is work of others.
		p.options.meshNamespaces = slices.DeleteFunc(p.options.meshNamespaces, func(namespace string) bool { return slices.Contains(foreign, namespace) })
	}
	if err := p.hold(ctx); err != nil {
		return nil, err
	}
	if err := (leftovers{&p.options}).sweep(ctx); err != nil {
		return nil, err
	}
	versions, err := p.versions(ctx)
	if err != nil {
		return nil, err
	}
	if p.options.Agents != nil {
		if err := p.options.Agents.Start(ctx); err != nil {
			return nil, err
		}
	}
	return versions, p.measureRefresh(ctx, versions)
}

// homes are the namespaces of the meshes' control planes.
func homes(meshes []mesh.Definition) []string {
	installed := lists.Where(meshes, func(m mesh.Definition) bool { return m.Kubernetes != nil && m.Kubernetes.Namespace != "" })
	return lists.Map(installed, func(m mesh.Definition) string { return m.Kubernetes.Namespace })
}

// holdAgain takes the Lease again if an earlier trial has lost it.
func (p *Platform) holdAgain(ctx context.Context) error {
	p.holding.Lock()
	defer p.holding.Unlock()
	if p.holds() == nil {
		return nil
	}
	return p.hold(ctx)
}

// hold takes the cluster's Lease. Without permission for Leases the run continues, and other runs are not refused.
func (p *Platform) hold(ctx context.Context) error {
	if p.options.Lease == nil {
		return nil
	}
	err := p.options.Lease.Acquire(ctx)
	if cluster.IsForbidden(err) {
		p.options.Report("other runs on the cluster are not refused during this one: no permission for Leases (`tare cluster rbac`)")
		return nil
	}
	return err
}

// holds reports the loss of the cluster's Lease.
func (p *Platform) holds() error {
	if p.options.Lease == nil {
		return nil
	}
	if err := p.options.Lease.Err(); err != nil {
		return &platform.Lost{Hinted: hint.Hinted{Err: err, Text: hint.Of(err)}, Code: "cluster-lost"}
	}
	return nil
}

// measureRefresh measures the refresh interval of the meter's counters and adds the meter to versions.
// When the measurement fails, Options.Refresh stays.
func (p *Platform) measureRefresh(ctx context.Context, versions map[string]string) error {
	if p.options.MeasureRefresh == nil {
		return nil
	}
	refresh, nodes, err := p.options.MeasureRefresh(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		versions["meter"] = fmt.Sprintf("%s, refresh interval not measured, %v assumed", p.options.Meter, p.options.Refresh)
		p.options.Report(fmt.Sprintf("the refresh interval of the meter could not be measured, %v is assumed: %v", p.options.Refresh, err))
		return nil
	}
	p.options.Refresh, p.options.NodeRefresh = refresh, nodes
	versions["meter"] = p.options.Meter + ", read on demand"
	if refresh > 0 {
		versions["meter"] = fmt.Sprintf("%s, refreshed every %v", p.options.Meter, refresh)
	}
	return nil
}

// Refresh returns the longest interval between two refreshes of the meter's counters, as measured by Prepare.
// Before that, it is the assumed one. 0 means that counters are read on demand.
func (p *Platform) Refresh() time.Duration { return p.options.Refresh }

// NodeRefresh returns the same of the counters of nodes outside their pods, 0 if the meter has none.
func (p *Platform) NodeRefresh() time.Duration { return p.options.NodeRefresh }

// checkSupported refuses a specification that this platform cannot run.
func checkSupported(spec platform.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	for _, s := range spec.Topology.Services {
		protocol := spec.Protocol(s)
		if _, ok := portProtocols[protocol]; !ok {
			return fmt.Errorf("protocol %s: %w on Kubernetes", protocol, errors.ErrUnsupported)
		}
	}
	return nil
}

// leftovers finds and removes objects of other runs.
type leftovers struct{ *Options }

// sweep removes the objects of dead runs. An existing namespace must then hold no object of another run: names of
// services would collide.
func (l leftovers) sweep(ctx context.Context) error {
	namespace := l.Namespace
	if l.InPlace { // meshes and other trials of a run in place are elsewhere in the cluster
		namespace = ""
	}
	swept, err := leftover.DeleteDead(ctx, l.Cluster, namespace, l.Report)
	if err != nil {
		return err
	}
	for _, s := range swept {
		l.Report(fmt.Sprintf("removed leftovers of run %s from the cluster", s.ID))
	}
	if !l.existing() {
		return nil
	}
	all, err := l.inNamespace(ctx)
	for _, other := range all {
		if other.ID != l.Run {
			return hint.New("wait until it ends; if it has, remove them: `tare cluster cleanup --namespace "+l.Namespace+" --run "+other.ID+"`",
				"namespace %s holds objects of run %s: %s", l.Namespace, other.ID, strings.Join(lists.Map(other.Objects, cluster.Ref.String), ", "))
		}
	}
	return err
}

// ownRun deletes the objects of an interrupted trial of this run.
func (l leftovers) ownRun(ctx context.Context) error {
	all, err := l.inNamespace(ctx)
	if err != nil {
		return err
	}
	for _, found := range all {
		if found.ID == l.Run {
			// The run's Lease remains until its end.
			found.Objects = slices.DeleteFunc(found.Objects, func(r cluster.Ref) bool { return r.Kind.Kind == "Lease" })
			return leftover.Delete(ctx, l.Cluster, l.Report, found)
		}
	}
	return nil
}

// inNamespace lists the objects of runs in the existing namespace. A kind that cannot be listed there cannot be created
// there, so it is skipped.
func (l leftovers) inNamespace(ctx context.Context) ([]leftover.Run, error) {
	all, err := leftover.Find(ctx, l.Cluster, l.Namespace)
	if _, ok := errors.AsType[*cluster.Unlisted](err); ok {
		err = nil
	}
	return all, err
}

// checkMeshAllowed refuses a mesh in an existing namespace.
func (o *Options) checkMeshAllowed(m mesh.Definition) error {
	if !o.existing() || o.InPlace || m.Kubernetes == nil {
		return nil
	}
	return hint.New("remove platform.namespace: a mesh needs cluster-wide RBAC permissions",
		"mesh %s labels its namespaces, and %s is an existing namespace", m.Name, o.Namespace)
}

// inotifyOfSidecar is about how many inotify instances a sidecar takes. The sidecars of a node have the same user, who may have 128 by
// default: the forty-third does not start.
const inotifyOfSidecar = 3

// noteInotify reports, once in a run, that the nodes permit fewer inotify instances than the sidecars of a trial take. Only node agents
// can read the setting.
func (p *Platform) noteInotify(ctx context.Context, t *trial) {
	k := t.spec.Mesh.Kubernetes
	if p.options.Agents == nil || t.cluster.DryRun() || k == nil || !slices.ContainsFunc(k.Proxies, func(x mesh.Proxy) bool { return x.In == mesh.InPod }) {
		return
	}
	limits := map[string]int64{}
	for _, a := range p.options.Agents.All() {
		if r, err := a.Read(ctx, nodeagent.Query{}); err == nil && r.Inotify > 0 {
			limits[a.Node.Name] = r.Inotify
		}
	}
	if text := fewInotify(sidecarsIn(t), limits); text != "" {
		p.fewInotify.Do(func() { p.options.Report(text) })
	}
}

// sidecarsIn counts the pods of a trial's services, each with a sidecar where the mesh has them.
func sidecarsIn(t *trial) (n int) {
	for _, s := range t.agentServices() {
		n += t.spec.Replicas(s)
	}
	return n
}

// fewInotify is the message about nodes whose inotify instances do not suffice for sidecars, "" if they do.
func fewInotify(sidecars int, limits map[string]int64) string {
	var all, least int64
	for _, limit := range limits {
		all += limit
		if least == 0 || limit < least {
			least = limit
		}
	}
	if len(limits) == 0 || int64(sidecars)*inotifyOfSidecar <= all {
		return ""
	}
	needed := int64(sidecars) * inotifyOfSidecar / int64(len(limits))
	enough := int64(1024)
	for enough < 2*needed {
		enough *= 2
	}
	return fmt.Sprintf("the nodes permit a user %d inotify instances, and %d sidecars take about %d on each: pods will fail with \"too many open files\". Raise it on each node: sysctl -w fs.inotify.max_user_instances=%d",
		least, sidecars, needed, enough)
}

// Labels of a trial's objects, beside the labels of every object of tare.
const (
	labelTrial   = "tare.dev/trial"
	labelService = "tare.dev/service"
	// labelBackground is the background service of a pod on a simulated node.
	labelBackground = "tare.dev/background"
	labelApp        = "app" // the common label of meshes and dashboards
)

// Ports of the containers.
const (
	servicePort = 8080
	adminPort   = 9090
	workerPort  = 9095
)

// Names of containers, and of objects that exist once in a namespace.
const (
	appContainer  = "app"
	loadContainer = "load"
	tokenName     = "tare-token"
	tokenKey      = "token"
	configKey     = "service.json"
)

// serviceSuffix ends the DNS names of Services. The search list of pods adds the cluster's domain, whatever it is.
const serviceSuffix = "svc"

// Length limits of a namespace's name, which is a DNS label, and of the run's name in it.
const (
	maxLabel   = 63
	maxRunName = 24
)

// RunID makes a run's label from its name and its results directory. It is the same when the run is resumed.
func RunID(name, directory string) string {
	sum := sha256.Sum256([]byte(directory))
	name = printable.Plain(strings.ToLower(name), "-", '-')
	name = cmp.Or(strings.Trim(name[:min(len(name), maxRunName)], "-"), "run")
	return name + "-" + hex.EncodeToString(sum[:4])
}

func namespaceOf(run string, spec platform.Spec) string {
	name := namespacePrefix(run) + fmt.Sprint(spec.Trial.Ordinal)
	return strings.Trim(name[:min(len(name), maxLabel)], "-")
}

// namespacePrefix begins the names of the namespaces of a run's trials.
func namespacePrefix(run string) string { return "tare-" + run + "-" }
