package cli

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/must"
)

// Logs and configurations of programs are the user's own, whatever writes to the results directory: a run, its resumption, a
// signature, a report.
func TestProvenanceIsPrivate(t *testing.T) {
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	t.Parallel()
	bin := filepath.Join(programs(t), "tare")
	dir := t.TempDir()
	results := filepath.Join(dir, "results")
	tare := func(want int, args ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), bin, args...).CombinedOutput()
		if err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		code := console.Done
		if exit := new(*exec.ExitError); errors.As(err, exit) {
			code = (*exit).ExitCode()
		}
		if code != want && code != console.Incomplete { // on a busy machine
			t.Fatalf("tare %q: exit code %d\n%s", args, code, out)
		}
	}
	private := func(after string) {
		t.Helper()
		n := 0
		must.OK(t, filepath.WalkDir(results, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || !strings.Contains(path, "/provenance/") {
				return err
			}
			n++
			if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("after %s: %s has mode %v: %v", after, path, info.Mode(), err)
			}
			return nil
		}))
		if n < 4 {
			t.Errorf("after %s: %d files of provenance", after, n)
		}
	}
	run := exec.CommandContext(t.Context(), bin, "run", "../../examples/quickstart.yaml", "--plain", "--out", results, "--set", "factors.mesh=[none]", "--set", "control=false",
		"--set", "order=random", "--set", "blocks=2", "--set", "phases={warmup: 100ms, measure: 1s, drain: 100ms}", "--set", "factors.rate=[50]")
	must.OK(t, run.Start())
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	for recorded := 0; recorded == 0; {
		select {
		case err := <-ended:
			t.Fatalf("the run ended without a record: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		found, _ := filepath.Glob(filepath.Join(results, "trials", "*", "record.json"))
		recorded = len(found)
	}
	must.OK(t, run.Process.Signal(os.Interrupt))
	<-ended
	private("run")
	tare(console.Done, "run", "--resume", results, "--plain")
	private("run --resume")
	for _, format := range []string{"html", "json"} {
		tare(console.Done, "report", results, "--format", format, "-o", filepath.Join(dir, "report."+format))
	}
	private("report")
}
