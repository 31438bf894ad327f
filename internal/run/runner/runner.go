// Package runner carries out a plan: one trial after another, each through the
// same table of phases. It decides when things happen and what becomes of a
// trial; how a platform deploys, a generator loads and a meter reads is theirs.
//
// Nothing here analyses. What a trial was is kept raw, with the warnings that
// say how far it can be trusted.
package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load/generator"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/fault"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// Config is everything a run needs. The plan is that of Dir.
type Config struct {
	Experiment *experiment.Experiment
	Topology   app.Topology
	Topologies map[string]app.Topology    // by the level of the factor topology; nil: it is none, and all have Topology
	Meshes     map[string]mesh.Definition // by the level of the factor mesh
	Platform   platform.Platform
	Generators map[string]generator.Generator // by the level of the factor generator
	Meter      meter.Meter
	Dir        *result.Dir   // from result.Create or result.Resume
	Sinks      []result.Sink // beside Dir: the live view, a log
	// Stop is asked after every block whether the run knows enough, and answers why;
	// empty: it goes on. Nil: every block is run. The runner does not analyse: what
	// is given here reads the directory.
	Stop func(block int) (why string, err error)
	// Kill ends at the second interrupt: nothing is waited for any more. Nil: it never does.
	Kill context.Context
	// Timing is how long things may take; its zero fields have defaults.
	Timing Timing
	// Wall reads the wall clock; nil: time.Now. Tests step it.
	Wall func() time.Time
}

// Timing is how long things may take that the experiment file does not speak of.
type Timing struct {
	Deploy    time.Duration // deadline of deploying; default 2 min
	Verify    time.Duration // deadline of verifying; default 30 s
	Settle    time.Duration // how long tasks may take to come to rest; default 3 s
	Lead      time.Duration // from starting the generator to its first request; default 300 ms and 1 ms a connection
	Tail      time.Duration // load after the measure phase, under which its end is read; default 500 ms
	Overtime  time.Duration // how long the generator may take to end beyond its own deadline; default 10 s
	Remove    time.Duration // deadline of removing; default 30 s
	LoadGrace time.Duration // from asking the generator to stop to killing it; default 1 s
}

func (t Timing) withDefaults() Timing {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.Deploy, 2 * time.Minute}, {&t.Verify, 30 * time.Second}, {&t.Settle, 3 * time.Second},
		{&t.Lead, 300 * time.Millisecond}, {&t.Tail, 500 * time.Millisecond},
		{&t.Overtime, 10 * time.Second}, {&t.Remove, 30 * time.Second}, {&t.LoadGrace, time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return t
}

// Summary is how a run went.
type Summary struct {
	Trials   int // in the plan
	Earlier  int // recorded before this run
	Recorded int // by this run, the failed and the invalid ones included
	Failed   int // of this run
	Invalid  int // of this run, that did not fail
	// Stopped says why the run ended before its last block; empty: it did not.
	Stopped string
}

// Interrupted is a run that was ended from outside. It is [context.Canceled]; Err is the cause.
type Interrupted struct {
	hint.Hinted
	Dir      string
	Recorded int // in Dir
	Trials   int
}

func (e *Interrupted) Error() string {
	return fmt.Sprintf("interrupted: %d of %d trials are recorded in %s", e.Recorded, e.Trials, e.Dir)
}

// Is makes every interrupt a cancellation, whatever its cause.
func (e *Interrupted) Is(target error) bool { return target == context.Canceled }

// run is one run under way.
type run struct {
	Config
	plan       plan.Plan
	treatments map[string]plan.Treatment
	versions   map[string]string // of generators' programs, by the generator's name
	summary    Summary

	mu    sync.Mutex // of sinks: events come from the phases and from the generator's output
	sinks []result.Sink
}

// Run carries out the trials of cfg.Dir that have no record yet. A trial that
// fails is recorded with its error and the run goes on; the error of Run says
// that it could not go on: [*Interrupted], a directory that cannot be written,
// a platform that cannot be prepared, a deployment that cannot be removed.
func Run(ctx context.Context, cfg Config) (Summary, error) {
	r := &run{Config: cfg, plan: cfg.Dir.Plan(), sinks: cfg.Sinks, treatments: map[string]plan.Treatment{}}
	r.Timing = cfg.Timing.withDefaults()
	if r.Kill == nil {
		r.Kill = context.Background()
	}
	if r.Wall == nil {
		r.Wall = time.Now
	}
	for _, t := range r.plan.Treatments {
		r.treatments[t.ID] = t
	}
	pending, err := cfg.Dir.Pending()
	if err != nil {
		return r.summary, err
	}
	r.summary.Trials = len(r.plan.Trials)
	r.summary.Earlier = len(r.plan.Trials) - len(pending)
	r.tell(result.Event{Kind: result.KindRun, Run: r.opening()})
	err = r.all(ctx, pending)
	r.tell(result.Event{Kind: result.KindEnd})
	return r.summary, err
}

