package answer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
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

// Results whose treatments were loaded at once have no costs, and no report.
func TestLoadedAtOnce(t *testing.T) {
	s := answertest.Quickstart()
	s.Order = "together"
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	defer d.Close()
	must.Fail(t, must.Err(answer.Analyze(d, compare.Options{})), "order together is not supported")
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
		"the meshes have different features: caddy and nginx lack telemetry": {
			"nginx": map[string]any{"l7": true}, "envoy": map[string]any{"l7": true, "telemetry": true}, "caddy": map[string]any{"l7": true}},
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
