package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/kube/meshes"
	"github.com/tare-mesh/tare/internal/load/generator"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/meter/kubelet"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/platform/kube"
	"github.com/tare-mesh/tare/internal/run/platform/local"
	"github.com/tare-mesh/tare/internal/run/runner"
)

// platformVariant is one place where trials run.
type platformVariant struct {
	name, doc string
	open      func(context.Context, *cli, opening) (*opened, error)
	dry       bool // it can write down what it would do
	// refresh is how often its counters are refreshed at least; 0: whenever they are read.
	refresh time.Duration
	// overhead is about what a trial takes longer than on this machine, beside the counters.
	overhead time.Duration
}

// opening is what opening a platform takes.
type opening struct {
	experiment *experiment.Experiment
	results    string            // the run's directory
	notices    *notices          // who is told of what takes long
	dry        *cluster.Recorder // nothing is done, and what would be is written down; nil: it is done
}

// opened is a platform, and what belongs to it.
type opened struct {
	platform    platform.Platform
	meter       meter.Meter
	timing      runner.Timing
	environment result.Environment // what is known of where the trials run
	// end takes away what the run has put there for all of its trials; nil: nothing.
	end func(context.Context) error
}

// prolong adds what the platform takes to p's expected times.
func (v platformVariant) prolong(x *experiment.Experiment, p *plan.Plan) {
	more := v.overhead
	if v.refresh > 0 {
		more += runner.PacedExtra(x.Phases, v.refresh)
	}
	p.TrialTime += more
	p.Expected += more * time.Duration(len(p.Trials))
}

func openLocal(_ context.Context, c *cli, o opening) (*opened, error) {
	m, err := c.catalog.newMeter()
	if err != nil {
		return nil, err
	}
	return &opened{
		platform:    local.New(local.Options{AgentPath: generator.AgentPath(), FetchProgram: c.fetchProgram, Report: o.notices.say}).Declare(),
		meter:       m,
		environment: meter.Host(),
	}, nil
}

// meshChange is about what it takes to put a mesh into a cluster, or to take it out and see that nothing is left.
const meshChange = 20 * time.Second

// changes adds what it takes to put meshes in and take them out, in the order of p's trials, the last one out at its end.
func changes(meshes map[string]mesh.Definition, p *plan.Plan) {
	of := map[string]string{}
	for _, t := range p.Treatments {
		if d := meshes[t.Levels.Mesh]; d.Kubernetes != nil {
			of[t.ID] = d.Name
		}
	}
	now := ""
	for _, t := range append(slices.Clone(p.Trials), plan.Trial{}) {
		next := of[t.Treatment]
		if next == now {
			continue
		}
		for _, one := range []string{now, next} {
			if one != "" {
				p.Expected += meshChange
				p.MeshChanges++
			}
		}
		now = next
	}
}

// kubernetesOverhead is about what deploying and removing a trial takes.
const kubernetesOverhead = 20 * time.Second

// kubernetesTiming is how long things may take in a cluster: images are pulled, an API server may be away for a
// while, and a namespace goes when all that is in it has.
func kubernetesTiming(workers int) runner.Timing {
	return runner.Timing{
		Deploy: 5 * time.Minute, Verify: 2 * time.Minute, Remove: 4 * time.Minute,
		// Every worker is asked for the time and given its part, one after another.
		Lead:     3*time.Second + time.Duration(workers)*time.Second,
		Overtime: 2 * time.Minute, LoadGrace: 5 * time.Second,
	}
}

func openKubernetes(ctx context.Context, c *cli, o opening) (*opened, error) {
	x := o.experiment.Platform
	for i, f := range o.experiment.Faults {
		if err := kube.CanInject(f); err != nil {
			return nil, usageError{fmt.Errorf("faults[%d]: %w", i, err), hintOf(err)}
		}
	}
	k, err := cluster.Connect(ctx, cluster.Options{Kubeconfig: x.Kubeconfig, Context: x.Context, Recorder: o.dry})
	if err != nil {
		return nil, err
	}
	nodes, err := kube.Nodes(ctx, k)
	if err != nil {
		return nil, err
	}
	distinct, err := filepath.Abs(o.results)
	if err != nil {
		return nil, fmt.Errorf("find the results directory: %w", err)
	}
	workers := o.experiment.Load.Workers
	images, err := generatorImages(o.experiment)
	if err != nil {
		return nil, err
	}
	settings := map[string]mesh.Settings{}
	for name, chosen := range o.experiment.Meshes {
		settings[name] = chosen.Settings()
	}
	m := clusterMeter{Meter: kubelet.Of(k.Reader(), nil)} // a dry run measures nothing
	if o.dry == nil {
		if m, err = c.catalog.openMeter(ctx, k, x); err != nil {
			return nil, err
		}
	}
	if o.experiment.Outside() && o.dry == nil {
		here, err := c.catalog.newMeter()
		if err != nil {
			return nil, err
		}
		m.Meter = meter.Beside(m.Meter, here) // the load runs here
	}
	if m.note != "" {
		o.notices.say(m.note)
	}
	run := kube.RunID(o.experiment.Metadata.Name, cluster.ThisProcess().Host+distinct)
	batches, end, err := c.takeTurns(ctx, k, o, run)
	if err != nil {
		return nil, err
	}
	return &opened{
		platform: kube.New(kube.Options{
			Cluster: k, Run: run, Meshes: batches, Namespace: x.Namespace, Resources: x.Resources,
			Image: cmp.Or(x.Image, defaultImage()), Workers: workers, Affinity: x.Affinity,
			Generators: images, Digests: x.Digests, ChartCache: c.meshOptions(experiment.MeshOptions{}, nil).Cache,
			Outside: o.experiment.Outside(), Expose: x.Expose, Gateway: o.experiment.Gateway(), Agent: generator.AgentPath(),
			Refresh: m.usual, Pace: m.refresh, Meter: m.name, Settings: settings, InUse: x.InUse == "allow", Report: o.notices.say,
		}, nodes).Declare(),
		meter:       m.Meter,
		timing:      kubernetesTiming(workers),
		environment: environmentOf(nodes),
		end:         end,
	}, nil
}

// takeTurns has one mesh at a time in the cluster; in a namespace that is given there is none.
func (c *cli) takeTurns(ctx context.Context, k *cluster.Cluster, o opening, run string) (batches kube.Meshes, end func(context.Context) error, err error) {
	if o.experiment.Platform.Namespace != "" {
		return nil, nil, nil
	}
	turns := meshes.NewBatches(k, func(name string) meshes.Choice {
		chosen := o.experiment.Meshes[name]
		options := c.meshOptions(chosen, nil)
		options.Run, options.Gateway, options.Image = run, o.experiment.Gateway(), cmp.Or(o.experiment.Platform.Image, options.Image)
		return meshes.Choice{Settings: chosen.Settings(), Options: options}
	}, o.notices.say)
	if o.dry == nil {
		if err := turns.Possible(ctx, o.experiment.Factors.Mesh); err != nil {
			return nil, nil, err
		}
	}
	return turns, turns.End, nil
}

// environmentOf says what the nodes are, all together.
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

// notices go to the live view while there is one, and to standard error before and after.
type notices struct {
	mu   sync.Mutex
	to   io.Writer
	view result.Sink
}

// show says which view there is; nil: none.
func (n *notices) show(view result.Sink) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.view = view
}

func (n *notices) say(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.view == nil {
		fmt.Fprintln(n.to, "tare: "+s)
		return
	}
	_ = n.view.Event(result.Event{Time: time.Now(), Kind: result.KindLog, Message: s})
}
