package analysis_test

import (
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/answer/analysis/analysistest"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// wandering is a machine whose speed wanders by 4 % from trial to trial.
func wandering(probed bool, change func(*result.Record)) analysistest.Study {
	s := analysistest.Quickstart()
	s.Treatments, s.Blocks, s.Warmup, s.Measure, s.Rate = s.Treatments[:3], 10, 1, 1, 100
	s.Noise, s.Drift, s.Walk, s.Probed, s.Change = 0.005, 0, 0.04, probed, change
	return s
}

const total = "cpu_us_per_request/total"

// The probe removes the drift of the machine that it shows, and the report has it.
func TestProbeNarrows(t *testing.T) {
	with, without := analyse(t, wandering(true, nil)), analyse(t, wandering(false, nil))
	c, raw := find(t, with, "envoy", total), find(t, without, "envoy", total)
	if c.Probe == nil || c.Probe.Difference == nil || c.Probe.Ratio == nil {
		t.Fatalf("not normalised: %+v", c)
	}
	before, _ := raw.Difference.HalfWidth()
	after, _ := c.Difference.HalfWidth()
	if after > before/2 || math.Abs(1-after/before-c.Probe.Difference.Narrower) > 0.02 {
		t.Errorf("half-width %v with the probe, %v without; the report has %v", after, before, c.Probe.Difference.Narrower)
	}
	// The raw interval is the one without the probe.
	if got := c.Probe.Difference.Raw; math.Abs(got.Estimate-raw.Difference.Estimate) > 0.01*raw.Difference.Estimate {
		t.Errorf("raw %v, without a probe %v", got, *raw.Difference)
	}
	if k := c.Probe.Difference.Coefficient; math.Abs(k-1) > 0.1 {
		t.Errorf("the coefficient is %v where cost is in proportion to the probe", k)
	}
	// The ratio does not depend on the machine's speed at all: the truth is 246 over 60.
	if c.Ratio == nil || !covers(c.Ratio, 246.0/60) {
		t.Errorf("the ratio is %v, in truth 4.1", c.Ratio)
	}
	if *c.Detectable >= *raw.Detectable {
		t.Errorf("detectable %v with the probe, %v without", *c.Detectable, *raw.Detectable)
	}
	// Memory does not depend on the processor's speed, and is not adjusted.
	if m := find(t, with, "envoy", "memory_mib/data"); m.Probe != nil {
		t.Errorf("memory is normalised: %+v", m)
	}
	u, ok := with.Probed(metric.Headlines())
	if !ok || len(u.Normalised) == 0 || u.Of < len(u.Normalised) || with.Setup.Probe == "" {
		t.Errorf("%v %+v, work %q", ok, u, with.Setup.Probe)
	}
	if _, ok := without.Probed(metric.Headlines()); ok || without.Setup.Probe != "" {
		t.Error("a probe is reported without a probe")
	}
	if v := with.Treatments[0].Metrics["probe_us"]; v.Estimate < 8 || v.Estimate > 18 {
		t.Errorf("probe_us %+v", v)
	}
}

// Uninformative probes change no figure.
func TestProbesThatAreNotUsed(t *testing.T) {
	want := find(t, analyse(t, wandering(true, func(r *result.Record) { r.Probe = nil })), "envoy", total)
	for name, change := range map[string]func(*result.Record){
		"one trial has none": func(r *result.Record) {
			if r.Block == 3 && r.Treatment == "none" {
				r.Probe.After = nil
			}
		},
		"other work before than after": func(r *result.Record) { r.Probe.After.Work = "other/1" },
		"other work in one block": func(r *result.Record) {
			if r.Block == 2 {
				r.Probe.Before.Work, r.Probe.After.Work = "other/1", "other/1"
			}
		},
		"no time": func(r *result.Record) { r.Probe.Before.CPUs[0].NS = 0 },
		"negative time": func(r *result.Record) {
			if r.Block == 1 {
				r.Probe.Before.CPUs[0].NS = -5
			}
		},
		"it measured the mesh": func(r *result.Record) {
			if r.Treatment == "envoy" {
				for i := range r.Probe.Before.CPUs {
					r.Probe.Before.CPUs[i].NS += r.Probe.Before.CPUs[i].NS / 2
				}
			}
		},
	} {
		r := analyse(t, wandering(true, change))
		c := find(t, r, "envoy", total)
		if c.Probe != nil || *c.Difference.Low != *want.Difference.Low || *c.Difference.High != *want.Difference.High {
			t.Errorf("%s: %+v", name, c)
		}
		if u, ok := r.Probed(metric.Headlines()); name == "it measured the mesh" && (!ok || len(u.Differs) != 1) {
			t.Errorf("%s: %+v", name, u)
		}
	}
}

// A run that stops at a width is left as measured.
func TestProbeAndARunThatStops(t *testing.T) {
	s := wandering(true, nil)
	s.Until = "cpu_us_per_request/total ±2%"
	r := analyse(t, s)
	if _, ok := r.Probed(metric.Headlines()); ok || find(t, r, "envoy", total).Probe != nil {
		t.Error("normalised all the same")
	}
}
