package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// plantedServer burns the CPU time of its second argument, or of the variable WORK, for each request, µs.
const plantedServer = `import os, signal, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORK = float((sys.argv + [os.environ.get("WORK", "0")])[2]) / 1e6

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        end = time.thread_time() + WORK
        while time.thread_time() < end:
            pass
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")

    def log_message(self, *_):
        pass

def sampled(*_): # as under a profiler
    end = time.thread_time() + 0.004
    while time.thread_time() < end:
        pass

signal.signal(signal.SIGUSR1, sampled)
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
`

// burner uses a tenth of a processor.
const burner = `import time
while True:
    end = time.process_time() + 0.002
    while time.process_time() < end:
        pass
    time.sleep(0.018)
`

// sampler interrupts a program as many times a second as its second argument is.
const sampler = `import os, signal, sys, time
while True:
    os.kill(int(sys.argv[1]), signal.SIGUSR1)
    time.sleep(1 / float(sys.argv[2]))
`

// plantedPrograms writes the programs, and returns their directory and the interpreter.
func plantedPrograms(t *testing.T) (dir, python string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	dir = t.TempDir()
	for name, text := range map[string]string{"server.py": plantedServer, "burner.py": burner, "sampler.py": sampler} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir, programtest.Installed(t, "python3", "apt install python3")
}

// Work that a variable adds is CPU of the program, and the work of a process beside it is CPU of the data plane. One that
// attaches costs the program CPU, too: 5, 20 and 40 % more.
func TestApplicationVariants(t *testing.T) {
	dir, python := plantedPrograms(t)
	file := filepath.Join(dir, "variants.yaml")
	text := fmt.Sprintf(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: variants}
applications:
  plain: {command: [%q, server.py, "${port}"], env: {WORK: "1500"}}
  slow: {from: plain, prefix: [nice, -n, "0"], env: {WORK: "2000"}}
  beside: {from: plain, beside: [{name: burner, command: [%[1]q, burner.py]}]}
  attached-5: {from: plain, beside: [{name: sampler, command: [%[1]q, sampler.py, "${app.pid}", "5"]}]}
  attached-20: {from: plain, beside: [{name: sampler, command: [%[1]q, sampler.py, "${app.pid}", "20"]}]}
  attached-40: {from: plain, beside: [{name: sampler, command: [%[1]q, sampler.py, "${app.pid}", "40"]}]}
factors: {application: [plain, slow, beside, attached-5, attached-20, attached-40], rate: [200], connections: [4]}
load: {arrivals: constant}
order: interleaved
control: false
blocks: 4
phases: {warmup: 1s, measure: 2s, drain: 1s}
validity: {rateShortfall: 0.5, lateness: 5s}
`, python)
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	r, _ := undisturbed(t, file)
	for _, c := range []struct {
		treatment, metric string
		planted           float64
	}{
		{"slow", "cpu_us_per_request/app", 500},
		{"beside", "cpu_us_per_request/data", 500},    // 0.1 processors for 200 requests a second
		{"attached-5", "cpu_us_per_request/app", 100}, // 5 times 4 ms, for 200 requests of about 2000 µs
		{"attached-20", "cpu_us_per_request/app", 400},
		{"attached-40", "cpu_us_per_request/app", 800},
	} {
		d := differenceOf(t, r, c.treatment, c.metric).Difference
		t.Logf("%s: %s +%.0f [%.0f, %.0f]", c.treatment, c.metric, d.Estimate, *d.Low, *d.High)
		if *d.High < 0.9*c.planted || *d.Low > 1.2*c.planted {
			t.Errorf("%s: measured %.0f [%.0f, %.0f] µs, planted %.0f", c.treatment, d.Estimate, *d.Low, *d.High, c.planted)
		}
	}
	if left := processesIn(t, "burner.py"); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
}

// processesIn lists the command lines on this machine of programs of this test that have a word.
func processesIn(t *testing.T, word string) (found []string) {
	t.Helper()
	lines := must.Get(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
	for _, name := range lines {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(word)) {
			found = append(found, string(text))
		}
	}
	return found
}

// tare weigh compares a program with itself and a variable, a prefix and a process beside it.
func TestWeighOfVariants(t *testing.T) {
	dir, python := plantedPrograms(t)
	t.Parallel()
	stdout, _, code := tareIn(t, dir, "weigh", "--plain", "--time", "10s", "--cold", "--rate", "20", "--out", "run", "--keep", "kept.yaml",
		"--env", "WORK=5000", "--prefix", "nice -n 0", "--beside", python+" burner.py", "--", python, "server.py", "{port}")
	const name = "nice-burner-work"
	answer := name + " uses "       // the process beside the program, and then what requests cost it
	if code == console.Incomplete { // on a busy machine there may be no verdict
		answer = name
	}
	if code != console.Done && code != console.Incomplete || !strings.Contains(stdout, answer) {
		t.Errorf("exit code %d, without %q:\n%s", code, answer, stdout)
	}
	must.Contain(t, string(must.Get(os.ReadFile(filepath.Join(dir, "kept.yaml")))(t)), "application: [plain, "+name+"]")
}

// repositoryIn makes a git repository, and returns a function that executes commands in it.
func repositoryIn(t *testing.T, dir string) (run func(name string, args ...string) string) {
	t.Helper()
	programtest.Installed(t, "git", "apt install git")
	must.OK(t, os.Mkdir(dir, 0o700))
	run = func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Cancel = dir, func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run("git", "init", "-q")
	return run
}

// git bisect finds the commit that makes a server slower, of five in a real repository.
func TestBisectOfPrograms(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("decides as TestABRuns does, for git as TestBisectOfEndingPrograms does: make e2e-all runs it")
	}
	dir, python := plantedPrograms(t)
	t.Parallel()
	run := repositoryIn(t, filepath.Join(dir, "repository"))
	for i, work := range []string{"0", "0 #1", "2000", "2000 #1", "2000 #2"} {
		server := strings.Replace(plantedServer, `os.environ.get("WORK", "0")`, fmt.Sprintf("%q", strings.Fields(work)[0]), 1) + "# " + work + "\n"
		must.OK(t, os.WriteFile(filepath.Join(dir, "repository", "server.py"), []byte(server), 0o600))
		run("git", "add", "server.py")
		run("git", "commit", "-q", "-m", fmt.Sprintf("change %d", i))
	}
	run("git", "bisect", "start", "HEAD", "HEAD~4")
	log := run("git", "bisect", "run", filepath.Join(programs(t), "tare"), "ab", "--bisect", "--plain", "--rate", "100", "--max-time", "5m",
		"--gate", "cpu_us_per_request/total < +60%", "--set", "phases={prewarm: 0s, warmup: 300ms, measure: 1s, drain: 500ms}", "--set", "validity={rateShortfall: 0.5, lateness: 5s}",
		"--", python, filepath.Join(dir, "server.py"), "{port}", "--", python, "server.py", "{port}")
	bad := run("git", "log", "-1", "--format=%s", "refs/bisect/bad")
	if strings.TrimSpace(bad) != "change 2" {
		t.Errorf("the first bad commit is %q:\n%s", bad, log)
	}
}
