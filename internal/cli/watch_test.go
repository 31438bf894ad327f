package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// A stored run is replayed as the lines that it printed.
func TestWatchReplays(t *testing.T) {
	s := answertest.Quickstart()
	s.Blocks, s.Warmup, s.Measure, s.Rate = 2, 1, 1, 50
	dir := filepath.Join(t.TempDir(), "run")
	must.OK(t, s.Write(t, dir).Close())
	watch := func(args ...string) (int, string) {
		var out, stderr bytes.Buffer
		code := New(console.Console{Out: &out, Err: &stderr}, nil).Run(t.Context(), append([]string{"watch"}, args...))
		return code, stderr.String()
	}
	code, text := watch(dir, "--speed", "0")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if code != console.Done || len(lines) != 11 {
		t.Errorf("exit code %d:\n%s", code, text)
	} else if d := difftest.Wrong(`!strings.HasPrefix(lines[0], "quickstart: 10 trials")`, !strings.HasPrefix(lines[0], "quickstart: 10 trials"), `!strings.HasPrefix(lines[10], "trial 10 of 10")`, !strings.HasPrefix(lines[10], "trial 10 of 10")); d != "" {
		t.Errorf("%s: exit code %d:\n%s", d, code, text)
	}
	if code, text := watch(dir, "--speed", "-1"); code != console.BadUsage {
		t.Errorf("exit code %d: %s", code, text)
	}
	if code, text := watch(t.TempDir()); code != console.Failed || !strings.Contains(text, "not a results directory") {
		t.Errorf("exit code %d: %s", code, text)
	}
}
