package session

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// Flags become an experiment of A, A again and B, with as many blocks as the time allows.
func TestABStudies(t *testing.T) {
	for name, c := range map[string]struct {
		o     AB
		order string
		check func(*Study) bool
	}{
		"two programs": {AB{Mesh: []string{"envoy"}, Programs: []string{"./old", "new"}}, experiment.OrderInterleaved, func(s *Study) bool {
			a, b := s.Meshes["envoy-a"].Local.Sidecar.Path, s.Meshes["envoy-b"].Local.Sidecar.Path
			return filepath.IsAbs(a) && filepath.Base(a) == "old" && b == "new"
		}},
		"one program": {AB{Mesh: []string{"envoy"}, Programs: []string{"./new"}}, experiment.OrderInterleaved, func(s *Study) bool {
			return s.Meshes["envoy-a"].Local.Sidecar.Path == "" && filepath.Base(s.Meshes["envoy-b"].Local.Sidecar.Path) == "new"
		}},
		"settings": {AB{Mesh: []string{"envoy"}, Set: []string{"a.options.accessLog=false", "b.options.accessLog=true", "b.concurrency=2"}},
			experiment.OrderInterleaved, func(s *Study) bool {
				a, b := s.Meshes["envoy-a"].Local.Sidecar, s.Meshes["envoy-b"].Local.Sidecar
				return a.Options["accessLog"].Default == "false" && b.Options["accessLog"].Default == "true" && b.Concurrency == 2 && a.Concurrency != 2
			}},
		"a file": {AB{File: "../../examples/standard-weight.yaml", A: "mesh=reference", B: "mesh=reference-500us"}, experiment.OrderInterleaved, func(s *Study) bool {
			return s.Experiment.Baseline["mesh"] == "reference" && s.Plan.Treatments[2].Factors["mesh"] == "reference-500us"
		}},
		"two versions": {AB{Mesh: []string{"istio"}, Versions: []string{"1.29.2", "1.30.4"}, MaxTime: 2 * time.Hour}, experiment.OrderInterleaved, func(s *Study) bool {
			a, b := s.Experiment.MeshSettings("istio-a"), s.Experiment.MeshSettings("istio-b")
			return s.Experiment.Platform.Kind == mesh.OnKubernetes && a.Version == "1.29.2" && b.Version == "1.30.4" && a.From == "istio"
		}},
		"two option sets on a cluster": {AB{Mesh: []string{"istio"}, MaxTime: 2 * time.Hour, Set: []string{"b.options.mtls=PERMISSIVE"}},
			experiment.OrderInterleaved, func(s *Study) bool { return s.Experiment.MeshSettings("istio-b").Options["mtls"] == "PERMISSIVE" }},
		"a quarter of an hour on a cluster": {AB{Mesh: []string{"istio"}, MaxTime: 15 * time.Minute, Set: []string{"b.options.accessLog=true"}},
			experiment.OrderInterleaved, func(s *Study) bool { // slices that a busy node reads in time, also after the pilot
				return s.Experiment.ByNodeAgent() && s.Plan.Slices.Length == 500*time.Millisecond && s.Plan.Slices.Measure == 20
			}},
		"a mesh without revisions": {AB{Mesh: []string{"linkerd"}, MaxTime: 2 * time.Hour, Set: []string{"b.profile=ha"}},
			experiment.OrderByMesh, func(s *Study) bool { return s.Experiment.ByNodeAgent() }},
		"a cluster that is in use": {AB{Mesh: []string{"istio"}, MaxTime: 2 * time.Hour, Set: []string{"b.options.accessLog=true", "platform.inUse=allow"}},
			experiment.OrderByMesh, func(s *Study) bool { return s.Experiment.Platform.Meter == "" }},
	} {
		c.o.App, c.o.Rate, c.o.MaxTime = "echo", "1000", cmp.Or(c.o.MaxTime, 10*time.Minute)
		s, err := NewProgram("", nil).AB(t.Context(), c.o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		planned := 0
		for _, tr := range s.Plan.Treatments {
			if tr.Control || tr.Baseline != "" {
				planned++
			}
		}
		if !c.check(s) {
			t.Errorf("%s: order %s, %d treatments, %d blocks in %v: %+v", name, s.Experiment.Order, len(s.Plan.Treatments), s.Plan.Blocks, s.Plan.Expected, s.Experiment.Meshes)
		} else if d := difftest.Of("s.Experiment.Order", s.Experiment.Order, c.order, "len(s.Plan.Treatments)", len(s.Plan.Treatments), 3, "planned", planned, 2, "s.Plan.Expected > c.o.MaxTime", s.Plan.Expected > c.o.MaxTime, false, "s.Plan.Blocks < experiment.DecideFrom()", s.Plan.Blocks < experiment.DecideFrom(), false); d != "" {
			t.Errorf("%s: %s: order %s, %d treatments, %d blocks in %v: %+v", d, name, s.Experiment.Order, len(s.Plan.Treatments), s.Plan.Blocks, s.Plan.Expected, s.Experiment.Meshes)
		}
		if d := s.Experiment.Decide; len(d.Gates) != 1 || d.Gates[0] != DefaultGate || time.Duration(d.Within) != c.o.MaxTime {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// Blocks fill the time, where a mesh is not installed in each of them too.
func TestABFillsItsTime(t *testing.T) {
	p := NewProgram("", nil)
	o := AB{App: "echo", Rate: "1000", MaxTime: time.Hour, Set: []string{"b.profile=ha", "seed=1"}}
	o.Mesh = []string{"linkerd"}
	s := must.Get(p.AB(t.Context(), o))(t)
	if s.Plan.MeshChanges == 0 || s.Plan.Blocks >= stats.MaxLooks {
		t.Fatalf("%d changes of the mesh, %d blocks: the test needs other settings", s.Plan.MeshChanges, s.Plan.Blocks)
	}
	o.Gates, o.fixed = []string{DefaultGate}, []string{"order=by-mesh"}
	more, err := p.abOfMesh(t.Context(), o, s.Plan.Blocks+2)
	if err != nil || s.Plan.Expected > o.MaxTime || more.Plan.Expected <= o.MaxTime {
		t.Errorf("%v: %d blocks take %v, two more take %v", err, s.Plan.Blocks, s.Plan.Expected, more.Plan.Expected)
	}
}

// Of the random orders the one with the fewest installations is run. Without installations the first one is.
func TestABOrderWithFewestInstallations(t *testing.T) {
	drawn := 0
	study := func(changes ...int) func() (*Study, error) {
		drawn = 0
		return func() (*Study, error) {
			drawn++
			return &Study{Drawn: true, Plan: &plan.Plan{Seed: uint64(drawn), MeshChanges: changes[(drawn-1)%len(changes)]}}, nil
		}
	}
	if s, err := fewestChanges(study(14, 16, 10, 12)); err != nil || s.Plan.Seed != 3 || drawn != seedsTried {
		t.Errorf("seed %d of %d, %v", s.Plan.Seed, drawn, err)
	}
	if s, err := fewestChanges(study(0)); err != nil || s.Plan.Seed != 1 || drawn != 1 {
		t.Errorf("without installations: seed %d of %d, %v", s.Plan.Seed, drawn, err)
	}
}

// A file is read for each random order and number of blocks, and its notes appear once.
func TestABNotesOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.yaml")
	for name, text := range map[string]string{
		"log": "GET http://a/\n\nGET http://a/two\nCookie: session=1\n",
		"mine.yaml": `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: mine}
application: {topology: echo}
factors: {mesh: [envoy, reference], rate: [100]}
load: {targets: log}
order: balanced
blocks: 4
`,
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	s := must.Get(NewProgram("", nil).AB(t.Context(), AB{File: file, A: "mesh=reference", B: "mesh=envoy", MaxTime: time.Hour}))(t)
	if len(s.Notes) != 3 || !strings.Contains(s.Notes[0], "Cookie") || !strings.Contains(s.Notes[1], "has no order: interleaved") || !strings.Contains(s.Notes[2], "and hold from block 15 (about ") {
		t.Errorf("notes: %q", s.Notes)
	}
}

// A file without --gate has the gate of what it compares.
func TestDefaultGateOfFiles(t *testing.T) {
	const two = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: two}\napplications: {old: {command: [./old]}, new: {command: [./new]}}\nfactors: {application: [old, new]}\n"
	for fields, want := range map[string]string{"batch: {}\nphases: {measure: 1s}\n": DefaultEndsGate, "phases: {warmup: 1s, measure: 1s, drain: 1s}\n": DefaultProgramGate} {
		o := AB{File: must.File(t, t.TempDir(), "two.yaml", two+fields), A: "application=old", B: "application=new", MaxTime: time.Hour}
		if got := must.Get(NewProgram("", nil).AB(t.Context(), o))(t).Experiment.Decide.Gates; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: gates %q, want %q", fields, got, want)
		}
	}
}
