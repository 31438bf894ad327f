package analysis_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/analysis/analysistest"
	"github.com/tare-mesh/tare/internal/result"
)

// A run with each mesh once or in batches has a warning with its limits; the former is not paired.
func TestOrderIsTold(t *testing.T) {
	for order, want := range map[string]struct {
		method analysis.Method
		code   string
	}{"": {analysis.Paired, ""}, "turns": {analysis.Paired, "meshes-in-turns"}, "once": {analysis.Unpaired, "meshes-once"}} {
		s := analysistest.Quickstart()
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

// rewritten is the report of a study of which one file of JSON was changed.
func rewritten(t *testing.T, s analysistest.Study, file string, change func(map[string]any)) *analysis.Report {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	s.Write(t, dir)
	rewrite(t, filepath.Join(dir, file), change)
	d, err := result.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r, err := analysis.Analyze(d, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rewrite changes a file of JSON.
func rewrite(t *testing.T, file string, change func(map[string]any)) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	change(fields)
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Meshes with fewer functions than another of the run are named, with the missing functions.
func TestUnequalMeshesAreNamed(t *testing.T) {
	s := analysistest.Quickstart()
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
