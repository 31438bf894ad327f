package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/debatetest"
	"github.com/tare-mesh/tare/test/must"
)

// Names of files and directories may be another's, as of an unpacked archive. No command passes on their terminal
// escapes and bidirectional controls, in results, notes and errors.
func TestHostileFileNames(t *testing.T) {
	const hostile = "x\x1b]0;owned\x07\u009b2J\u202eevil"
	base := filepath.Join(t.TempDir(), hostile)
	must.OK(t, os.Mkdir(base, 0o700))
	run, damaged, empty := filepath.Join(base, "run"), filepath.Join(base, "damaged"), filepath.Join(base, hostile)
	for _, dir := range []string{run, damaged} {
		must.OK(t, os.CopyFS(dir, os.DirFS(results(t))))
	}
	for name, text := range map[string]string{
		"bad.yaml": "kind: Experiment\n\u202e" + hostile[:1] + ": 1\n", "bad.json": "{", "bad.csv": "request-start,a\n", "damaged/" + hostile: "",
		"damaged/environment.json": "{}", "mesh.yaml": "name: [\n", "prices.yaml": "regions: [\n", "targets.json": "{\n",
	} {
		must.OK(t, os.WriteFile(filepath.Join(base, name), []byte(text), 0o600))
	}
	at := func(name string) string { return filepath.Join(base, name) }
	shown := 0
	check := func(args ...string) {
		t.Helper()
		var stdout, stderr strings.Builder
		code := New(console.Console{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, nil).Run(t.Context(), args)
		for stream, text := range map[string]string{"stdout": stdout.String(), "stderr": stderr.String()} {
			if printable.Text(text) != text {
				t.Errorf("tare %q, exit code %d: %s has controls:\n%.600q", args[0:min(2, len(args))], code, stream, text)
			}
			if strings.Contains(text, "evil") {
				shown++
			}
		}
	}
	for _, format := range []string{"text", "json", "md", "csv", "html", "nothing"} {
		check("report", run, "--format", format)
		check("report", damaged, "--format", format)
		check("compare", run, damaged, "--format", format)
		check("compare", run, run, "--format", format)
	}
	for _, args := range [][]string{
		{"report", empty}, {"report", run, run, "--format", "html"}, {"report", run, "--format", "html", "--output", at("bad.yaml/x")},
		{"report", run, "--cost", at("prices.yaml")}, {"report", run, "--attribution", at("prices.yaml")}, {"report", run, "--page"},
		{"verify", run}, {"verify", damaged}, {"verify", empty}, {"verify", run, "--format", "json"},
		{"plan", at("bad.yaml")}, {"plan", at("none.yaml")}, {"run", at("bad.yaml")}, {"run", "--resume", damaged}, {"run", "--resume", empty},
		{"plan", "../../examples/quickstart.yaml", "--mesh", at("mesh.yaml")}, {"watch", empty}, {"ab", "--from", damaged}, {"ab", "--from", run},
		{"import", "fortio", at("bad.json"), "--out", at("out")}, {"import", "oha", at("bad.csv"), "--out", at("out")}, {"import", "uds-core", base, "--out", at("out")},
		{"import", "fortio", at("bad.json"), "--out", run},
		{"load", "--targets", at("targets.json")}, {"load", "--data", "@" + at("none"), "http://127.0.0.1:1/"},
		{hostile}, {"report", "--" + hostile}, {"import", hostile, base, "--out", at("out")},
	} {
		check(args...)
	}
	debatetest.Sequence{Mesh: "linkerd", Rates: []int{60}}.Write(t, base)
	check("import", "great-sidecar-debate", at("linkerd"), "--report", "--out", at("imported")) // and the path of its page
	if _, err := os.Stat(at("imported/report.html")); err != nil {
		t.Error(err)
	}
	if shown < 39 {
		t.Errorf("%d outputs have the name: the test is vacuous", shown)
	}
}
