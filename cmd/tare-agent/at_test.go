package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

// asProgram makes the test binary tare-agent itself.
const asProgram = "TARE_AGENT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A copy of the program executes another program, not before the given time.
func TestCopyAndAt(t *testing.T) {
	t.Setenv(asProgram, "1")
	self := must.Get(os.Executable())(t)
	second := filepath.Join(t.TempDir(), "second")
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
