package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/importer"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// A factor added to the table is read, has a default, and appears in schema, plan and report.
func TestFactorTable(t *testing.T) {
	before := experiment.Table
	t.Cleanup(func() { experiment.Table = before })
	page := experiment.Column[string]{
		Name: "page", Text: "Page that is requested.", Default: "/start", Token: "page",
		Field: func(l *experiment.Levels) *string { return &l.Route },
	}
	// page replaces route and uses its field.
	others := slices.DeleteFunc(slices.Clone(before), func(f experiment.Factor) bool { return f.Name == "route" })
	experiment.Table = slices.Insert(others, 1, page.Factor())

	if got := experiment.DefaultLevels().Route; got != "/start" {
		t.Errorf("default %q", got)
	}
	file := filepath.Join(t.TempDir(), "page.yaml")
	text := "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: page}\n" +
		"factors: {mesh: [none, envoy], page: [/a, /b]}\nbaseline: {mesh: none, page: /a}\nblocks: 1\n"
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))

	t.Run("schema", func(t *testing.T) {
		out := must.Get(call(t, newSchemaCommand))(t)
		var s struct {
			Properties map[string]struct {
				Properties map[string]struct {
					Description string
					Default     []string
				}
			}
		}
		_ = json.Unmarshal([]byte(out), &s) // other properties have other types
		if p := s.Properties["factors"].Properties["page"]; p.Description != page.Text || !slices.Equal(p.Default, []string{"/start"}) {
			t.Errorf("factors.page is %+v", p)
		}
		if s.Properties["baseline"].Properties["page"].Description == "" {
			t.Error("baseline.page has no description")
		}
	})
	t.Run("plan", func(t *testing.T) {
		out, err := call(t, newPlanCommand, file, "--format", "json")
		must.OK(t, err)
		var p plan.Plan
		must.OK(t, json.Unmarshal([]byte(out), &p))
		last := p.Treatments[len(p.Treatments)-1]
		if d := difftest.Of("len(p.Treatments)", len(p.Treatments), 4, "last.ID", last.ID, "envoy-page-b", `last.Factors["page"]`, last.Factors["page"], "/b", "last.Levels.Route", last.Levels.Route, "/b", "last.Baseline", last.Baseline, "none-page-a"); d != "" {
			t.Errorf("%s: %d treatments, the last is %+v", d, len(p.Treatments), last)
		}
		out, err = call(t, newPlanCommand, file)
		if err != nil || !strings.Contains(strings.ToLower(out), "mesh") || !containsInOrder(strings.ToLower(out), "mesh", "page", "envoy", "/b") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("YAML", func(t *testing.T) {
		again := filepath.Join(t.TempDir(), "again.yaml")
		factors := must.Get(yaml.Marshal(map[string]any{"factors": experiment.Factors{"page": []string{"/a", "/b"}, "mesh": []string{"none", "envoy"}}}))(t)
		head, _, _ := strings.Cut(text, "factors:")
		must.OK(t, os.WriteFile(again, []byte(head+string(factors)+"baseline: {mesh: none, page: /a}\nblocks: 1\n"), 0o600))
		plan := func(file string) string {
			out := must.Get(call(t, newPlanCommand, file, "--set", "seed=1"))(t)
			return out
		}
		if got, want := plan(again), plan(file); got != want {
			t.Errorf("%s\nplans\n%s\nwant\n%s", factors, got, want)
		}
	})
	t.Run("import", func(t *testing.T) {
		copies := experiment.Column[int]{Name: experiment.ReplicasFactor, Default: 1, Token: "copies", Field: func(l *experiment.Levels) *int { return &l.Replicas }}
		for i, f := range experiment.Table {
			if f.Name == copies.Name {
				experiment.Table[i] = copies.Factor()
			}
		}
		dir := filepath.Join(t.TempDir(), "run")
		study := &importer.Study{Name: "page", Meshes: []string{"none"}, Trials: []importer.Trial{{Mesh: "none", Replicas: 3}}}
		must.OK(t, importer.Write(dir, study, result.Environment{}))
		d := must.Get(result.Open(dir))(t)
		defer d.Close()
		if got := d.Plan().Treatments; len(got) != 1 || got[0].ID != "none-copies3" || got[0].Levels.Replicas != 3 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("mistakes", func(t *testing.T) {
		for set, want := range map[string]string{
			"baseline.page=/c":      "baseline.page: /c is not among the levels of page",
			"factors.page=[]":       "factors.page: the list is empty",
			"factors.page=[/a, /a]": "factors.page[1]: /a is already level 1",
			"factors.page=/a":       "expected a list",
			"factors.pages=[/a]":    "unknown field",
		} {
			must.Fail(t, must.Err(call(t, newPlanCommand, file, "--set", set)), want, set)
		}
	})
	t.Run("report", func(t *testing.T) {
		s := answertest.Quickstart()
		s.Blocks, s.Warmup, s.Measure, s.Rate = 3, 1, 2, 50
		s.Treatments = []answertest.Treatment{s.Treatments[0], s.Treatments[2]}
		for i := range s.Treatments {
			x := &s.Treatments[i]
			x.Factors = plan.Factors{"mesh": x.Factors["mesh"], "connections": []float64{1, 2}[i], "page": []string{"/a", "/b"}[i]}
		}
		dir := filepath.Join(t.TempDir(), "run")
		s.Write(t, dir)
		out := must.Get(call(t, newReportCommand, dir))(t)
		must.Contain(t, out, "envoy, page /b, connections 2")
	})
}

// containsInOrder reports whether the words follow one another in text.
func containsInOrder(text string, words ...string) bool {
	for _, w := range words {
		i := strings.Index(text, w)
		if i < 0 {
			return false
		}
		text = text[i+len(w):]
	}
	return true
}
