package runner_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/verify"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

const killText = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: killed}
factors: {mesh: [none], rate: [100, 200]}
blocks: 3
`

// killRoundText has two rounds of three trials, about three seconds each.
const killRoundText = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: killed}
factors: {mesh: [none, envoy], rate: [100]}
order: interleaved
slices: {length: 20ms}
control: true
phases: {warmup: 100ms, measure: 1s}
blocks: 2
`

const (
	dirEnv  = "TARE_RUNNER_TEST_DIR"
	textEnv = "TARE_RUNNER_TEST_EXPERIMENT"
)

// tareToBeKilled runs or resumes a plan over the fake platform. It prints a line per event.
func tareToBeKilled(_ io.Reader, out io.Writer) error {
	text := os.Getenv(textEnv)
	x, err := experiment.Parse("killed.yaml", []byte(text), experiment.Names{Meshes: []string{"none", "envoy"}, Generators: []string{"tare"}, Platforms: []string{"local"}})
	if err != nil {
		return err
	}
	p, err := plan.Expand(x)
	if err != nil {
		return err
	}
	topology, err := x.Topology()
	if err != nil {
		return err
	}
	quick(x)
	if p.Slices == nil {
		x.Phases.Warmup, x.Phases.Measure = experiment.Duration(20*time.Millisecond), experiment.Duration(60*time.Millisecond)
	}
	meters, err := meter.NewLocal()
	if err != nil {
		return err
	}
	path := os.Getenv(dirEnv)
	dir, err := result.Resume(path, []byte(text), meter.Host())
	if err != nil {
		if _, statErr := os.Stat(filepath.Join(path, result.PlanFile)); statErr == nil {
			return err
		}
		if err := os.RemoveAll(path); err != nil { // as the hint describes
			return err
		}
		if dir, err = result.Create(path, []byte(text), p, meter.Host()); err != nil {
			return err
		}
	}
	defer dir.Close()
	sink := &events{on: func(e result.Event) { fmt.Fprintln(out, e.Kind, e.Phase) }}
	_, err = runner.Run(context.Background(), runner.Config{
		Experiment: x, Topology: topology, Meshes: map[string]mesh.Definition{"none": {Name: "none"}, "envoy": {Name: "envoy"}},
		Platform: platform.Platform{Deployer: &fake{}}, Generators: map[string]generator.Generator{"tare": fakeGenerator{}}, Meter: meters, Dir: dir, Sinks: []result.Sink{sink}, Timing: quickTiming,
	})
	return err
}

// kill -9 at any moment loses at most the current trial. The directory opens, has
// complete records only, earlier records are unchanged, and the run resumes.
func TestKill9(t *testing.T) {
	t.Parallel()
	at := filepath.Join(t.TempDir(), "run")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kept := map[string][]byte{}
	for round := range 6 {
		after := random.IntN(30) // events, then a moment more
		runAndKill(t, tareProcess(at, killText), after, time.Duration(random.Int64N(int64(60*time.Millisecond))))
		kept = wholeRecords(t, at, kept)
		t.Logf("round %d, killed after %d events: %d trials recorded", round, after, len(kept))
	}
	resumeAll(t, at, killText, kept)
}

// resumeAll ends the run, which then has six records.
func resumeAll(t *testing.T, at, text string, kept map[string][]byte) {
	t.Helper()
	if out, err := tareProcess(at, text).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if kept = wholeRecords(t, at, kept); len(kept) != 6 {
		t.Errorf("%d trials recorded in the end", len(kept))
	}
	found := must.Get(verify.Dir(at, verify.Options{Expand: func(string) (*plan.Plan, error) {
		_, p, _ := decode(t, text)
		return p, nil
	}}))(t)
	for _, f := range found.Findings {
		// The fake load ignores slices, so its counts contradict them.
		fake := text == killRoundText && (strings.HasPrefix(f.Message, "load.intended") || path.Base(f.File) == result.SlicesFile)
		if f.Severity == verify.Problem && !fake {
			t.Errorf("verify: %+v", f)
		}
	}
}

// A kill -9 within a round loses that round at most. Earlier records are unchanged, and the rest is run.
func TestKill9InARound(t *testing.T) {
	if testing.Short() {
		t.Skip("runs rounds for about 20 s")
	}
	t.Parallel()
	at := filepath.Join(t.TempDir(), "run")
	kept := map[string][]byte{}
	// The first kill is in the measure phase of the first round, the second in its record phase, the third
	// in the second round.
	for _, until := range []string{"sample", "done", "trial"} {
		cmd := tareProcess(at, killRoundText)
		killAt(t, cmd, until)
		kept = wholeRecords(t, at, kept)
		t.Logf("killed after the event %q: %d trials recorded", until, len(kept))
		switch n := len(kept); {
		case until == "sample" && n != 0, until == "done" && (n < 1 || n > 3), until == "trial" && (n < 1 || n > 3):
			t.Errorf("%d trials recorded after the event %q", n, until)
		}
	}
	resumeAll(t, at, killRoundText, kept)
}

// killAt kills a run when it prints an event of a kind.
func killAt(t *testing.T, cmd *exec.Cmd, kind string) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.OK(t, err)
	at := ""
	for lines := bufio.NewScanner(out); at != kind && lines.Scan(); {
		at, _, _ = strings.Cut(lines.Text(), " ")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if at != kind {
		t.Fatalf("the run ended before the event %q:\n%s", kind, &stderr)
	}
}

// tareProcess has no parent-death signal: the kernel sends it when the thread that forked ends, and rounds of
// parallel tests end theirs.
func tareProcess(path, text string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"=tare", dirEnv+"="+path, textEnv+"="+text, noExitSleep)
	return cmd
}

func runAndKill(t *testing.T, cmd *exec.Cmd, after int, more time.Duration) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for range after {
		if !lines.Scan() {
			break
		}
	}
	time.Sleep(more) // the moment is to be any
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if stderr.Len() > 0 {
		t.Errorf("it complained: %s", stderr.String())
	}
}

// wholeRecords reads the directory as a report would and returns every record's bytes.
func wholeRecords(t *testing.T, path string, before map[string][]byte) map[string][]byte {
	t.Helper()
	if _, err := os.Stat(filepath.Join(path, result.PlanFile)); err != nil && len(before) == 0 {
		return before // killed before it began
	}
	d := must.Get(result.Open(path))(t)
	records := must.Get(d.Records())(t)
	now := map[string][]byte{}
	for _, r := range records {
		if bad := unfit(r); r.Error != "" {
			t.Errorf("record %s: %+v %s", r.ID, r.Warnings, r.Error)
		} else if d := difftest.Wrong("r.Load == nil", r.Load == nil, "len(bad) > 0", len(bad) > 0, "!r.Valid && len(r.Warnings) == 0", !r.Valid && len(r.Warnings) == 0); d != "" {
			t.Errorf("%s: record %s: %+v %s", d, r.ID, r.Warnings, r.Error)
		}
		last := ""
		for e, err := range d.Events(r.ID) {
			if err != nil {
				t.Error(err)
			}
			last = e.Kind
		}
		if last != result.KindDone {
			t.Errorf("events of %s end with %q", r.ID, last)
		}
		now[r.ID] = must.Get(os.ReadFile(d.TrialFile(r.ID, result.RecordFile)))(t)
	}
	for id, b := range before {
		if !bytes.Equal(now[id], b) {
			t.Errorf("record %s has changed", id)
		}
	}
	return now
}
