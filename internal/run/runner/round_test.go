package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

const fakeRoundText = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: fake}
factors: {mesh: [none, envoy], rate: [500]}
order: interleaved
control: true
blocks: 1
phases: {warmup: 100ms, measure: 1s}
`

// fakeRound is a run of one round of three short trials over f.
func fakeRound(t *testing.T, f *fake, mode string) (runner.Config, *events) {
	t.Helper()
	cfg, sink := fakeRun(t, fakeRoundText, f, mode)
	cfg.Meshes["envoy"] = mesh.Definition{Name: "envoy"}
	return cfg, sink
}

// failures are the errors of failed trials.
func failures(cfg runner.Config) (all []string) {
	records, err := cfg.Dir.Records()
	if err != nil {
		return []string{err.Error()}
	}
	for _, r := range records {
		if r.Error != "" {
			all = append(all, r.ID+": "+r.Error)
		}
	}
	return all
}

// The members of a round are deployed at once, and each has a record and slices of its own.
func TestRoundOfFakes(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]generator.Generator{"start known": fakeGenerator{}, "held": heldGenerator{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			roundOfFakes(t, g)
		})
	}
}

func roundOfFakes(t *testing.T, g generator.Generator) {
	most, f := 0, &fake{}
	f.verify = func() ([]check.Check, error) {
		f.mu.Lock()
		most = max(most, f.deployed-f.removed)
		f.mu.Unlock()
		return []check.Check{{Name: "answer", OK: true}}, nil
	}
	cfg, sink := fakeRound(t, f, "")
	cfg.Generators["tare"] = g
	records := ran(t, cfg, 3, 0)
	if most != 3 || f.deployed != 3 || f.removed != 3 {
		t.Errorf("%d at once, %d deployed, %d removed", most, f.deployed, f.removed)
	}
	owners := map[int]map[int]int{} // owners of each slice, by block
	for _, r := range records {
		rows := must.Get(result.ReadSlices(cfg.Dir.TrialFile(r.ID, result.SlicesFile)))(t)
		if len(rows) != 3*fakeSlices {
			t.Fatalf("%s has %d slices, want %d", r.ID, len(rows), 3*fakeSlices)
		}
		if owners[r.Block] == nil {
			owners[r.Block] = map[int]int{}
		}
		for i, s := range rows {
			if s.Own {
				owners[r.Block][s.Slice]++
			}
			if s.Slice != 3+i || s.End <= s.Begin {
				t.Errorf("%s: row %d is slice %d, from %v to %v", r.ID, i, s.Slice, s.Begin, s.End)
			}
		}
		if math.Abs(r.Load.MeasureSeconds-0.1*3*fakeSlices) > 1e-9 || r.Load.Slices == nil {
			t.Errorf("%s: measured for %v s, slices %+v", r.ID, r.Load.MeasureSeconds, r.Load.Slices)
		}
		for _, u := range r.Tasks {
			if u.Missing == "" && (u.IdleCPU == nil || u.End.CPU < u.Start.CPU) {
				t.Errorf("%s: task %s: %+v", r.ID, u.ID, u)
			}
		}
	}
	for block, of := range owners {
		for slice, n := range of {
			if n != 1 {
				t.Errorf("block %d: slice %d has %d owners", block, slice, n)
			}
		}
		if len(of) != 3*fakeSlices {
			t.Errorf("block %d: %d slices have an owner", block, len(of))
		}
	}
	kinds := map[string]int{}
	for _, e := range sink.list() {
		kinds[e.Kind]++
	}
	if kinds[result.KindSample] < 3 {
		t.Errorf("events %v", kinds)
	} else if d := difftest.Of("kinds[result.KindTrial]", kinds[result.KindTrial], 3, "kinds[result.KindPhase]", kinds[result.KindPhase], 3*7, "kinds[result.KindDone]", kinds[result.KindDone], 3); d != "" {
		t.Errorf("%s: events %v", d, kinds)
	}
	noLoadLeft(t, f)
}

// A generator that ends or hangs before it is ready fails its trial, and is not left behind.
func TestGeneratorThatIsNeverReady(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"dead": "no memory for connections", "hangs": "not ready after 500ms"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			cfg, _ := fakeRound(t, f, mode)
			cfg.Generators["tare"] = heldGenerator{fakeGenerator{mode}}
			if mode == "hangs" {
				cfg.Timing.Deploy = 500 * time.Millisecond
			}
			summary, err := runner.Run(context.Background(), cfg)
			if err != nil || summary.Failed != 3 || f.deployed != f.removed {
				t.Fatalf("%+v, %v, %d deployed, %d removed", summary, err, f.deployed, f.removed)
			}
			for _, failure := range failures(cfg) {
				must.Contain(t, failure, want)
			}
			noLoadLeft(t, f)
		})
	}
}

// meeting is a platform whose deployments wait for one another.
type meeting struct {
	platform.Deployer
	members int
	mu      sync.Mutex
	here    int
	all     chan struct{}
	limits  []time.Duration // of the deployments
}

func (p *meeting) Deploy(ctx context.Context, spec platform.Spec) (*platform.Deployment, error) {
	deadline, _ := ctx.Deadline()
	p.mu.Lock()
	p.limits = append(p.limits, time.Until(deadline))
	all := p.all
	if p.here++; p.here == p.members {
		p.here, p.all = 0, make(chan struct{})
		close(all)
	}
	p.mu.Unlock()
	select {
	case <-all:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return p.Deployer.Deploy(ctx, spec)
}

// A platform that declares it deploys the members of a round at the same time.
func TestRoundDeployedAtOnce(t *testing.T) {
	t.Parallel()
	cfg, _ := fakeRound(t, &fake{}, "")
	together := &meeting{Deployer: cfg.Platform.Deployer, members: 3, all: make(chan struct{})}
	cfg.Platform.Deployer = together
	cfg.Platform.DeploysAtOnce = true
	cfg.Timing.Deploy = time.Minute // one time, for all three
	ran(t, cfg, 3, 0)
	if l := together.limits; len(l) != 3 || slices.Max(l) > 3*time.Minute || slices.Min(l) <= 0 {
		t.Errorf("limits %v", l)
	}
}

// A member that cannot be deployed is recorded as failed, and the others of its round are measured.
func TestRoundWithoutOneMember(t *testing.T) {
	t.Parallel()
	n := 0
	f := &fake{deploy: func() error {
		if n++; n == 2 {
			return errors.New("port taken")
		}
		return nil
	}}
	cfg, _ := fakeRound(t, f, "")
	records := ran(t, cfg, 3, 1)
	for _, r := range records {
		switch {
		case r.Ordinal == 2 && !strings.Contains(r.Error, "port taken"):
			t.Errorf("error %q", r.Error)
		case r.Ordinal != 2 && r.Error != "":
			t.Errorf("%s: %s", r.ID, r.Error)
		case r.Ordinal != 2 && math.Abs(r.Load.MeasureSeconds-0.1*2*fakeSlices) > 1e-9:
			t.Errorf("two members shared %v s", r.Load.MeasureSeconds)
		}
	}
	if f.deployed != f.removed {
		t.Errorf("%d deployed, %d removed", f.deployed, f.removed)
	}
}

// An interrupt in any phase records the whole round or nothing of it, and removes everything. The
// rest can be done.
func TestInterruptedRound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		phase    string
		recorded int
	}{{"deploy", 0}, {"verify", 0}, {"settle", 0}, {"warm-up", 0}, {"measure", 0}, {"drain", 0}, {"record", 3}} {
		t.Run(c.phase, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			cfg, sink := fakeRun(t, strings.Replace(fakeRoundText, "blocks: 1", "blocks: 2", 1), f, "")
			cfg.Meshes["envoy"] = mesh.Definition{Name: "envoy"}
			ctx, cancel := context.WithCancelCause(context.Background())
			sink.on = func(e result.Event) {
				if e.Kind == result.KindPhase && e.Phase == c.phase {
					cancel(errors.New("interrupt signal"))
				}
			}
			summary, err := runner.Run(ctx, cfg)
			if interrupted, ok := errors.AsType[*runner.Interrupted](err); !ok || interrupted.Recorded != c.recorded || summary.Recorded != c.recorded {
				t.Fatalf("%v, %+v", err, summary)
			}
			if f.deployed != f.removed {
				t.Errorf("%d deployed, %d removed", f.deployed, f.removed)
			}
			noLoadLeft(t, f)
			if c.phase != "measure" && c.phase != "record" {
				return // the rest is as after the measure phase
			}
			sink.on = nil
			if summary, err = runner.Run(context.Background(), cfg); err != nil || summary.Earlier != c.recorded || summary.Recorded != 6-c.recorded {
				t.Errorf("resumed: %+v, %v", summary, err)
			}
		})
	}
}

// A trial whose round was recorded without it, as after a kill between two records, has a warning.
func TestIncompleteRound(t *testing.T) {
	t.Parallel()
	cfg, _ := fakeRound(t, &fake{}, "")
	path := cfg.Dir.Path()
	must.Get(runner.Run(context.Background(), cfg))(t)
	lost := cfg.Dir.Plan().Trials[1].ID
	must.OK(t, errors.Join(cfg.Dir.Close(), os.RemoveAll(filepath.Join(path, result.TrialsDir, lost))))
	var err error
	cfg.Dir = must.Get(result.Resume(path, []byte(fakeRoundText), meter.Host()))(t)
	if summary, err := runner.Run(context.Background(), cfg); err != nil || summary.Recorded != 1 {
		t.Fatalf("%+v, %v", summary, err)
	}
	records, err := cfg.Dir.Records()
	if err != nil || len(records) != 3 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for _, r := range records {
		has := slices.ContainsFunc(r.Warnings, func(w result.Warning) bool { return w.Code == "round-incomplete" })
		if has != (r.ID == lost) {
			t.Errorf("%s: warnings %+v", r.ID, r.Warnings)
		}
	}
}

const realRoundText = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: real}
factors:
  mesh: [none, envoy]
  rate: [300]
  connections: [4]
phases: {warmup: 500ms, measure: 2s, drain: 1s}
order: interleaved
control: true
blocks: 1
# The machine that tests may be busy with other things: this is no measurement.
validity: {rateShortfall: 0.2, errorRatio: 0.01, lateness: 500ms, unattributed: 0.2}
`

