package runner_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform/local"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/part"
	"github.com/tare-mesh/tare/test/programtest"
)

// The test binary plays other programs too: see roles.
const roleEnv = "TARE_RUNNER_TEST_ROLE"

var roles = map[string]func(io.Reader, io.Writer) error{
	"load": fakeLoad,
	"tare": tareToBeKilled,
}

// A low priority beside clusters misses their times: the race detector of make race alone has them.
var _ = part.Of("race", TestClockOfTheLoadWorker, TestEchoTrial, TestRealRound, TestRealTrials, TestWebSocketTrials)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if role, ok := roles[os.Getenv(roleEnv)]; ok {
		if err := role(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	dir, err := os.MkdirTemp("", "tare-runner-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Setenv("XDG_STATE_HOME", dir) // the list of started processes is this test's own
	os.Setenv("TMPDIR", dir)
	return part.M{M: m}.Run()
}

var agent = sync.OnceValues(func() (string, error) {
	return filepath.Join(os.TempDir(), "tare-agent"), programtest.Build(os.TempDir(), "tare-agent")
})

func decode(t *testing.T, text string) (*experiment.Experiment, *plan.Plan, app.Topology) {
	t.Helper()
	x := must.Get(experiment.Parse("test.yaml", []byte(text), experiment.Names{
		Meshes: mesh.Names(), Platforms: []string{"local"}}))(t)
	p := must.Get(plan.Expand(x))(t)
	topology := must.Get(x.Topology())(t)
	return x, p, topology
}

type events struct {
	mu  sync.Mutex
	all []result.Event
	on  func(result.Event)
}

func (s *events) Event(e result.Event) error {
	s.mu.Lock()
	s.all = append(s.all, e)
	s.mu.Unlock()
	if s.on != nil {
		s.on(e)
	}
	return nil
}

func (s *events) list() []result.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]result.Event(nil), s.all...)
}

func real(t *testing.T, text string) (runner.Config, *events) {
	t.Helper()
	path := must.Get(agent())(t)
	x, p, topology := decode(t, text)
	meters := must.Get(meter.NewLocal())(t)
	env := meter.Host()
	dir := must.Get(result.Create(filepath.Join(t.TempDir(), "run"), []byte(text), p, env))(t)
	t.Cleanup(func() { dir.Close() })
	meshes := map[string]mesh.Definition{}
	for _, m := range mesh.Builtin() {
		meshes[m.Name] = m
	}
	sink, generators := &events{}, byName()
	generators["tare"] = generator.Tare{Agent: path}
	return runner.Config{
		Experiment: x, Topology: topology, Meshes: meshes,
		Platform: local.New(local.Options{AgentPath: path, FetchProgram: func(ctx context.Context, name string) (string, string, error) {
			found, err := fetch.Find(ctx, name, fetch.Options{})
			return found.Path, found.Version, err
		}}).Declare(),
		Generators: generators, Meter: meters, Dir: dir, Sinks: []result.Sink{sink},
	}, sink
}

// ran runs all trials, checks the numbers of new and of failed ones unless they are -1, and returns all records.
func ran(t *testing.T, cfg runner.Config, recorded, failed int) []result.Record {
	t.Helper()
	summary := must.Get(runner.Run(t.Context(), cfg))(t)
	if recorded >= 0 && summary.Recorded != recorded || failed >= 0 && summary.Failed != failed {
		t.Fatalf("%+v, want %d recorded and %d failed: %q", summary, recorded, failed, failures(cfg))
	}
	return must.Get(cfg.Dir.Records())(t)
}

const realText = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: real}
factors:
  mesh: [none, envoy]
  rate: [300]
  connections: [4]
