package runner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// probedPlatform has a calibration probe that returns the test's reading.
type probedPlatform struct {
	*fake
	probe func() (probe.Reading, error)
}

func (p probedPlatform) Deploy(ctx context.Context, s platform.Spec) (*platform.Deployment, error) {
	d, err := p.fake.Deploy(ctx, s)
	if err != nil {
		return nil, err
	}
	d.Probe = p.Probe
	return d, nil
}

func (p probedPlatform) Probe(context.Context) (probe.Reading, error) { return p.probe() }

func probedTrial(t *testing.T, on bool, read func() (probe.Reading, error)) result.Record {
	t.Helper()
	cfg, _ := fakeConfig(t, &fake{}, "ok")
	cfg.Platform.Deployer = probedPlatform{&fake{}, read}
	cfg.Experiment.Probe = on
	return ran(t, cfg, 1, -1)[0]
}

// A failing probe causes one warning and no invalid trial. A disabled probe is not run.
func TestProbe(t *testing.T) {
	t.Parallel()
	n := 0
	count := func() (probe.Reading, error) {
		n++
		return probe.Reading{Work: "test", CPUs: []probe.Processor{{CPU: n, Pieces: 10, NS: 10}}}, nil
	}
	r := probedTrial(t, true, count)
	if !r.Valid {
		t.Errorf("invalid: %+v", r.Warnings)
	}
	if n != 2 || r.Probe == nil {
		t.Fatalf("read %d times: %+v, want 2", n, r.Probe)
	}
	if before, after := r.Probe.Before.CPUs[0].CPU, r.Probe.After.CPUs[0].CPU; before != 1 || after != 2 {
		t.Errorf("readings %d before and %d after the load, want 1 and 2", before, after)
	}
	n = 0
	if r := probedTrial(t, false, count); n != 0 || r.Probe != nil {
		t.Errorf("off, and read %d times: %+v", n, r.Probe)
	}
	r = probedTrial(t, true, func() (probe.Reading, error) { return probe.Reading{}, errors.New("no such processor") })
	warnings := 0
	for _, w := range r.Warnings {
		if w.Code == "probe-unread" && !w.Invalidates {
			warnings++
		}
	}
	if !r.Valid || warnings != 1 {
		t.Errorf("valid %v with %d warnings, want one: %+v", r.Valid, warnings, r.Warnings)
	}
	if *r.Probe != (result.Probe{}) {
		t.Errorf("readings %+v, want none", r.Probe)
	}
}
