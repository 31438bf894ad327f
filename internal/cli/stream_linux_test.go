package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
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

// outputs are calls of each command that prints to standard output and succeeds. RUN is a results directory, NEW a path that does
// not exist, and URL a server.
var outputs = map[string][]string{
	"tare": {""}, "tare version": {"version", "--version"}, "tare schema": {"schema"}, "tare completion": {"completion bash", "completion zsh"},
	"tare list":   {"list meshes", "list apps", "list metrics", "list options", "list generators", "list platforms", "list meters", "list faults"},
	"tare plan":   {"plan QUICKSTART", "plan --format json QUICKSTART", "plan --format trials QUICKSTART"},
	"tare report": {"report RUN", "report --all RUN", "report --format json RUN", "report --format csv RUN", "report --format markdown RUN", "report --format html RUN", "report --format junit RUN"},
	"tare verify": {"verify RUN", "verify --format json RUN"}, "tare compare": {"compare RUN RUN", "compare --format json RUN RUN"},
	"tare import": {"import oha CSV --out NEW", "import oha CSV --report --out NEW"},
	"tare load":   {"load URL -n 4 -c 1"}, "tare run": {"run SMALL --plain --out NEW"},
	"tare doctor": {"doctor", "doctor --all"}, "tare weigh": {"weigh --help-all"},
}

// silent are the commands that are not called here, with the reason.
var silent = map[string]string{
	"tare ab":       "it prints the report of a run, as tare run does",
	"tare forecast": "it needs a run of several rates, and writes as tare report does",
	"tare size":     "it needs a run of several rates, and writes as tare report does",
	"tare plot":     "it writes a file, by tare-kube",
	"tare serve":    "it serves until it is ended",
	"tare services": "it needs a run under way",
	"tare watch":    "it prints to standard error",
}

// Output that cannot be written is a failure of every command: of its help, and of what it prints.
func TestFullOutput(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	t.Parallel()
	bin, run, dir := filepath.Join(programs(t), "tare"), results(t), t.TempDir()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer server.Close()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	words := map[string]string{
		"RUN": run, "URL": server.URL, "QUICKSTART": must.Get(filepath.Abs("../../examples/quickstart.yaml"))(t),
		"CSV":   file("a.csv", "request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status\n0.0,0,0,0,0.005,2,200\n1.0,0,0,0,0.005,2,200\n"),
		"SMALL": file("small.yaml", "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: small}\nfactors: {mesh: [none], rate: [20], connections: [1]}\nblocks: 1\nphases: {warmup: 200ms, measure: 1s, prewarm: 0s}\n"),
	}
	made := 0
	exit := func(call string, out io.Writer) (code int, stderr string) {
		args := strings.Fields(call)
		for i, word := range args {
			if made++; word == "NEW" {
				args[i] = filepath.Join(dir, fmt.Sprint("new", made))
			} else if is, ok := words[word]; ok {
				args[i] = is
			}
		}
		cmd := exec.Command(bin, args...)
		var text bytes.Buffer
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, &text
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode(), text.String()
	}
	full := func(call string) {
		t.Helper()
		out := must.Get(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
		defer out.Close()
		if code, stderr := exit(call, out); code != console.Failed || !strings.Contains(stderr, "no space left on device") {
			t.Errorf("tare %s: exit code %d, %s", call, code, stderr)
		}
	}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if path == "tare mesh" || path == "tare cluster" {
			return // tare-kube has them
		}
		calls, why := outputs[path], silent[path]
		if (calls == nil) == (why == "") {
			t.Errorf("%s is not in one of the tables outputs and silent", path)
		}
		for _, call := range calls {
			var text bytes.Buffer
			if code, stderr := exit(call, &text); code == console.Failed || code == console.BadUsage || text.Len() == 0 {
				t.Errorf("tare %s prints %d bytes: exit code %d, %s", call, text.Len(), code, stderr)
			}
			full(call)
		}
		full(strings.TrimPrefix(path+" --help", "tare "))
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(testLine(t, nil).Root())
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
