package cli

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// A service is changed from another terminal while a trial measures. The change is in the log, in the events and in the
// record of that trial, which is invalid. The next trial has the configuration of the file.
func TestServicesByHand(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	bin, dir := programs(t), filepath.Join(t.TempDir(), "run")
	file := filepath.Join(t.TempDir(), "services.yaml")
	must.OK(t, os.WriteFile(file, []byte(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: services}
application: {topology: chain-2}
factors: {mesh: [none], rate: [50], connections: [4]}
phases: {warmup: 1s, measure: 6s, drain: 1s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.9, rateShortfall: 0.9, generatorCPU: 1, lateness: 10s}
blocks: 2
`), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tare := func(args ...string) *exec.Cmd { return exec.CommandContext(ctx, filepath.Join(bin, "tare"), args...) }
	run := tare("run", file, "--plain", "--out", dir)
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	must.OK(t, run.Start())
	events := filepath.Join(dir, result.TrialsDir, "001-none-b1", result.EventsFile)
	await(t, ctx, "the measure phase", func() bool {
		b, _ := os.ReadFile(events)
		return bytes.Contains(b, []byte(`"phase":"measure"`))
	})
	listed, err := tare("services", dir).CombinedOutput()
	if text := string(listed); err != nil {
		t.Errorf("list: %v\n%s", err, text)
	} else if d := difftest.Wrong(`!strings.Contains(text, "001-none-b1")`, !strings.Contains(text, "001-none-b1"), `!strings.Contains(text, "front-0")`, !strings.Contains(text, "front-0"), "!strings.Contains(text, `\"name\":\"back\"`)", !strings.Contains(text, `"name":"back"`)); d != "" {
		t.Errorf("%s: list: %v\n%s", d, err, text)
	}
	const patch = `{"delay": "250ms"}`
	if made, err := tare("services", dir, "--target", "back", "--patch", patch).CombinedOutput(); err != nil || !strings.HasPrefix(string(made), "back-0 changed at ") {
		t.Errorf("change: %v\n%s", err, made)
	}
	for _, wrong := range []struct{ target, patch, want string }{
		{"absent", patch, "its replicas: front-0, back-0"},
		{"back", `{"delay"`, "the patch is not JSON"},
		{"back", `{"dealy": "1ms"}`, "dealy"},
	} {
		if text, err := tare("services", dir, "--target", wrong.target, "--patch", wrong.patch).CombinedOutput(); err == nil || !strings.Contains(string(text), wrong.want) {
			t.Errorf("change of %s to %s: %v\n%s", wrong.target, wrong.patch, err, text)
		}
	}
	_ = run.Wait()
	if code := run.ProcessState.ExitCode(); code != console.Done || !strings.Contains(out.String(), "back-0 changed by hand: "+patch) {
		t.Errorf("exit code %d\n%s", code, out.String())
	}
	if text, err := tare("services", dir).CombinedOutput(); err == nil || !strings.Contains(string(text), "no run of ") {
		t.Errorf("after the end: %v\n%s", err, text)
	}
	handled(t, dir, patch)
	if text, err := tare("report", dir).CombinedOutput(); err != nil || !strings.Contains(string(text), "001-none-b1 (changed by hand)") ||
		!strings.Contains(string(text), "Changed by hand: trial 001-none-b1") || !strings.Contains(string(text), "- {kind: latency, delay: 250ms, at: ") {
		t.Errorf("report: %v\n%s", err, text)
	}
	if page := must.Get(os.ReadFile(filepath.Join(dir, pageFile)))(t); !bytes.Contains(page, []byte("back-0 by hand")) {
		t.Error("the timeline of the page lacks the change")
	}
}

// handled checks the records of two trials, of which the first was changed.
func handled(t *testing.T, dir, patch string) {
	t.Helper()
	d := must.Get(result.Open(dir))(t)
	defer d.Close()
	all := must.Get(d.Records())(t)
	if len(all) != 2 || len(all[0].ByHand) != 1 {
		t.Fatalf("%+v", all)
	} else if d := difftest.Of("all[0].ByHand[0].Target", all[0].ByHand[0].Target, "back-0", "all[0].ByHand[0].Patch", all[0].ByHand[0].Patch, patch, "all[0].Valid", all[0].Valid, false); d != "" {
		t.Fatalf("%s: %+v", d, all)
	}
	if at, load := all[0].ByHand[0].At, all[0].Load; at.Before(load.Start) || at.After(load.End) {
		t.Errorf("the change at %v is outside the measure phase from %v to %v", at, load.Start, load.End)
	}
	if len(all[1].ByHand) != 0 || !all[1].Valid {
		t.Errorf("the second trial: %+v, %+v", all[1].ByHand, all[1].Warnings)
	}
}

// await polls a condition until ctx ends.
func await(t *testing.T, ctx context.Context, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited for %s in vain", what)
		}
	}
}
