package cli

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/result"
)

// reader starts a command whose output goes to a pipe.
func reader(t *testing.T, cmd *exec.Cmd, streams ...*io.Writer) *os.File {
	t.Helper()
	out, in, err := os.Pipe()
	must.OK(t, err)
	for _, s := range streams {
		*s = in
	}
	must.OK(t, cmd.Start())
	must.OK(t, in.Close())
	return out
}

// `tare … | head` ends without a word.
func TestOutputWithoutReader(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	cmd := exec.Command(filepath.Join(programs(t), "tare"), "schema")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out := reader(t, cmd, &cmd.Stdout)
	must.OK(t, out.Close())
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != console.NoReader || stderr.Len() > 0 {
		t.Errorf("%v, %q", cmd.ProcessState, stderr.String())
	}
}

// Output that cannot be written is a failure of every command: of its help, and of what it prints without a run.
func TestFullOutput(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	bin, run := filepath.Join(programs(t), "tare"), results(t)
	quickstart, err := filepath.Abs("../../examples/quickstart.yaml")
	must.OK(t, err)
	jtl := filepath.Join(t.TempDir(), "a.jtl")
	must.OK(t, os.WriteFile(jtl, []byte("timeStamp,elapsed,label,responseCode,success\n1700000000000,5,a,200,true\n1700000001000,5,a,200,true\n"), 0o600))
	calls := [][]string{{"version"}, {"--version"}, {}, {"plan", quickstart}, {"plan", "--format", "json", quickstart}, {"schema"}, {"list", "meshes"}, {"list", "apps"}, {"list", "metrics"}, {"completion", "bash"},
		{"report", run}, {"report", "--format", "csv", run}, {"report", "--all", run}, {"verify", run}, {"verify", "--format", "json", run}, {"compare", run, run},
		{"import", "jmeter", jtl, "--out", filepath.Join(t.TempDir(), "o")}, {"import", "jmeter", jtl, "--report", "--out", filepath.Join(t.TempDir(), "o")}}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		calls = append(calls, append(strings.Fields(cmd.CommandPath())[1:], "--help"))
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(testLine(t, nil).Root())
	for _, args := range calls {
		full := must.Get(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
		cmd := exec.Command(bin, args...)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &stderr
		_ = cmd.Run()
		must.OK(t, full.Close())
		if cmd.ProcessState.ExitCode() != console.Failed {
			t.Errorf("tare %q: %v, %s", args, cmd.ProcessState, stderr.String())
		}
	}
}

// `tare run … 2>&1 | head`: the trial under way is removed, and records are kept.
func TestRunWithoutReader(t *testing.T) {
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	t.Parallel()
	bin, dir := programs(t), t.TempDir()
	file, run := filepath.Join(dir, "hung-up.yaml"), filepath.Join(dir, "run")
	must.OK(t, os.WriteFile(file, []byte(hungUp), 0o600))
	cmd := exec.Command(filepath.Join(bin, "tare"), "run", file, "--plain", "--out", run)
	out := reader(t, cmd, &cmd.Stdout, &cmd.Stderr)
	var text []byte
	for b := make([]byte, 1024); !bytes.Contains(text, []byte("trial  1 of 20")); {
		n, err := out.Read(b)
		if text = append(text, b[:n]...); err != nil {
			t.Fatalf("%v after %q", err, text)
		}
	}
	must.OK(t, out.Close())
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != console.NoReader {
		t.Errorf("%v, want exit code %d", cmd.ProcessState, console.NoReader)
	}
	if left := processesWith(t, dir); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
	d := must.Get(result.Open(run))(t)
	if records, err := d.Records(); err != nil || len(records) == 0 || len(records) == 20 {
		t.Errorf("%d records, %v", len(records), err)
	}
	if m, err := d.Own(); err != nil || m == nil {
		t.Errorf("the run has not closed its directory: %+v, %v", m, err)
	}
}