// A round with real processes and a real Envoy: each record has its own processes, its own requests,
// and their CPU.
func TestRealRound(t *testing.T) {
	text, meshed, seconds := realRoundText, true, 2.0
	if testing.Short() {
		t.Attr("short", "without Envoy")
		meshed, seconds = false, 1
		text = strings.NewReplacer("[none, envoy]", "[none]", "measure: 2s", "measure: 1s").Replace(text)
	}
	cfg, _, _, records := undisturbed(t, text)
	data := map[string]int64{}
	for _, r := range records {
		// All have one start, which came when the last generator was ready. A load that got it too late has another.
		if first := records[0].Load; r.Load != nil && first != nil && !shifted(r) && !shifted(records[0]) && r.Load.Start.Sub(first.Start).Abs() > time.Millisecond {
			t.Errorf("%s was measured from %v, %s from %v", r.ID, r.Load.Start, records[0].ID, first.Start)
		}
		if kept, err := os.ReadFile(cfg.Dir.TrialFile(r.ID, result.ProvenanceDir+"/load-profile.json")); err != nil || !strings.Contains(string(kept), `"start"`) || strings.Contains(string(kept), `"hold"`) {
			t.Errorf("%s: %v, profile %s", r.ID, err, kept)
		}
		for _, w := range r.Warnings {
			if w.Invalidates && w.Code != "slices-shifted" { // a busy machine
				t.Errorf("%s: %s: %s", r.ID, w.Code, w.Message)
			}
		}
		if r.Error != "" {
			t.Fatalf("%s: %s", r.ID, r.Error)
		}
		var tasks []string
		for _, u := range r.Tasks {
			tasks = append(tasks, u.ID)
			if u.Plane == "data" {
				data[r.Treatment] += u.End.CPU - u.Start.CPU
			}
		}
		want := []string{"tare", "echo-0/app", "load/load"}
		if r.Treatment == "envoy" {
			want = []string{"tare", "echo-0/sidecar", "echo-0/app", "load/sidecar", "load/load"}
		}
		if !sameIDs(tasks, want) {
			t.Errorf("%s has tasks %v, want %v", r.ID, tasks, want)
		}
		// All trials have the same schedule, and each about the same share of it.
		share := 300 * seconds * 0.9
		if math.Abs(float64(r.Load.Intended)-share) > 6*math.Sqrt(share) {
			t.Errorf("%s: %d requests intended, want about %.0f", r.ID, r.Load.Intended, share)
		}
		var sum result.Slice
		rows := must.Get(result.ReadSlices(filepath.Join(cfg.Dir.Path(), result.TrialsDir, r.ID, result.SlicesFile)))(t)
		for _, s := range rows {
			if s.Own {
				sum.SliceCount.Add(&s.SliceCount)
			}
		}
		log := must.Get(hdrlog.ReadFile(cfg.Dir.TrialFile(r.ID, result.LatencyFile), hdrlog.Window{From: r.Load.WarmupSeconds, To: r.Load.WarmupSeconds + r.Load.MeasureSeconds}, nil))(t)
		if ok := r.Load.Classes["2xx"]; log.Total("response.2xx") != ok || r.Load.Recorded != ok || ok == 0 {
			t.Errorf("%s: %d requests in the log of the measure window, %d recorded, %d counted", r.ID, log.Total("response.2xx"), r.Load.Recorded, ok)
		}
		if sum.Intended != r.Load.Intended || sum.OK != r.Load.Classes["2xx"] {
			t.Errorf("%s: slices have %d intended and %d ok, the record %d and %d", r.ID, sum.Intended, sum.OK, r.Load.Intended, r.Load.Classes["2xx"])
		}
	}
	if meshed && data["envoy"] <= 0 || data["none"] != 0 {
		t.Errorf("CPU of the data plane: %v", data)
	}
}

// shifted reports whether the load of a trial began after its slices, on a busy machine.
func shifted(r result.Record) bool {
	return slices.ContainsFunc(r.Warnings, func(w result.Warning) bool { return w.Code == "slices-shifted" })
}

// sameIDs ignores the order and descendants, which have a number at the end.
func sameIDs(got, want []string) bool {
	got = slices.DeleteFunc(slices.Clone(got), func(id string) bool { return strings.Count(id, "-") > 1 })
	slices.Sort(got)
	slices.Sort(want)
	return fmt.Sprint(got) == fmt.Sprint(want)
}