func (r *run) opening() *result.Run {
	return &result.Run{
		Experiment: r.plan.Experiment, Dir: r.Dir.Path(),
		Trials: r.summary.Trials, Recorded: r.summary.Earlier,
		TrialTime: r.plan.TrialTime, Measure: time.Duration(r.Experiment.Phases.Measure),
	}
}

func (r *run) all(ctx context.Context, pending []plan.Trial) error {
	if len(pending) == 0 {
		return nil
	}
	if err := r.prepare(ctx, pending); err != nil {
		return r.ended(ctx, err)
	}
	for i, t := range pending {
		if ctx.Err() != nil {
			return r.ended(ctx, nil)
		}
		if err := r.one(ctx, t); err != nil {
			return r.ended(ctx, err)
		}
		if i+1 < len(pending) && pending[i+1].Block != t.Block {
			if stopped, err := r.enough(t.Block); stopped || err != nil {
				return r.ended(ctx, err)
			}
		}
	}
	return nil
}

// enough asks whether the run may end after a block that is not the last. That it
// cannot be told is no reason to end.
func (r *run) enough(block int) (bool, error) {
	if r.Stop == nil {
		return false, nil
	}
	why, err := r.Stop(block)
	if err != nil {
		r.tell(result.Event{Kind: result.KindLog, Message: "whether to stop early cannot be told, so the run goes on: " + err.Error()})
		return false, nil
	}
	if why == "" {
		return false, nil
	}
	if err := r.Dir.Stop(result.Stopped{At: r.Wall(), Block: block, Why: why}); err != nil {
		return false, err
	}
	r.summary.Stopped = why
	r.tell(result.Event{Kind: result.KindLog, Message: fmt.Sprintf("stopped after block %d: %s", block, why)})
	return true, nil
}

// ended makes of err what Run returns: an interrupt, where there was one, comes first.
func (r *run) ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	interrupted := &Interrupted{Hinted: hint.Hinted{Err: context.Cause(ctx), Text: "go on with: tare run --resume " + r.Dir.Path()},
		Dir: r.Dir.Path(), Recorded: r.summary.Earlier + r.summary.Recorded, Trials: r.summary.Trials}
	if err == nil || errors.Is(err, interrupted.Err) || errors.Is(err, context.Canceled) {
		return interrupted
	}
	return errors.Join(interrupted, err)
}

// Refused says why x cannot be run on p at all, such as a fault that the platform cannot
// make here; nil: nothing is known against it. Run asks it too; who asks it before there
// is a directory spares the user one that stays empty.
func Refused(x *experiment.Experiment, p platform.Platform) error {
	if err := fault.Check(x.Faults, p); err != nil {
		return fmt.Errorf("prepare platform %s: %w", x.Platform.Kind, err)
	}
	return nil
}

// prepare readies the platform for the meshes of the trials to come and keeps the versions it found.
func (r *run) prepare(ctx context.Context, pending []plan.Trial) error {
	if err := Refused(r.Experiment, r.Platform); err != nil {
		return err
	}
	var meshes []mesh.Definition
	seen := map[string]bool{}
	for _, t := range pending {
		treatment, ok := r.treatments[t.Treatment]
		if !ok {
			return fmt.Errorf("trial %s: the plan has no treatment %s", t.ID, t.Treatment)
		}
		name := treatment.Levels.Mesh
		m, ok := r.Meshes[name]
		if !ok {
			return fmt.Errorf("trial %s: mesh %s is not defined", t.ID, name)
		}
		if !seen[name] {
			seen[name] = true
			meshes = append(meshes, m)
		}
	}
	versions, err := r.Platform.Prepare(ctx, meshes)
	if err != nil {
		return fmt.Errorf("prepare platform %s: %w", r.Experiment.Platform.Kind, err)
	}
	versions = maps.Clone(versions)
	if versions == nil {
		versions = map[string]string{}
	}
	if err := r.findGenerators(ctx, pending, versions); err != nil {
		return err
	}
	return r.Dir.SetVersions(versions)
}

// tell gives an event to every sink but the directory. A sink that fails is
// heard no more: a broken terminal must not end a measurement.
func (r *run) tell(e result.Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var kept []result.Sink
	var lost []error
	for _, s := range r.sinks {
		if err := s.Event(e); err != nil {
			lost = append(lost, err)
			continue
		}
		kept = append(kept, s)
	}
	r.sinks = kept
	for _, err := range lost {
		for _, s := range r.sinks {
			_ = s.Event(result.Event{Time: e.Time, Kind: result.KindLog, Message: "an output of events failed and is left out from here on: " + err.Error()})
		}
	}
}
