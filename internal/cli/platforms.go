package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load/generator"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/platform/local"
	"github.com/tare-mesh/tare/internal/run/runner"
)

// platformVariant is one kind of platform for trials.
type platformVariant struct {
	name, doc string
	open      func(context.Context, *CommandLine, Opening) (*Opened, error)
	// refresh is the expected counter refresh interval; 0: counters are current at every reading.
	refresh time.Duration
	// overhead is about how much longer a trial takes than on this machine, without waiting for counters.
	overhead time.Duration
}

// Opening is the input for opening a platform.
type Opening struct {
	Experiment *experiment.Experiment
	Results    string // the run's directory
	Notices    *Notices
}

// Opened is a platform with everything that belongs to it.
type Opened struct {
	Platform    platform.Platform
	Meter       meter.Meter
	Timing      runner.Timing
	Environment result.Environment // of the place where the trials run
	// End removes what the run shares between its trials; nil: nothing.
	End func(context.Context) error
}

// prolong adds what the platform takes to p's expected times.
func (v platformVariant) prolong(x *experiment.Experiment, p *plan.Plan) {
	more := v.overhead
	if v.refresh > 0 {
		more += runner.RefreshExtra(x.Phases, v.refresh)
	}
	p.TrialTime += more
	p.Expected += more * time.Duration(len(p.Trials))
}

func openLocal(_ context.Context, c *CommandLine, o Opening) (*Opened, error) {
	m, err := c.catalog.newMeter()
	if err != nil {
		return nil, err
	}
	return &Opened{
		Platform:    local.New(local.Options{AgentPath: generator.AgentPath(), FetchProgram: c.fetchProgram, Report: o.Notices.Post}).Declare(),
		Meter:       m,
		Environment: meter.Host(),
	}, nil
}

// meshChange is about how long it takes to install a mesh, or to uninstall it and check that nothing is left.
const meshChange = 20 * time.Second

// changes adds the time to install and uninstall meshes, in the order of p's trials, to p's expected time.
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

// Notices are messages for the user: shown in the live view while there is one, otherwise on standard error.
type Notices struct {
	mu   sync.Mutex
	to   io.Writer
	view result.Sink
}

// show sets the view; nil: none.
func (n *Notices) show(view result.Sink) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.view = view
}

// Post shows one message.
func (n *Notices) Post(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.view == nil {
		fmt.Fprintln(n.to, "tare: "+s)
		return
	}
	_ = n.view.Event(result.Event{Time: time.Now(), Kind: result.KindLog, Message: s})
}
