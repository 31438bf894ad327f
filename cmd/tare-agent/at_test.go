package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A copy of the program executes another program, not before the given time.
func TestCopyAndAt(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "tare-agent")
	if out, err := exec.Command("go", "build", "-o", self, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	second := filepath.Join(dir, "second")
	if out, err := exec.Command(self, "copy", second).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if info, err := os.Stat(second); err != nil || info.Mode().Perm() != 0o755 {
		t.Fatalf("%v, %v", info, err)
	}
	instant := time.Now().Add(700 * time.Millisecond)
	out, err := exec.Command(second, "at", instant.Format(time.RFC3339Nano), "--", "echo", "it", "is", "--time").CombinedOutput()
	if err != nil || string(out) != "it is --time\n" || time.Now().Before(instant) {
		t.Errorf("%q, %v, %v early", out, err, time.Until(instant))
	}
	if out, err := exec.Command(second, "at", "soon", "--", "echo").CombinedOutput(); err == nil || !strings.Contains(string(out), "no time") {
		t.Errorf("%q, %v", out, err)
	}
}
