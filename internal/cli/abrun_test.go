package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/must"
)

// Two builds of a proxy or a server, two settings and two levels of a file are measured and decided, and a replay decides the same.
func TestABRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("runs experiments")
	}
	t.Parallel()
	bin := programs(t)
	dir, python := plantedPrograms(t)
	server := filepath.Join(dir, "server.py")
	agent := filepath.Join(bin, "tare-agent")
	heavier := filepath.Join(dir, "heavier") // another build of the proxy
	must.OK(t, os.WriteFile(heavier, []byte(fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\" --burn 1ms\n", agent)), 0o755))
	for name, c := range map[string]struct {
		args []string
		want int
		word string
	}{
		"programs": {[]string{"--mesh", "reference", "--program", agent, "--program", heavier, "--rate", "200"}, console.Gate, "” is breached: "},
		"settings": {[]string{"--mesh", "reference", "--set", `b.environment={"BUILD": "2"}`, "--rate", "200", "--gate", "cpu_us_per_request/data < +60%"}, console.Done, "” holds: "},
		"file": {[]string{"../../examples/standard-weight.yaml", "--a", "mesh=reference", "--b", "mesh=reference-500us", "--set", "factors.rate=[200]",
			"--gate", "cpu_us_per_request/data < +10%"}, console.Gate, "” is breached: "},
		"builds":       {[]string{"--rate", "100", "--", python, server, "{port}", "--", python, server, "{port}", "500"}, console.Gate, "” is breached: "},
		"equal builds": {[]string{"--rate", "100", "--gate", "cpu_us_per_request/total < +60%", "--", python, server, "{port}", "--", python, server, "{port}", "0"}, console.Done, "” holds: "},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "programs" && name != "equal builds" && os.Getenv("TARE_TEST_ALL") == "" {
				t.Skip("decides as the other two do: make e2e-all runs it")
			}
			t.Parallel()
			out := filepath.Join(dir, "run-"+name)
			text, _, code := tareIn(t, "", append([]string{"ab", "--plain", "--max-time", "8m", "--out", out,
				"--set", "phases={warmup: 300ms, measure: 1s, drain: 500ms}", "--set", "validity={rateShortfall: 0.5, lateness: 5s}"}, c.args...)...)
			if code != c.want || !strings.Contains(text, c.word) {
				t.Errorf("exit code %d, want %d and %s:\n%s", code, c.want, c.word, text)
			}
			if again, _, code := tareIn(t, "", "ab", "--from", out); code != c.want || again != text {
				t.Errorf("the replay has exit code %d, and prints\n%s\ninstead of\n%s", code, again, text)
			}
		})
	}
}
