//go:build linux

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A planted state directory is reported, and the run goes on.
func TestFailedSweepIsAWarning(t *testing.T) {
	tmp := t.TempDir()
	planted := filepath.Join(tmp, fmt.Sprintf("tare-%d", os.Getuid()))
	if err := os.Symlink(t.TempDir(), planted); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	var lines []string
	p := New(Options{AgentPath: agent, Report: func(line string) { lines = append(lines, line) }})
	if _, err := p.Prepare(t.Context(), nil); err != nil {
		t.Errorf("Prepare failed: %v", err)
	}
	if got := strings.Join(lines, "\n"); !strings.HasPrefix(got, "warning: ") || !strings.Contains(got, planted) || !strings.Contains(got, "remove it") {
		t.Errorf("reported %q", got)
	}
}
