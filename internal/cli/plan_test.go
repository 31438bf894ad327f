package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/test/must"
)

// testLine is a command line without Kubernetes. It writes to out; nil discards.
func testLine(t *testing.T, out io.Writer) *CommandLine {
	t.Helper()
	if out == nil {
		out = io.Discard
	}
	c := New(console.Console{In: strings.NewReader(""), Out: out, Err: out}, nil)
	c.kill = t.Context()
	return c
}

// call runs one command as main does, without its root.
func call(t *testing.T, newCommand func(*CommandLine) *cobra.Command, args ...string) (stdout string, err error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newCommand(testLine(t, &out))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err = cmd.Execute()
	return out.String(), err
}

func TestPlanText(t *testing.T) {
	got := must.Get(call(t, newPlanCommand, "../../examples/quickstart.yaml", "--set", "blocks=2", "--set", "seed=1", "--format", "trials"))(t)
	want, err := os.ReadFile("testdata/plan-quickstart.golden")
	if err != nil || got != string(want) {
		t.Errorf("%v: got\n%swant\n%s", err, got, want)
	}
}

// A program may be loaded before each block, which the estimate is without. A program measured cold is not.
func TestPlanHasTheTimeOfPrewarming(t *testing.T) {
	dir := t.TempDir()
	file := must.File(t, dir, "warm.yaml", "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: warm}\napplication: {command: [sleep, '{port}']}\n"+
		"factors: {mesh: [none, envoy], rate: [100], connections: [4]}\nblocks: 5\nbaseline: {mesh: none}\norder: interleaved\n")
	for set, want := range map[string]bool{"seed=1": true, "phases.prewarm=0s": false} {
		got := must.Get(call(t, newPlanCommand, file, "--set", set))(t)
		if strings.Contains(got, "at most 10 min more if the CPU of a request falls") != want {
			t.Errorf("%s: %s", set, got)
		}
	}
}

// A plan has the faults, changes and expectations of each trial.
func TestPlanOfTimelines(t *testing.T) {
	for file, want := range map[string][]string{
		"fault-drain":  {"from the start of the measure phase of 1m40s", "10s scale by -1 server, the first replica at the end 9 times, every 10s", "success_ratio >= 0.999", "status(5xx) == 0"},
		"route-change": {"changes in each trial, one every"},
	} {
		got := must.Get(call(t, newPlanCommand, "../../examples/"+file+".yaml", "--set", "seed=1"))(t)
		for _, w := range want {
			if text := strings.Join(strings.Fields(got), " "); !strings.Contains(text, w) {
				t.Errorf("%s lacks %q:\n%s", file, w, got)
			}
		}
	}
	got, err := call(t, newPlanCommand, "../../examples/quickstart.yaml", "--set", "order=balanced", "--set", `faults=[{kind: errors, at: 1s, for: 500ms, ratio: 0.5, status: 503, target: {replica: 0}}, {kind: kill, at: 1s, target: {plane: data, pick: all}}, {kind: pause, at: 1s, target: {plane: control}}]`)
	for _, w := range []string{"1s errors ratio 0.5 status 503 the entry, replica 0 after 500ms -", "1s kill sidecar of the entry, all replicas at the end -", "1s pause control plane at the end -"} {
		if text := strings.Join(strings.Fields(got), " "); err != nil || !strings.Contains(text, w) {
			t.Errorf("%v, the plan lacks %q:\n%s", err, w, got)
		}
	}
}

// A file without a seed gets a fresh one, and the printed settings repeat its plan.
func TestPlanDrawsASeed(t *testing.T) {
	const file = "../../examples/meshes-local.yaml"
	seen := map[string]bool{}
	var first string
	for range 5 {
		got, err := call(t, newPlanCommand, file)
		if err != nil || !strings.Contains(got, "order interleaved") {
			t.Fatalf("%v\n%s", err, got)
		}
		_, seed, _ := strings.Cut(got, "(random; repeat this plan with ")
		seed, _, _ = strings.Cut(seed, ")")
		seen[seed], first = true, got
		again, err := call(t, newPlanCommand, append([]string{file}, strings.Fields(seed)...)...)
		if _, trials, _ := strings.Cut(got, "\n"); err != nil || !strings.HasSuffix(again, trials) || strings.Contains(again, "(random;") {
			t.Errorf("%v: %s gives\n%swant\n%s", err, seed, again, got)
		}
	}
	if len(seen) < 4 {
		t.Errorf("five plans have %d seeds: %s", len(seen), first)
	}
}

// Levels of a sweep that no outcome could show are named before the run, with the blocks needed.
func TestPlanOfTooFewBlocks(t *testing.T) {
	sweep := []string{"../../examples/quickstart.yaml", "--set", "factors.rate=[100, 200, 300, 400, 500]"}
	got, err := call(t, newPlanCommand, append(sweep, "--set", "blocks=3")...)
	must.OK(t, err)
	must.Contain(t, got, "too few blocks for 40 comparisons, even of ten standard deviations: 4 needed\n")
	got, err = call(t, newPlanCommand, append(sweep, "--set", "blocks=4")...)
	if err != nil || strings.Contains(got, "too few") {
		t.Errorf("%v\n%.300s", err, got)
	}
}

