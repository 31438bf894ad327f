package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

func TestABMistakes(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "give one --mesh"},
		{"--mesh envoy", "nothing differs between A and B"},
		{"--mesh envoi --program ./x", "unknown mesh"},
		{"--mesh envoy --set b.options.acessLog=true", `there is no option "acessLog"`},
		{"--mesh envoy --program a --program b --program c", "3 times --program"},
		{"--mesh envoy --program ./x --gate cpu", "there is no metric"},
		{"--mesh envoy --program ./x --max-time 20s", "is too short"},
		{"--mesh envoy --program ./x --undecided maybe", "--undecided is"},
		{"../../examples/quickstart.yaml --a mesh=envoy --b rate=3", "not two levels of one factor"},
		{"../../examples/quickstart.yaml --a mesh=none --b mesh=envoy --set factors.rate=[1,2]", "treatments with these levels"},
	} {
		code, out := runAB(t, strings.Fields(c.args)...)
		if code != console.BadUsage || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q in\n%s", c.args, code, console.BadUsage, c.want, out)
		}
	}
}

func runAB(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	code := New(console.Console{In: strings.NewReader(""), Out: &out, Err: &out}, nil).Run(t.Context(), append([]string{"ab"}, args...))
	return code, out.String()
}

// Flags become an experiment of A, A again and B, with as many blocks as the time allows.
func TestABStudies(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		o     abOptions
		order string
		check func(*Study) bool
	}{
		"two programs": {nil, abOptions{mesh: []string{"envoy"}, programs: []string{"./old", "new"}}, experiment.OrderInterleaved, func(s *Study) bool {
			a, b := s.Meshes["envoy-a"].Local.Sidecar.Path, s.Meshes["envoy-b"].Local.Sidecar.Path
			return filepath.IsAbs(a) && filepath.Base(a) == "old" && b == "new"
		}},
		"one program": {nil, abOptions{mesh: []string{"envoy"}, programs: []string{"./new"}}, experiment.OrderInterleaved, func(s *Study) bool {
			return s.Meshes["envoy-a"].Local.Sidecar.Path == "" && filepath.Base(s.Meshes["envoy-b"].Local.Sidecar.Path) == "new"
		}},
		"settings": {nil, abOptions{mesh: []string{"envoy"}, runOptions: runOptions{ExperimentOptions: ExperimentOptions{Set: []string{"a.options.accessLog=false", "b.options.accessLog=true", "b.concurrency=2"}}}},
			experiment.OrderInterleaved, func(s *Study) bool {
				a, b := s.Meshes["envoy-a"].Local.Sidecar, s.Meshes["envoy-b"].Local.Sidecar
				return a.Options["accessLog"].Default == "false" && b.Options["accessLog"].Default == "true" && b.Concurrency == 2 && a.Concurrency != 2
			}},
		"a file": {[]string{"../../examples/standard-weight.yaml"}, abOptions{a: "mesh=reference", b: "mesh=reference-500us"}, experiment.OrderInterleaved, func(s *Study) bool {
			return s.Experiment.Baseline["mesh"] == "reference" && s.Plan.Treatments[2].Factors["mesh"] == "reference-500us"
		}},
		"two versions": {nil, abOptions{mesh: []string{"istio"}, versions: []string{"1.29.2", "1.30.4"}, maxTime: 2 * time.Hour}, experiment.OrderInterleaved, func(s *Study) bool {
			a, b := s.Experiment.MeshSettings("istio-a"), s.Experiment.MeshSettings("istio-b")
			return s.Experiment.Platform.Kind == mesh.OnKubernetes && a.Version == "1.29.2" && b.Version == "1.30.4" && a.From == "istio"
		}},
		"two option sets on a cluster": {nil, abOptions{mesh: []string{"istio"}, maxTime: 2 * time.Hour, runOptions: runOptions{ExperimentOptions: ExperimentOptions{Set: []string{"b.options.mtls=PERMISSIVE"}}}},
			experiment.OrderInterleaved, func(s *Study) bool { return s.Experiment.MeshSettings("istio-b").Options["mtls"] == "PERMISSIVE" }},
		"a quarter of an hour on a cluster": {nil, abOptions{mesh: []string{"istio"}, maxTime: 15 * time.Minute, runOptions: runOptions{ExperimentOptions: ExperimentOptions{Set: []string{"b.options.accessLog=true"}}}},
			experiment.OrderInterleaved, func(s *Study) bool { // slices that a busy node reads in time, also after the pilot
				return s.Experiment.ByNodeAgent() && s.Plan.Slices.Length == 500*time.Millisecond && s.Plan.Slices.Measure == 20
			}},
		"a mesh without revisions": {nil, abOptions{mesh: []string{"linkerd"}, maxTime: 2 * time.Hour, runOptions: runOptions{ExperimentOptions: ExperimentOptions{Set: []string{"b.profile=ha"}}}},
			experiment.OrderByMesh, func(s *Study) bool { return s.Experiment.ByNodeAgent() }},
		"a cluster that is in use": {nil, abOptions{mesh: []string{"istio"}, maxTime: 2 * time.Hour, runOptions: runOptions{ExperimentOptions: ExperimentOptions{Set: []string{"b.options.accessLog=true", "platform.inUse=allow"}}}},
			experiment.OrderByMesh, func(s *Study) bool { return s.Experiment.Platform.Meter == "" }},
	} {
		c.o.app, c.o.rate, c.o.maxTime = "echo", "1000", cmp.Or(c.o.maxTime, 10*time.Minute)
		s, err := abCommand{testLine(t, nil)}.study(c.args, c.o)
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
		if !c.check(s) || s.Experiment.Order != c.order || len(s.Plan.Treatments) != 3 || planned != 2 || s.Plan.Expected > c.o.maxTime || s.Plan.Blocks < experiment.DecideFrom() {
			t.Errorf("%s: order %s, %d treatments, %d blocks in %v: %+v", name, s.Experiment.Order, len(s.Plan.Treatments), s.Plan.Blocks, s.Plan.Expected, s.Experiment.Meshes)
		}
		if d := s.Experiment.Decide; len(d.Gates) != 1 || d.Gates[0] != defaultGate || time.Duration(d.Within) != c.o.maxTime {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// Blocks fill the time, where a mesh is not installed in each of them too.
func TestABFillsItsTime(t *testing.T) {
	c := abCommand{testLine(t, nil)}
	o := abOptions{app: "echo", rate: "1000", maxTime: time.Hour, runOptions: runOptions{ExperimentOptions: ExperimentOptions{Set: []string{"b.profile=ha", "seed=1"}}}}
	o.mesh = []string{"linkerd"}
	s, err := c.study(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	if s.Plan.MeshChanges == 0 || s.Plan.Blocks >= stats.MaxLooks {
		t.Fatalf("%d changes of the mesh, %d blocks: the test needs other settings", s.Plan.MeshChanges, s.Plan.Blocks)
	}
	o.gates, o.fixed = []string{defaultGate}, []string{"order=by-mesh"}
	more, err := c.fromFlags(o, s.Plan.Blocks+2)
	if err != nil || s.Plan.Expected > o.maxTime || more.Plan.Expected <= o.maxTime {
		t.Errorf("%v: %d blocks take %v, two more take %v", err, s.Plan.Blocks, s.Plan.Expected, more.Plan.Expected)
	}
}

// Of the random orders the one with the fewest installations is run. Without installations the first one is.
func TestABOrderWithFewestInstallations(t *testing.T) {
	drawn := 0
	of := func(changes ...int) func() (*Study, error) {
		drawn = 0
		return func() (*Study, error) {
			drawn++
			return &Study{Drawn: true, Plan: &plan.Plan{Seed: uint64(drawn), MeshChanges: changes[(drawn-1)%len(changes)]}}, nil
		}
	}
	if s, err := fewestChanges(of(14, 16, 10, 12)); err != nil || s.Plan.Seed != 3 || drawn != seedsTried {
		t.Errorf("seed %d of %d, %v", s.Plan.Seed, drawn, err)
	}
	if s, err := fewestChanges(of(0)); err != nil || s.Plan.Seed != 1 || drawn != 1 {
		t.Errorf("without installations: seed %d of %d, %v", s.Plan.Seed, drawn, err)
	}
}

// A file is read for each random order and number of blocks, and its notes are printed once.
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
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var notes bytes.Buffer
	if _, err := (abCommand{testLine(t, &notes)}).study([]string{file}, abOptions{a: "mesh=reference", b: "mesh=envoy", maxTime: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(notes.String()), "\n"); len(lines) != 2 || !strings.Contains(lines[0], "Cookie") || !strings.Contains(lines[1], "has no order: interleaved") {
		t.Errorf("%d notes:\n%s", len(lines), &notes)
	}
}

// git bisect run: 0 is good, 1 to 127 but 125 bad, 125 skips, above 127 ends.
func TestBisectExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{&console.ExitError{Code: console.Gate}, 1},
		{&console.ExitError{Code: console.Undecided}, 125},
		{errors.New("the program does not start"), 125},
		{fmt.Errorf("wrapped: %w", &console.ExitError{Code: console.Incomplete}), 125},
		{hint.Usage(errors.New("x"), ""), 255},
	} {
		if got := console.Exit(new(bytes.Buffer), "tare", forBisect(true, c.err)); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
	if err := forBisect(false, &console.ExitError{Code: console.Undecided}); console.Exit(new(bytes.Buffer), "tare", err) != console.Undecided {
		t.Error("the code changes without --bisect")
	}
}
