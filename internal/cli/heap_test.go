package cli

import (
	"math"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
)

// GOGC and GOMEMLIMIT override tare's own settings.
func TestTheEnvironmentComesFirst(t *testing.T) {
	if os.Getenv("TARE_TEST_HEAP") != "" {
		collectLess()
		was := debug.SetGCPercent(100)
		most := debug.SetMemoryLimit(-1)
		t.Logf("percent %d, limited %t", was, most != math.MaxInt64)
		return
	}
	for set, want := range map[string]string{
		"NOTHING=1":        "percent 1000, limited true",
		"GOGC=50":          "percent 50, limited false",
		"GOMEMLIMIT=90MiB": "percent 100, limited true",
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTheEnvironmentComesFirst$", "-test.v")
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "GOGC=") && !strings.HasPrefix(v, "GOMEMLIMIT=") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		cmd.Env = append(cmd.Env, "TARE_TEST_HEAP=1", set)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s\nexpected %s", set, err, out, want)
		}
	}
}
