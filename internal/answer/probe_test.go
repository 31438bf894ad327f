package answer_test

import (
	"testing"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
)

// wandering is a machine whose speed wanders by 4 % from trial to trial.
func wandering(probed bool, change func(*result.Record)) answertest.Study {
	s := answertest.Quickstart()
	s.Treatments, s.Blocks, s.Warmup, s.Measure, s.Rate = s.Treatments[:3], 6, 1, 1, 60
	s.Noise, s.Drift, s.Walk, s.Probed, s.Change = 0.005, 0, 0.04, probed, change
	return s
}

const total = "cpu_us_per_request/total"

// The probe is a metric of the machine. It changes no other figure, whatever it reads.
func TestProbeChangesNoFigure(t *testing.T) {
	want := analyse(t, wandering(false, nil))
	for name, c := range map[string]struct {
		change func(*result.Record)
		known  int // trials of envoy with probe_us
	}{
		"it shows the machine's drift": {nil, 6},
		"one trial has none": {func(r *result.Record) {
			if r.Block == 3 && r.Treatment == "envoy" {
				r.Probe.After = nil
			}
		}, 5},
		"other work before than after": {func(r *result.Record) { r.Probe.After.Work = "other/1" }, 0},
		"other work in one block": {func(r *result.Record) {
			if r.Block == 2 {
				r.Probe.Before.Work, r.Probe.After.Work = "other/1", "other/1"
			}
		}, 0},
		"negative time": {func(r *result.Record) {
			if r.Block == 1 {
				r.Probe.Before.CPUs[0].NS = -5
			}
		}, 5},
		"the treatment shifts it by 3 %": {func(r *result.Record) {
			if r.Treatment == "envoy" {
				for i := range r.Probe.Before.CPUs {
					r.Probe.Before.CPUs[i].NS += r.Probe.Before.CPUs[i].NS * 6 / 100
				}
			}
		}, 6},
	} {
		r := analyse(t, wandering(true, c.change))
		for _, metric := range []string{total, "cpu_us_per_request/app", "memory_mib/data"} {
			got, raw := find(t, r, "envoy", metric), find(t, want, "envoy", metric)
			if *got.Difference.Low != *raw.Difference.Low || *got.Difference.High != *raw.Difference.High || *got.PAdjusted != *raw.PAdjusted {
				t.Errorf("%s, %s: %v..%v, without a probe %v..%v", name, metric, *got.Difference.Low, *got.Difference.High, *raw.Difference.Low, *raw.Difference.High)
			}
		}
		if got := r.Treatments[2].Metrics["probe_us"].N; got != c.known {
			t.Errorf("%s: probe_us of %d trials, want %d", name, got, c.known)
		}
	}
}
