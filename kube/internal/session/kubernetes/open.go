// Package kubernetes is the part of a session that needs the Kubernetes libraries: it opens clusters, and reads applications in them.
package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/internal/run/timeline"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/kube/internal/agents"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
	"github.com/tare-mesh/tare/kube/internal/meshes"
	"github.com/tare-mesh/tare/kube/internal/meter/kubelet"
	"github.com/tare-mesh/tare/kube/internal/platform/kube"
)

// Program returns the part of a session that needs the Kubernetes libraries.
func Program() *session.Kubernetes {
	open := func(ctx context.Context, o session.Opening) (*session.Opened, error) { return connected(ctx, o, nil) }
	return &session.Kubernetes{Open: open, Generators: generatorsInImages, Copy: copied}
}

// connected opens the platform. With a recorder nothing is done: the steps are recorded.
func connected(ctx context.Context, o session.Opening, dry *cluster.Recorder) (*session.Opened, error) {
	x := o.Experiment.Platform
	if err := timeline.Check(o.Experiment.Faults, kube.Faults()); err != nil {
		return nil, hint.Usage(err, hint.Of(err))
	}
	k, err := cluster.Connect(ctx, cluster.Options{Kubeconfig: x.Kubeconfig, Context: x.Context, Recorder: dry})
	if err != nil {
		return nil, err
	}
	nodes, err := kube.Nodes(ctx, k)
	if err != nil {
		return nil, err
	}
	distinct, err := filepath.Abs(o.Results)
	if err != nil {
		return nil, fmt.Errorf("find the results directory: %w", err)
	}
	workers := o.Experiment.Load.Workers
	images, err := generatorImages(o.Experiment)
	if err != nil {
		return nil, err
	}
	settings := map[string]mesh.Settings{}
	for name := range o.Experiment.Meshes {
		settings[name] = o.Experiment.MeshSettings(name).Settings()
	}
	run := kube.RunID(o.Experiment.Metadata.Name, cluster.ThisProcess().Host+distinct)
	m := ClusterMeter{Meter: kubelet.Of(k.Reader(), nil)} // a dry run measures nothing
	if o.Experiment.ByNodeAgent() {
		x.Meter = session.MeterNodeAgent
	}
	if dry != nil && x.Meter == session.MeterNodeAgent {
		m.Agents = agents.New(k, run, cmp.Or(x.Image, DefaultImage(o.Version)), o.Note)
		if err := m.Agents.Start(ctx); err != nil {
			return nil, err
		}
	}
	if dry == nil {
		a := o.Experiment.Application
		source := MeterSource{Cluster: k, Platform: x, foreign: a.Chart != nil || a.Source.IsSet(), Run: run, Image: cmp.Or(x.Image, DefaultImage(o.Version)), Note: o.Note}
		if m, err = OpenMeter(ctx, source); err != nil {
			return nil, err
		}
	}
	if o.Experiment.Outside() && dry == nil {
		here, err := meter.NewLocal()
		if err != nil {
			return nil, err
		}
		m.Meter = meter.Combine(m.Meter, here) // the load runs here
	}
	batches, end, err := takeTurns(ctx, k, o, run, dry == nil)
	if err != nil {
		return nil, err
	}
	namespace := x.Namespace
	if o.Experiment.Application.InPlace {
		namespace = o.Experiment.Application.Namespace
	}
	lease := guard.NewLease(k, run, x.Namespace)
	return &session.Opened{
		Platform: kube.New(kube.Options{
			Cluster: k, Run: run, Lease: lease, Meshes: batches, Namespace: namespace, InPlace: o.Experiment.Application.InPlace, Resources: x.Resources,
			Image: cmp.Or(x.Image, DefaultImage(o.Version)), Workers: workers, Affinity: x.Affinity, ReadyWithin: x.ReadyDeadline(),
			Generators: images, Digests: x.Digests, ChartCache: MeshOptions(experiment.MeshOptions{}, o.Version, o.Note).Cache,
			BackgroundPods: experiment.MaxBackgroundPods(o.Experiment), Outside: o.Experiment.Outside(), Expose: x.Expose, Gateway: o.Experiment.Gateway(), Agent: generator.AgentPath(),
			Refresh: m.usual, NodeRefresh: m.usualNode, MeasureRefresh: m.Refresh, Meter: m.Name, Interest: m.interest, Agents: m.Agents, Settings: settings, UpgradeTo: o.Experiment.Changes.To, InUse: x.InUse == "allow", Report: o.Note,
		}, nodes).Declare(),
		Meter:       m.Meter,
		Timing:      timing(workers, x.ReadyDeadline()),
		Environment: environmentOf(nodes),
		End: func(ctx context.Context) error {
			removed := m.Agents.Stop(ctx)
			if end != nil {
				removed = errors.Join(removed, end(ctx))
			}
			return errors.Join(removed, lease.Release(ctx))
		},
	}, nil
}

