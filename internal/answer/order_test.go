package answer_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/answer/answertest"
	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result"
)

// A run with each mesh once or in batches has a warning with its limits; the former is not paired.
func TestOrderIsTold(t *testing.T) {
	for order, want := range map[string]struct {
		method compare.Method
		code   string
	}{"": {compare.Paired, ""}, "turns": {compare.Paired, "meshes-in-turns"}, "once": {compare.Unpaired, "meshes-once"}} {
		s := answertest.Quickstart()
		s.Treatments = s.Treatments[:3]
		s.Blocks, s.Warmup, s.Measure, s.Rate = 3, 1, 2, 50
		r := rewritten(t, s, result.PlanFile, func(p map[string]any) {
			if order != "" {
				p["order"] = order
			}
		})
		var warned []string
		for _, w := range r.Warnings {
			if strings.HasPrefix(w.Code, "meshes-") {
				warned = append(warned, w.Code)
			}
		}
		if got := strings.Join(warned, " "); r.Method != want.method || r.Order != order || got != want.code {
			t.Errorf("order %q: %s, %q, warnings %q", order, r.Method, r.Order, got)
		}
	}
}

// Treatments that were loaded at once have ratios, each with a verdict, and nothing in a unit of cost.
func TestRatiosOnly(t *testing.T) {
	s := answertest.Quickstart()
	s.Treatments, s.Order = s.Treatments[2:4], "together"
	s.Treatments[0].Baseline, s.Treatments[1].Baseline = "", "envoy"
	twin := s.Treatments[0]
	twin.ID, twin.Control, twin.Baseline = "envoy-control", true, "envoy"
	s.Treatments = append(s.Treatments, twin)
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	defer d.Close()
	r := must.Get(answer.Analyze(d, compare.Options{}))(t)
	if d := difftest.Wrong("!r.RatiosOnly", !r.RatiosOnly, "len(r.Lines)+len(r.Slopes)+len(r.Weights)+len(r.Noise) > 0", len(r.Lines)+len(r.Slopes)+len(r.Weights)+len(r.Noise) > 0, "len(r.Comparisons) == 0", len(r.Comparisons) == 0, "len(r.Floor) == 0", len(r.Floor) == 0); d != "" {
		t.Errorf("%s: ratios only: %v, %d lines, %d comparisons, %d of the A/A pair", d, r.RatiosOnly, len(r.Lines), len(r.Comparisons), len(r.Floor))
	}
	for _, c := range r.Comparisons {
		if d := difftest.Wrong("c.Difference != nil", c.Difference != nil, "c.Detectable != nil", c.Detectable != nil, "c.P != nil && !c.OnRatio", c.P != nil && !c.OnRatio, "c.Smallest != nil && !c.Smallest.Relative", c.Smallest != nil && !c.Smallest.Relative); d != "" {
			t.Errorf("%s: %s of %s: %+v", d, c.Metric, c.Treatment, c)
		}
	}
	c, _ := r.Find("envoy-plaintext", "cpu_us_per_request/data")
	if c.Ratio == nil {
		t.Errorf("data plane: %+v", c)
	} else if d := difftest.Wrong("math.Abs(c.Ratio.Estimate-150.0/180) > 0.02", math.Abs(c.Ratio.Estimate-150.0/180) > 0.02, "c.Verdict != compare.Lower", c.Verdict != compare.Lower, "c.Smallest == nil", c.Smallest == nil); d != "" {
		t.Errorf("%s: data plane: %+v", d, c)
	}
	if r.Warnings[0].Code != "loaded-together" && r.Warnings[1].Code != "loaded-together" {
		t.Errorf("warnings %+v", r.Warnings)
	}
	for name, options := range map[string]compare.Options{"ladder": {Ladder: true}, "unpaired": {Method: compare.Unpaired}} {
		must.Fail(t, must.Err(answer.Analyze(d, options)), "loaded at once", name)
	}
	must.Fail(t, r.AddCost(d, answer.Prices{}, nil), "loaded at once", "cost")
}

// rewritten is the report of a study of which one file of JSON was changed.
func rewritten(t *testing.T, s answertest.Study, file string, change func(map[string]any)) *answer.Report {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	s.Write(t, dir)
	rewrite(t, filepath.Join(dir, file), change)
	d := must.Get(result.Open(dir))(t)
	defer d.Close()
	r := must.Get(answer.Analyze(d, compare.Options{}))(t)
	return r
}

// rewrite changes a file of JSON.
func rewrite(t *testing.T, file string, change func(map[string]any)) {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	var fields map[string]any
	must.OK(t, json.Unmarshal(text, &fields))
	change(fields)
	text = must.Get(json.Marshal(fields))(t)
	must.OK(t, os.WriteFile(file, text, 0o600))
}

// Meshes with fewer functions than another of the run are named, with the missing functions.
func TestUnequalMeshesAreNamed(t *testing.T) {
	s := answertest.Quickstart()
	s.Treatments = s.Treatments[:3]
	s.Blocks, s.Warmup, s.Measure, s.Rate = 3, 1, 2, 50
	for want, provides := range map[string]map[string]any{
		"": {"none": map[string]any{}, "istio": map[string]any{"mtls": true, "l7": true}, "linkerd": map[string]any{"mtls": true, "l7": true}},
		"the meshes have different features: ambient-l4 lacks L7 processing, retries; istio lacks telemetry": {
			"none": map[string]any{}, "istio": map[string]any{"mtls": true, "l7": true, "retries": true}, "ambient-l4": map[string]any{"mtls": true, "telemetry": true}},
	} {
		r := rewritten(t, s, result.EnvironmentFile, func(e map[string]any) { e["provides"] = provides })
		warned := ""
		for _, w := range r.Warnings {
			if w.Code == "unequal-meshes" {
				warned = w.Message
			}
		}
		if warned != want {
			t.Errorf("got  %q\nwant %q", warned, want)
		}
	}
}
