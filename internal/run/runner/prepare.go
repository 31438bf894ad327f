package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

func (t *trial) deploy(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.Timing.Deploy, fmt.Errorf("it was not up after %v", t.Timing.Deploy))
	defer cancel()
	provenance, err := filepath.Abs(t.dir.Provenance())
	if err != nil {
		return fmt.Errorf("find provenance directory: %w", err)
	}
	t.record.Edges = t.topology.Edges()
	t.deployment, err = t.Platform.Deploy(ctx, platform.Spec{
		Trial: t.of, Treatment: t.treatment, Topology: t.topology, Mesh: t.mesh,
		CPUs: t.Experiment.Platform.CPUs, Provenance: provenance,
	})
	if err != nil {
		return err
	}
	if t.deployment.Warner != nil {
		for _, w := range t.deployment.Warner.Warnings() {
			t.warn(result.Warning{Code: w.Code, Message: w.Message, Hint: w.Hint, Metrics: latencies})
		}
	}
	return nil
}

// verify has the deployment prove that it is what is to be measured.
func (t *trial) verify(ctx context.Context) error {
	if t.deployment.Verifier == nil {
		return unusable("not-verified", fmt.Sprintf("platform %s cannot show that the data plane is in the path: %v", t.Experiment.Platform.Kind, errors.ErrUnsupported),
			"use a platform that verifies")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.Timing.Verify, fmt.Errorf("it took longer than %v", t.Timing.Verify))
	defer cancel()
	checks, err := t.deployment.Verifier.Verify(ctx)
	for _, c := range checks {
		t.record.Checks = append(t.record.Checks, result.Check(c))
	}
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	for _, c := range checks {
		if !c.OK {
			return unusable("verify-failed", fmt.Sprintf("%s: %s", c.Name, c.Detail), c.Hint)
		}
		if c.Caution != "" {
			t.warn(result.Warning{Code: "verified-with-caution", Message: c.Caution, Hint: c.Hint})
		}
	}
	if len(checks) == 0 {
		return unusable("not-verified", "the deployment verified nothing", "")
	}
	return nil
}

const (
	// settled is the CPU of application and data plane, in cores, below which they are at rest.
	settled = 0.05
	// settleLook is the time between two looks at it.
	settleLook = 200 * time.Millisecond
)

// settle waits until what was started has come to rest, so that its starting is not measured.
func (t *trial) settle(ctx context.Context) error {
	if t.paced() {
		return t.settlePaced(ctx)
	}
	runtime.GC() // what tare itself left behind is collected now, not while it measures
	deadline := time.Now().Add(t.Timing.Settle)
	tasks, err := t.deployment.Tasks(ctx)
	if err != nil {
		return err
	}
	before, err := t.Meter.Read(ctx, tasks, meter.Counters)
	if err != nil {
		return err
	}
	for {
		if err := await(ctx, time.Now().Add(settleLook)); err != nil {
			return err
		}
		after, err := t.Meter.Read(ctx, tasks, meter.Counters)
		if err != nil {
			return err
		}
		cores := coresByPlane(tasks, before, after)
		if c := cores[string(metric.App)] + cores[string(metric.Data)]; c < settled {
			return nil
		} else if time.Now().After(deadline) {
			t.warn(result.Warning{Code: "not-settled",
				Message: fmt.Sprintf("application and data plane still used %.2f cores %v after they were up, without any load", c, t.Timing.Settle),
				Hint:    "raise phases.warmup, or see in the trial's provenance what they are doing"})
			return nil
		}
		before = after
	}
}

// coresByPlane is the CPU each plane used between two looks.
func coresByPlane(tasks []platform.Task, before, after meter.Look) map[string]float64 {
	cores := map[string]float64{}
	for _, task := range tasks {
		b, ok := before.Tasks[task.ID]
		a, ok2 := after.Tasks[task.ID]
		if wall := a.At.Sub(b.At); ok && ok2 && wall > 0 {
			cores[string(task.Plane)] += float64(a.CPU-b.CPU) / float64(wall)
		}
	}
	return cores
}