// A plan shows the load's target when it is not the entry.
func TestPlanSaysTheWayOfTheLoad(t *testing.T) {
	for want, set := range map[string]string{"either is a service of type nodeport": "seed=1", "either is a service of type loadbalancer": "platform.expose=loadBalancer"} {
		got, err := call(t, newPlanCommand, "../../examples/gateway-kubernetes.yaml", "--set", set)
		if err != nil || !strings.Contains(strings.ToLower(got), want) {
			t.Errorf("%s: %v, %q is not in\n%s", set, err, want, got)
		}
	}
}

func TestPlanJSON(t *testing.T) {
	got := must.Get(call(t, newPlanCommand, "../../examples/quickstart.yaml", "--format", "json"))(t)
	var p plan.Plan
	must.OK(t, json.Unmarshal([]byte(got), &p))
	if p.Schema != plan.Schema || len(p.Trials) != 24 || p.Expected <= 0 {
		t.Errorf("got %+v", p)
	}
}

func TestPlanNamesEveryMistakeWithItsHint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.yaml")
	text := "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\nfactors: {mesh: [none, envoi]}\nblocks: -1\n"
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	_, err := call(t, newPlanCommand, file)
	var stderr bytes.Buffer
	if code := console.Exit(&stderr, "tare", err); code != console.BadUsage {
		t.Errorf("exit code %d, want %d", code, console.BadUsage)
	}
	want := `tare: bad.yaml:4:24: factors.mesh[1]: unknown mesh "envoi"
hint: did you mean envoy?
tare: bad.yaml:5:9: blocks: -1 is not between 1 and 10000
hint: a block runs every treatment once; intervals need 6 or more
`
	if got := strings.ReplaceAll(stderr.String(), filepath.Dir(file)+"/", ""); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestPlanRefusesAnUnknownFormat(t *testing.T) {
	_, err := call(t, newPlanCommand, "../../examples/quickstart.yaml", "--format", "xml")
	var usage *hint.UsageError
	if !errors.As(err, &usage) {
		t.Errorf("error %v", err)
	}
}

func TestSchemaIsJSON(t *testing.T) {
	got, err := call(t, newSchemaCommand)
	if err != nil || !json.Valid([]byte(got)) {
		t.Errorf("%v: %.200s", err, got)
	}
}

// The plan prints the search before each trial, and counts its time.
func TestPlanPrintsSearch(t *testing.T) {
	var out strings.Builder
	s := must.Get(testLine(t, &out).Read(t.Context(), "../../examples/capacity.yaml", ExperimentOptions{}))(t)
	must.OK(t, writePlanText(&out, s, false))
	search := s.Plan.Treatments[0].Levels.Capacity.SearchTime()
	must.Contain(t, out.String(), fmt.Sprintf("%v of each trial search for the highest rate that meets p99 < 50ms, errors < 0.1%%: 12 probes of 2s; the measure phase has 60%% of that rate\n", experiment.Duration(search.Round(time.Second))),
		"not interleaved: each treatment has a highest rate of its own", "max with p99 < 50ms, errors < 0.1%")
	if s.Plan.TrialTime < search+14*time.Second {
		t.Errorf("a trial takes %v, its search %v", s.Plan.TrialTime, search)
	}
}

// Names of meshes become the factor, and files stay definitions.
func TestMeshesByName(t *testing.T) {
	o := ExperimentOptions{session.Options{Set: []string{"blocks=1"}, Meshes: []string{"istio", "./mine.yaml", "none", "istio", "linkerd"}}}
	o.ChooseMeshes()
	if want := []string{"blocks=1", "factors.mesh=[none, istio, linkerd]"}; !slices.Equal(o.Set, want) || !slices.Equal(o.Meshes, []string{"./mine.yaml"}) {
		t.Errorf("%+v", o)
	}
	if o.ChooseMeshes(); len(o.Set) != 2 {
		t.Errorf("%+v", o)
	}
}

// setting are options that override fields of a file.
func setting(fields ...string) ExperimentOptions {
	return ExperimentOptions{session.Options{Set: fields}}
}

// The name of an example stands for its embedded file, where no file has that name.
func TestPlanOfExample(t *testing.T) {
	want, err := call(t, newPlanCommand, "../../examples/quickstart.yaml", "--set", "seed=1")
	must.OK(t, err)
	t.Chdir(t.TempDir())
	if got, err := call(t, newPlanCommand, "quickstart", "--set", "seed=1"); err != nil || got != want {
		t.Errorf("the example: %v\n%s", err, got)
	}
	for name, want := range map[string]string{"quickstrat": "did you mean the example `quickstart`?", "examples/quickstrat.yaml": "did you mean the example `quickstart`?", "unlikeanyexample": "tare list examples"} {
		_, err = call(t, newPlanCommand, name)
		if err == nil || !strings.Contains(hint.Of(err), want) || strings.Contains(hint.Of(err), "prices") {
			t.Errorf("an unknown name: %v, hint %q", err, hint.Of(err))
		}
	}
	must.OK(t, os.WriteFile("quickstart", []byte("kind: Other"), 0o644))
	if _, err := call(t, newPlanCommand, "quickstart"); err == nil {
		t.Error("the example was read in place of a file of its name")
	}
}

func TestVersionCommand(t *testing.T) {
	var command, flag bytes.Buffer
	New(console.Console{Out: &command, Err: &command}, nil).Run(t.Context(), []string{"version"})
	New(console.Console{Out: &flag, Err: &flag}, nil).Run(t.Context(), []string{"--version"})
	if command.String() != flag.String() || !strings.HasPrefix(command.String(), "tare ") {
		t.Errorf("tare version: %q, tare --version: %q", &command, &flag)
	}
}