// timing is how long things may take in a cluster: images are pulled, an API server may be away for a
// while, and a namespace goes when all that is in it has.
func timing(workers int, ready time.Duration) runner.Timing {
	return runner.Timing{
		Deploy: ready + 2*time.Minute, Verify: 2 * time.Minute, Remove: 4 * time.Minute,
		// Every worker is asked for the time and given its part, one after another.
		Lead:     3*time.Second + time.Duration(workers)*time.Second,
		Overtime: 2 * time.Minute, LoadGrace: 5 * time.Second,
	}
}

// takeTurns has one mesh at a time in the cluster. In an existing namespace there is none.
func takeTurns(ctx context.Context, k *cluster.Cluster, o session.Opening, run string, check bool) (batches kube.Meshes, end func(context.Context) error, err error) {
	if o.Experiment.Platform.Namespace != "" {
		return nil, nil, nil
	}
	turns := meshes.NewBatches(k, func(name string) meshes.Choice {
		chosen := o.Experiment.MeshSettings(name)
		options := MeshOptions(chosen, o.Version, o.Note)
		options.Run, options.Gateway, options.Image = run, o.Experiment.Gateway(), cmp.Or(o.Experiment.Platform.Image, options.Image)
		options.Changes = o.Experiment.Changes.Kinds
		return meshes.Choice{Settings: chosen.Settings(), Options: options}
	}, o.Note)
	if check {
		// The mesh of another run is not a conflict to solve: that run removes it.
		if err := guard.New(k).Free(ctx); err != nil {
			return nil, nil, err
		}
		if err := turns.Possible(ctx, experiment.LevelsOf[string](o.Experiment.Factors, "mesh")); err != nil {
			return nil, nil, err
		}
	}
	return turns, turns.End, nil
}

// environmentOf sums up the nodes.
func environmentOf(nodes []kube.Node) result.Environment {
	var e result.Environment
	add := func(to *string, s string) {
		if s != "" && !strings.Contains(", "+*to+", ", ", "+s+", ") {
			*to = strings.TrimPrefix(*to+", "+s, ", ")
		}
	}
	for _, n := range nodes {
		add(&e.OS, n.OS)
		add(&e.Arch, n.Arch)
		add(&e.Kernel, n.Kernel)
		e.CPUs += n.CPUs
		e.MemoryMB += n.MemoryMB
	}
	return e
}

// DefaultImage returns the image of tare-agent of a version of tare, for an experiment on a cluster that names none. What a tag may
// not have becomes a dash.
func DefaultImage(version string) string {
	return "localhost/tare-agent:" + printable.Plain(version, ".-_", '-')
}

// MeshOptions returns the options of an installation: chosen, and from the environment.
func MeshOptions(chosen experiment.MeshOptions, version string, note func(string)) meshes.Options {
	cache, err := os.UserCacheDir()
	if err == nil {
		cache = filepath.Join(cache, "tare", "charts")
	}
	return meshes.Options{Charts: chosen.Charts, ServiceCIDR: os.Getenv("TARE_SERVICE_CIDR"),
		Cache: cache, Image: DefaultImage(version), Report: note}
}
