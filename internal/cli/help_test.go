package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// The help has 18 lines, each command once in a group, and weigh's fits a terminal of 80 columns.
func TestHelpFits(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	for _, c := range []struct {
		args []string
		most int
	}{{[]string{"--help"}, 18}, {[]string{"weigh", "--help"}, 24}} {
		var out bytes.Buffer
		line := testLine(t, &out)
		root := line.Root()
		root.SetArgs(c.args)
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
		if len(lines) > c.most || slices.ContainsFunc(lines, func(s string) bool { return len([]rune(s)) > 80 }) {
			t.Errorf("%v: %d lines\n%s", c.args, len(lines), out.String())
		}
	}
	grouped := []string{"help"}
	for _, g := range commandGroups {
		grouped = append(grouped, g.commands...)
	}
	root := testLine(t, &bytes.Buffer{}).Root()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if !cmd.Hidden && !slices.Contains(grouped, cmd.Name()) {
			t.Errorf("%s is in no group of the help", cmd.Name())
		}
	}
	for _, name := range grouped[1:] {
		if cmd, _, err := root.Find([]string{name}); err != nil || cmd.Name() != name {
			t.Errorf("%s is no command", name)
		}
	}
}

// A shell completes examples, runs, meshes, and the metrics of gates.
func TestCompletion(t *testing.T) {
	t.Chdir(t.TempDir())
	run := filepath.Join(result.RunsDir, "mine-1")
	must.OK(t, os.MkdirAll(run, 0o755))
	must.OK(t, os.WriteFile(filepath.Join(run, result.PlanFile), nil, 0o644))
	for _, c := range [][]string{
		{"quickstart", "run", "quick"}, {"proxies", "plan", ""}, {run, "report", "runs/"}, {run, "compare", ""},
		{"nginx", "weigh", "--mesh", "ng"}, {"nginx", "weigh", "--gateway", ""}, {"cpu_us_per_request/total", "ab", "--gate", "cpu"}, {"rate", "compare", "--gate", "rat"},
	} {
		var out bytes.Buffer
		root := testLine(t, &out).Root()
		root.SetArgs(append([]string{"__complete"}, c[1:]...))
		must.OK(t, root.Execute())
		if got := strings.Split(out.String(), "\n"); !slices.Contains(got, c[0]) {
			t.Errorf("%q: %q", c[1:], got)
		}
	}
}
