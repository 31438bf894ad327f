// Package kube runs trials on a Kubernetes cluster. Each trial has a namespace of
// its own: a Deployment and a Service for every service of the topology, and a
// Job of load workers, each of which runs a generator for tare and is reached
// through the API server, so that nothing of the mesh stands between.
//
// What runs in the cluster is followed by a watch. tare itself runs outside and
// is no task of the trial.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/kube/meshes"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// loadService is the name of the load workers' Job and of its pods' service.
const loadService = platform.LoadService

// Options of the platform.
type Options struct {
	Cluster *cluster.Cluster
	// Run is the run's label, from [RunID].
	Run string
	// Image of tare-agent; every node can have it.
	Image string
	// Generators are the images of generators that are not in Image, by name; those that are not here are in it.
	Generators map[string]GeneratorImage
	// Digests that images are held to, by reference.
	Digests map[string]string
	// ChartCache is a directory for charts that are fetched.
	ChartCache string
	// Workers are the load workers, a pod each; 0: one.
	Workers int
	// Namespace is one that is there and given to the run; empty: every trial makes one of its own.
	Namespace string
	// Resources are what containers ask for and may have, by plane.
	Resources map[string]experiment.Resources
	// Affinity is how pods are placed: auto (the default), labels or none.
	Affinity string
	// Outside says that the load is sent from this machine, by way of Expose: nodePort (the default), loadBalancer or
	// portForward. Agent is the path of tare-agent here, for the probes.
	Outside bool
	Expose  string
	Agent   string
	// Gateway says that the load goes through the ingress gateway of the trial's mesh; without one, to the entry's Service.
	Gateway bool
	// Refresh is the longest time between two refreshes of the meter's counters.
	Refresh time.Duration
	// Pace measures it before the first trial, and Meter is the name of the meter; nil: it is as said.
	Pace  func(context.Context) (time.Duration, error)
	Meter string
	// Meshes makes the cluster ready for a trial under a mesh; nil: only trials without one can be had.
	Meshes Meshes
	// Settings are what the user chose of each mesh, by name.
	Settings map[string]mesh.Settings
	// InUse takes a cluster that is in use, or is not marked as disposable.
	InUse bool
	// Report is told what is waited for that takes long; nil: nobody is.
	Report func(string)
}

// Meshes has one mesh at a time in the cluster. [*meshes.Batches] does.
type Meshes interface {
	// Ready makes the cluster ready for a trial under m, and takes away what of other meshes is there.
	Ready(ctx context.Context, m mesh.Definition) error
	// Enter puts a namespace under it before there is any pod in it.
	Enter(ctx context.Context, s cluster.Stamp, namespace string, e mesh.Enrolled) error
	// Verify proves that it is in force.
	Verify(ctx context.Context, t meshes.Target) ([]platform.Check, error)
	// Archive keeps what was applied for it, and what really runs of it.
	Archive(ctx context.Context, namespace string, to func(name string, content []byte) error) error
}

// Platform is a Kubernetes cluster.
type Platform struct {
	options Options
	nodes   []Node
}

// New makes the platform of a cluster. nodes are those that pods can stand on, from [Nodes].
func New(o Options, nodes []Node) *Platform {
	o.Affinity = cmp.Or(o.Affinity, affinityAuto)
	o.Expose = cmp.Or(o.Expose, exposeNodePort)
	o.Workers = max(1, o.Workers)
	if o.Report == nil {
		o.Report = func(string) {}
	}
	return &Platform{o, nodes}
}

// Error is what went wrong, with what the user can do.
type Error struct {
	Err  error
	hint string
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Hint says what the user can do.
func (e *Error) Hint() string { return e.hint }

// Prepare refuses a cluster that is in use, removes what dead runs have left there, and says what the cluster is.
func (p *Platform) Prepare(ctx context.Context, meshes []mesh.Definition) (map[string]string, error) {
	for _, m := range meshes {
		if _, err := p.enrol(m, "tare", sampleFront); err != nil {
			return nil, err
		}
	}
	c := p.options.Cluster
	if c.DryRun() {
		return nil, nil
	}
	if !p.options.InUse {
		if err := c.Guard(ctx); err != nil {
			return nil, err
		}
	}
	if err := p.labelled(); err != nil {
		return nil, err
	}
	if err := p.sweep(ctx); err != nil {
		return nil, err
	}
	versions, err := p.versions(ctx)
	if err != nil {
		return nil, err
	}
	return versions, p.pace(ctx, versions)
}

// pace measures how often the meter has something new to say. Where that cannot be done it is as was said.
func (p *Platform) pace(ctx context.Context, versions map[string]string) error {
	if p.options.Pace == nil {
		return nil
	}
	refresh, err := p.options.Pace(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		versions["meter"] = fmt.Sprintf("%s, taken to be refreshed every %v", p.options.Meter, p.options.Refresh)
		p.options.Report(fmt.Sprintf("how often the meter has new readings could not be measured, and is taken to be every %v: %v", p.options.Refresh, err))
		return nil
	}
	p.options.Refresh = refresh
	versions["meter"] = p.options.Meter + ", read whenever it is asked"
	if refresh > 0 {
		versions["meter"] = fmt.Sprintf("%s, refreshed every %v", p.options.Meter, refresh)
	}
	return nil
}

// Refresh is the longest time between two refreshes of the meter's counters: what Prepare has measured of it, and
// before that what it is taken to be; 0: they are read whenever they are asked for.
func (p *Platform) Refresh() time.Duration { return p.options.Refresh }

// Deploy makes the trial's namespace and all that is in it, and returns once it is ready.
func (p *Platform) Deploy(ctx context.Context, spec platform.Spec) (*platform.Deployment, error) {
	d, err := p.deploy(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("deploy %s: %w", spec.Mesh.Name, err)
	}
	return d.declare(), nil
}

func (p *Platform) deploy(ctx context.Context, spec platform.Spec) (_ *deployment, err error) {
	if err := supported(spec); err != nil {
		return nil, err
	}
	d := &deployment{platform: p, cluster: p.options.Cluster, spec: spec, namespace: cmp.Or(p.options.Namespace, namespaceOf(p.options.Run, spec)), seats: map[string][]*seat{}, scaled: map[string]int{}}
	if d.enrolment, err = p.enrol(spec.Mesh, d.namespace, p.front(spec)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Remove(context.WithoutCancel(ctx))) // its deadline may be what ended it
		}
	}()
	for _, step := range []func(context.Context) error{d.readyMesh, d.makeNamespace, d.enterMesh, d.makeServices, d.awaitReady, d.awaitGateway, d.follow, d.keepPods, d.holdDigests, d.reachLoad} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// supported refuses what this platform cannot do, and what would confuse it.
func supported(spec platform.Spec) error {
	if len(spec.Topology.Services) == 0 {
		return errors.New("the topology has no services")
	}
	if _, ok := spec.Topology.Service(loadService); ok {
		return &Error{fmt.Errorf("a service is called %q, as the load generator is", loadService), "give the service another name"}
	}
	for _, s := range spec.Topology.Services {
		if protocol := spec.Protocol(s); !slices.Contains(app.Protocols(), protocol) {
			return fmt.Errorf("protocol %s: %w on Kubernetes", protocol, errors.ErrUnsupported)
		}
	}
	if len(spec.CPUs) > 0 {
		return &Error{fmt.Errorf("platform.cpus: %w on Kubernetes, which chooses the processors", errors.ErrUnsupported), "leave it out"}
	}
	return nil
}