phases: {warmup: 500ms, measure: 1500ms, drain: 1s}
blocks: 1
# The machine that tests may be busy with other things: this is no measurement.
validity: {rateShortfall: 0.2, errorRatio: 0.01, lateness: 500ms, unattributed: 0.2}
`

// disturbed reports whether a busy machine made a trial invalid: it left a backlog of the warm-up, no answer in time, or
// too few without an error. Its readings may also be late by a tenth of the measure phase, or by slices.
func disturbed(r result.Record) bool {
	return slices.ContainsFunc(r.Warnings, func(w result.Warning) bool {
		return w.Code == "rate-exceeded" || w.Code == "slices-read-late" || w.Code == "readings-shifted" && w.Withholds || w.Code == "rate-missed" && (r.Load.Completed == 0 || len(r.Load.Errors) == 0 && r.Load.Classes[string(load.Status)] == 0)
	})
}

// undisturbed runs an experiment until no trial is disturbed, at most five times.
func undisturbed(t *testing.T, text string) (cfg runner.Config, sink *events, summary runner.Summary, records []result.Record) {
	t.Helper()
	for n := range 5 {
		cfg, sink = real(t, text)
		summary = must.Get(runner.Run(context.Background(), cfg))(t)
		records = must.Get(cfg.Dir.Records())(t)
		i := slices.IndexFunc(records, disturbed)
		if i < 0 {
			break
		}
		t.Logf("%s is disturbed: %+v, warnings %+v", records[i].ID, records[i].Load, records[i].Warnings)
		t.Attr("disturbed", fmt.Sprintf("run %d, trial %s", n+1, records[i].ID)) // the Makefile prints it
	}
	return cfg, sink, summary, records
}

// A whole run with real processes and a real Envoy: its records are consistent.
func TestRealTrials(t *testing.T) {
	text, trials := realText, 2
	if testing.Short() {
		t.Attr("short", "without Envoy")
		text, trials = strings.Replace(realText, "[none, envoy]", "[none]", 1), 1
	}
	cfg, sink, summary, records := undisturbed(t, text)
	if summary.Recorded != trials || summary.Failed != 0 || summary.Invalid != 0 {
		t.Errorf("%+v", summary)
	}
	for _, r := range records {
		t.Run(r.Treatment, func(t *testing.T) { soundRecord(t, cfg, r) })
	}
	if v := cfg.Dir.Environment().Versions["envoy"]; v == "" && trials == 2 {
		t.Error("the version of envoy is not kept")
	}
	kinds := map[string]int{}
	for _, e := range sink.list() {
		kinds[e.Kind]++
	}
	if d := difftest.Of("kinds[result.KindRun]", kinds[result.KindRun], 1, "kinds[result.KindTrial]", kinds[result.KindTrial], trials, "kinds[result.KindPhase]", kinds[result.KindPhase], 7*trials, "kinds[result.KindDone]", kinds[result.KindDone], trials, "kinds[result.KindEnd]", kinds[result.KindEnd], 1, "kinds[result.KindSample] < 2*trials", kinds[result.KindSample] < 2*trials, false, "kinds[result.KindProgress] < trials", kinds[result.KindProgress] < trials, false); d != "" {
		t.Errorf("%s: events %v", d, kinds)
	}
}

func soundRecord(t *testing.T, cfg runner.Config, r result.Record) {
	if !r.Valid || r.Error != "" {
		t.Fatalf("invalid: %s %+v", r.Error, r.Warnings)
	}
	for _, w := range r.Warnings {
		t.Logf("warning %s: %s", w.Code, w.Message)
	}
	var names []string
	for i, p := range r.Phases {
		names = append(names, p.Name)
		if p.End.Before(p.Start) || i > 0 && p.Start.Before(r.Phases[i-1].End) {
			t.Errorf("phase %+v", p)
		}
	}
	if got := strings.Join(names, " "); got != "deploy verify settle warm-up measure drain" {
		t.Errorf("phases %s", got) // the record is written before its own phase ends
	}
	if r.Load == nil {
		t.Fatalf("load %+v", r.Load)
	} else if d := difftest.Of("r.Load.Completed < 300", r.Load.Completed < 300, false, "r.Load.AskedRate", r.Load.AskedRate, 300, "r.Load.MeasureSeconds", r.Load.MeasureSeconds, 1.5, "r.Load.WarmupSeconds", r.Load.WarmupSeconds, 0.5); d != "" {
		t.Fatalf("%s: load %+v", d, r.Load)
	}
	planes := map[metric.Plane]int{}
	for _, u := range r.Tasks {
		planes[u.Plane]++
		wall := u.End.At.Sub(u.Start.At)
		if u.Missing != "" || wall < time.Second || wall > 4*time.Second { // 1.5 s, on a machine that may be busy
			t.Errorf("task %s: %q, %v between the edges", u.ID, u.Missing, wall)
		}
		if u.Start.At.Sub(r.Load.Start).Abs() > time.Second {
			t.Errorf("task %s read %v from the beginning of the generator's measure phase", u.ID, u.Start.At.Sub(r.Load.Start))
		}
		t.Logf("%-20s %-8s %12v, read %v and %v after the edges", u.ID, u.Plane, time.Duration(u.End.CPU-u.Start.CPU),
			u.Start.At.Sub(r.Load.Start), u.End.At.Sub(r.Load.End))
		if d := difftest.Wrong("u.End.RSS == 0", u.End.RSS == 0, "u.End.Peak == 0", u.End.Peak == 0, "u.End.PSS == nil", u.End.PSS == nil, "u.Start.PSS != nil", u.Start.PSS != nil); d != "" {
			t.Errorf("%s: memory of %s: %+v", d, u.ID, u.End)
		}
		if loaded := u.Plane == metric.App || u.Plane == metric.Data; loaded && (u.IdleRSS <= 0 || u.IdleRSS > u.End.Peak) || u.Plane == metric.Load && u.IdleRSS != 0 {
			t.Errorf("idle memory of %s: %+v", u.ID, u)
		}
		if u.Plane == metric.App && u.End.CPU-u.Start.CPU <= 0 {
			t.Errorf("%s served requests and used no CPU", u.ID)
		}
	}
	sidecars := 0
	if strings.Contains(r.Treatment, "envoy") {
		sidecars = 2
	}
	for plane, want := range map[metric.Plane]int{metric.App: 1, metric.Data: sidecars, metric.Load: 1, metric.Harness: 1} {
		if planes[plane] != want {
			t.Errorf("%d tasks of plane %s, want %d", planes[plane], plane, want)
		}
	}
	if len(r.Checks) == 0 || r.Edges != 1 || r.Node == nil {
		t.Errorf("checks %v, edges %d, node %+v", r.Checks, r.Edges, r.Node)
	} else if d := difftest.Wrong("r.Node.End.Busy <= r.Node.Start.Busy", r.Node.End.Busy <= r.Node.Start.Busy); d != "" {
		t.Errorf("%s: checks %v, edges %d, node %+v", d, r.Checks, r.Edges, r.Node)
	}
	for _, name := range []string{result.LatencyFile, result.ProvenanceDir + "/load-profile.json"} {
		if info, err := os.Stat(cfg.Dir.TrialFile(r.ID, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// tare's own generator loads a service that echoes bytes, also through a proxy that
// forwards connections.
func TestEchoTrial(t *testing.T) {
	t.Parallel()
	text := strings.Replace(realText, "mesh: [none, envoy]", "protocol: [tcp]\n  requestSize: [300B]\n  mesh: [none, envoy-tcp]", 1)
	if testing.Short() {
		t.Attr("short", "without Envoy")
		text = strings.Replace(text, "[none, envoy-tcp]", "[none]", 1)
	}
	cfg, _ := real(t, text)
	records := ran(t, cfg, -1, 0)
	for _, r := range records {
		if l := r.Load; l.Completed == 0 || l.Classes["2xx"] != l.Intended || l.BytesIn < 300*l.Completed {
			t.Errorf("%s: %+v", r.Treatment, l)
		}
	}
}

// An Envoy that ends at once: the trial fails with its output.
func TestEnvoyThatExits(t *testing.T) {
	cfg, sink := real(t, strings.Replace(realText, "mesh: [none, envoy]", "mesh: [envoy]", 1))
	broken := filepath.Join(t.TempDir(), "envoy")
	must.OK(t, os.WriteFile(broken, []byte("#!/bin/sh\necho 'cannot load the certificate' >&2\nexit 3\n"), 0o700))
	path, _ := agent()
	cfg.Platform = local.New(local.Options{AgentPath: path, FetchProgram: func(context.Context, string) (string, string, error) { return broken, "0", nil }}).Declare()
	summary := must.Get(runner.Run(context.Background(), cfg))(t)
	if summary.Recorded != 1 || summary.Failed != 1 {
		t.Errorf("%+v", summary)
	}
	records := must.Get(cfg.Dir.Records())(t)
	r := records[0]
	if r.Valid || !strings.Contains(r.Error, "cannot load the certificate") || !strings.Contains(r.Error, "exit status 3") {
		t.Errorf("%+v", r)
	}
	for _, e := range sink.list() {
		if e.Kind == result.KindError && e.Hint != "" {
			return
		}
	}
	t.Error("no event has the error with a hint")
}

// A generator that does not exist fails the trials, not the run.
func TestGeneratorThatIsMissing(t *testing.T) {
	cfg, _ := real(t, strings.Replace(realText, "mesh: [none, envoy]", "mesh: [none]", 1))
	cfg.Generators["tare"] = generator.Tare{Agent: filepath.Join(t.TempDir(), "gone")}
	must.Contain(t, ran(t, cfg, -1, 1)[0].Error, "gone")
}
