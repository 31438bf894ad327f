package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

func (t *trial) deploy(ctx context.Context) error {
	limit := (t.setup.Timing.Deploy + mesh.SimulatedLimit(t.setup.treatment.Levels.BackgroundProxies)) * time.Duration(max(1, t.beside))
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was not ready after %v", limit))
	defer cancel()
	provenance, err := filepath.Abs(t.setup.dir.Provenance())
	if err != nil {
		return fmt.Errorf("find provenance directory: %w", err)
	}
	if !t.setup.topology.CallsUnknown() {
		t.journal.record.Edges = t.setup.topology.Edges()
	}
	host, err := experiment.WithSecrets(t.setup.Experiment.Load.Host())
	if err != nil {
		return fmt.Errorf("load: header Host: %w", err)
	}
	t.deployment, err = t.setup.Platform.Deploy(ctx, platform.Spec{
		Trial: t.setup.of, Treatment: t.setup.treatment, Topology: t.setup.topology, Mesh: t.setup.mesh, Changing: t.setup.Experiment.Changing() || experiment.NamesReplicas(t.setup.Experiment),
		CPUs: t.setup.Experiment.Platform.CPUs, LoadHost: host, Provenance: provenance,
	})
	if err != nil {
		return err
	}
	t.makeParts()
	t.setup.Services.begin(t)
	if t.deployment.Warnings != nil {
		for _, w := range t.deployment.Warnings() {
			t.journal.warn(result.Warning{Code: w.Code, Message: w.Message, Hint: w.Hint, Metrics: latencies})
		}
	}
	return nil
}

func (t *trial) makeParts() {
	d := t.deployment
	t.sampler = &sampler{setup: t.setup, journal: t.journal, deployment: d}
	t.load = &loadRun{setup: t.setup, journal: t.journal, deployment: d, sampler: t.sampler}
	t.load.beside = &changeProbe{load: t.load}
	t.faults = &faultPhase{setup: t.setup, journal: t.journal, deployment: d}
	t.changes = &changePhase{setup: t.setup, journal: t.journal, deployment: d, load: t.load}
	t.conserved = &conservation{setup: t.setup, journal: t.journal, deployment: d}
	t.idle = &idleWait{setup: t.setup, journal: t.journal, deployment: d, sampler: t.sampler}
	t.measurement = &measurement{setup: t.setup, journal: t.journal, deployment: d, load: t.load, sampler: t.sampler, faults: t.faults, changes: t.changes}
}

// verify lets the deployment verify itself. A failed check makes the trial invalid.
func (t *trial) verify(ctx context.Context) error {
	if t.deployment.Verify == nil {
		return unusable("not-verified", fmt.Sprintf("platform %s cannot verify that the data plane is in the path: %v", t.setup.Experiment.Platform.Kind, errors.ErrUnsupported),
			"use a platform that verifies")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.setup.Timing.Verify, fmt.Errorf("it took longer than %v", t.setup.Timing.Verify))
	defer cancel()
	probe, err := t.load.verification()
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	done, err := t.deployment.Verify(ctx, probe)
	t.journal.record.Checks = append(t.journal.record.Checks, done.Checks...)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	t.journal.record.Answers = done.Answers
	for _, c := range done.Checks {
		if !c.OK {
			return unusable("verify-failed", fmt.Sprintf("%s: %s", c.Name, c.Detail), c.Hint)
		}
		if c.Caution != "" {
			t.journal.warn(result.Warning{Code: "verified-with-caution", Message: c.Caution, Hint: c.Hint})
		}
	}
	if len(done.Checks) == 0 {
		return unusable("not-verified", "the deployment made no checks", "")
	}
	return nil
}

// settle waits until the deployment is idle, so that its start is not measured.
func (t *trial) settle(ctx context.Context) error { return t.idle.settle(ctx) }

// warmUp starts the load and waits for the first edge.
func (t *trial) warmUp(ctx context.Context) error {
	if err := t.prepareLoad(ctx); err != nil {
		return err
	}
	if err := t.place(ctx); err != nil {
		return err
	}
	if err := t.load.begin(ctx); err != nil {
		return err
	}
	return t.awaitMeasure(ctx)
}

// awaitMeasure samples until the measure phase begins.
func (t *trial) awaitMeasure(ctx context.Context) error {
	t.sampler.reset(t.sampler.history)
	if err := t.sampler.list(ctx); err != nil {
		return err
	}
	return t.measurement.until(ctx, t.load.edges.begin, nil)
}

// prepareLoad does what precedes the start of the load.
func (t *trial) prepareLoad(ctx context.Context) (err error) {
	if err := t.probe(ctx, func(p *result.Probe, r *probe.Reading) { p.Before = r }); err != nil {
		return err
	}
	t.faults.before = t.faults.countMesh(ctx)
	return t.conserved.begin(ctx)
}

// measure reads every task at both edges, and once a second between.
func (t *trial) measure(ctx context.Context) error {
	t.load.edges.began = t.setup.clock.drift()
	if err := t.measurement.run(ctx); err != nil {
		return err
	}
	return broken(t.deployment)
}

// drain waits until the generator has ended: it continues the load during the
// tail, and then waits for requests in flight.
func (t *trial) drain(ctx context.Context) error {
	if t.sliced != nil {
		t.load.endTail(ctx)
	}
	l, err := t.load.result(ctx)
	if err != nil {
		return err
	}
	l.Capacity = t.found
	t.journal.record.Load = &l
	t.load.mergeMeasured()
	t.seen.stepped = t.setup.clock.drift()
	t.faults.keepMesh(ctx)
	if err := errors.Join(t.changes.observe(ctx), t.changes.received(ctx)); err != nil {
		return err
	}
	if err := t.idle.drained(ctx); err != nil {
		return err
	}
	if err := t.conserved.end(ctx); err != nil {
		return err
	}
	if err := t.probe(ctx, func(p *result.Probe, r *probe.Reading) { p.After = r }); err != nil {
		return err
	}
	if err := t.keepSlices(); err != nil {
		return err
	}
	return broken(t.deployment)
}

const probeUnread = "probe-unread"

// probe measures the speed of the processors, before and after the load. During the load it would
// measure the effect of the trial itself.
func (t *trial) probe(ctx context.Context, keep func(*result.Probe, *probe.Reading)) error {
	// The trials of a round have the same processors at the same time.
	if t.deployment.Probe == nil || !t.setup.Experiment.Probe || t.setup.of.Round > 0 {
		return nil
	}
	runtime.GC() // now, not during the reading
	r, err := t.deployment.Probe(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if t.journal.record.Probe == nil {
		t.journal.record.Probe = &result.Probe{}
	}
	if err == nil {
		keep(t.journal.record.Probe, &r)
		return nil
	}
	if !slices.ContainsFunc(t.journal.record.Warnings, func(w result.Warning) bool { return w.Code == probeUnread }) {
		t.journal.warn(result.Warning{Code: probeUnread, Message: fmt.Sprintf("the speed of the processors could not be read: %v", err),
			Hint:    "`probe: false` in the experiment file disables the readings",
			Metrics: []string{metric.ProbeTime}})
	}
	return nil
}
