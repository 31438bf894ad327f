package cli

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer/answertest"
	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/result"
)

// executions is a recorded run of programs that end. B takes a share more wall time, and fails a share of its executions.
func executions(t *testing.T, more, failing float64) string {
	t.Helper()
	s := answertest.AB(0, 12)
	s.Bare = true
	source := rand.New(rand.NewPCG(3, 4))
	s.Change = func(r *result.Record) {
		r.Load, r.Tasks, r.Node, r.Outside, r.Probe, r.Edges = nil, nil, nil, nil, nil, 0
		for i := range 10 {
			x := execution.Reading{Wall: int64(100e6 * (1 + 0.005*source.NormFloat64())), User: 60e6, System: int64(10e6 * (1 + 0.005*source.NormFloat64())), Peak: int64(float64(32<<20) * (1 + 0.001*source.NormFloat64())), Floor: 8 << 20}
			if r.Treatment == "envoy-b" {
				x.Wall = int64(float64(x.Wall) * (1 + more))
				if float64(i) < failing*10 {
					x.Exit, x.Last = 2, []string{"no such file"}
				}
			}
			r.Executions = append(r.Executions, x)
		}
		if failed := len(r.FailedExecutions()); failed > 0 {
			r.Valid, r.Warnings = false, []result.Warning{{Code: "errors", Message: fmt.Sprintf("%d of 10 executions failed", failed), Invalidates: true}}
		}
	}
	dir := filepath.Join(t.TempDir(), "run")
	s.Write(t, dir)
	return dir
}

// Planted changes and failures of programs that end are decided, with the sentence and the rows of each figure.
func TestEndingProgramsDecided(t *testing.T) {
	same, slower, fails := executions(t, 0, 0), executions(t, 0.05, 0), executions(t, 0, 0.5)
	for _, c := range []struct {
		args string
		want int
		word string
	}{
		{"ab --gate wall_time<+2% --from " + same, console.Done, "holds"},
		{"ab --gate wall_time<+2% --from " + same, console.Done, "No difference in wall time is shown between envoy-b and envoy-a: "},
		{"ab --gate wall_time<+2% --from " + slower, console.Gate, "envoy-b takes more wall time than envoy-a: +4."},
		{"ab --gate wall_time<+2% --from " + slower, console.Gate, "105 ms instead of 100 ms."},
		{"ab --gate cpu_time<+2% --from " + slower, console.Done, "CPU time 70.00 ms 70.00 ms +0.0 % ("},
		{"ab --gate peak_memory<+2% --from " + slower, console.Done, "peak memory 31.99 MiB 32.00 MiB +0.0 % ("},
		{"ab --gate wall_time<+2ms --from " + slower, console.Gate, "is breached: +4.9 ms ("},
		{"ab --gate wall_time<+2% --from " + fails, console.Gate, "10 of 20 executions failed, and 0 of 20 of the baseline; envoy-b: exit code 2, last lines: no such file"},
		{"report --format text " + slower, console.Done, "envoy-b takes more wall time than envoy-a"},
		{"report --format json " + slower, console.Done, `"executions": 360`},
		{"report --format html " + slower, console.Done, "wall time"},
	} {
		text, errors, code := tareIn(t, "", strings.Fields(c.args)...)
		if code != c.want || !strings.Contains(strings.Join(strings.Fields(text+errors), " "), c.word) {
			t.Errorf("%s: exit code %d, want %d and %q in\n%s%s", c.args, code, c.want, c.word, text, errors)
		}
	}
}

// spins is a program that ends after a planted number of turns, in the shell's own CPU time.
func spins(turns int, after ...string) []string {
	return []string{"sh", "-c", "i=0; while [ $i -lt " + strconv.Itoa(turns) + " ]; do i=$((i+1)); done; " + strings.Join(after, "; ")}
}

// endingPrograms are arguments of tare ab for A and B.
func endingPrograms(a, b []string, flags ...string) []string {
	all := append([]string{"ab", "--plain"}, flags...)
	return append(append(append(append(all, "--"), a...), "--"), b...)
}

// Real programs that end: a planted difference breaches, equal programs do not, and one that fails breaches. A replay decides the same.
func TestABOfEndingPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("runs experiments")
	}
	t.Parallel()
	programs(t)
	for name, c := range map[string]struct {
		a, b  []string
		flags []string
		want  int
		words []string
	}{
		"heavier": {spins(20_000), spins(30_000), []string{"--gate", "cpu_time < +10%"}, console.Gate, []string{"” is breached: +", "CPU time", "executions"}},
		"equal":   {spins(20_000), spins(20_000), []string{"--gate", "cpu_time < +60%"}, console.Done, []string{"” holds: ", "wall time"}},
		"failing": {spins(20_000), spins(20_000, "echo no such file >&2", "exit 3"), []string{"--gate", "cpu_time < +60%"}, console.Gate, []string{"executions failed", "exit code 3, last lines: no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			args := endingPrograms(c.a, c.b, append(c.flags, "--max-time", "2m", "--out", "run", "--prepare", "touch prepared", "--set", "batch.warmup=1")...)
			text, _, code := tareIn(t, dir, args...)
			for _, word := range c.words {
				if code != c.want || !strings.Contains(text, word) {
					t.Errorf("exit code %d, want %d and %q in\n%s", code, c.want, word, text)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "prepared")); err != nil {
				t.Error(err)
			}
			if again, _, code := tareIn(t, dir, "ab", "--from", "run"); code != c.want || again != text {
				t.Errorf("the replay has exit code %d, and prints\n%s\ninstead of\n%s", code, again, text)
			}
		})
	}
}

// Mistakes with programs that end are found before a run.
func TestEndingProgramMistakes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts programs")
	}
	for want, args := range map[string][]string{
		"failed: exit code 3":                endingPrograms(spins(1, "exit 3"), spins(1)),
		"start nowhere":                      endingPrograms([]string{"nowhere"}, spins(1)),
		"write --data @FILE":                 endingPrograms(spins(1), spins(1), "--data", "text"),
		"--prepare is for programs that end": endingPrograms([]string{"server", "{port}"}, []string{"server", "{port}"}, "--prepare", "true", "--rate", "1"),
		"did not end within 10s: if it is a": endingPrograms([]string{"sleep", "60"}, spins(1), "--max-time", "15s"),
	} {
		text, errors, code := tareIn(t, t.TempDir(), args...)
		if all := strings.Join(strings.Fields(text+errors), " "); code == console.Done || code == console.Gate || !strings.Contains(strings.ReplaceAll(all, " hint: ", ": "), want) {
			t.Errorf("exit code %d, want an error with %q in\n%s", code, want, all)
		}
	}
}

// A prefix of a program that ends, which weigh recognises: it needs no port.
func TestWeighOfEndingProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	t.Parallel()
	programs(t)
	prefix := strings.Join([]string{"sh", "-c", `'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; exec "$@"'`, "more"}, " ")
	text, log, code := tareIn(t, t.TempDir(), append([]string{"weigh", "--plain", "--time", "30s", "--prefix", prefix, "--"}, spins(20_000)...)...)
	if code != console.Done || !strings.Contains(text, "more CPU time than plain: +") || !strings.Contains(log, "measuring its executions") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}

// Runs of a program against itself breach at most 5 %, and a planted 3 % of CPU is found. Four at a time are the load of the machine.
func TestEndingProgramErrors(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("takes ten minutes: TARE_TEST_ALL=1 runs it")
	}
	programs(t)
	breaches := func(runs, turns int, arguments ...string) (n int64) {
		var all sync.WaitGroup
		var breached, left atomic.Int64
		left.Store(int64(runs))
		for range 4 {
			all.Go(func() {
				for left.Add(-1) >= 0 {
					if _, _, code := tareIn(t, t.TempDir(), endingPrograms(spins(20_000), spins(turns), arguments...)...); code == console.Gate {
						breached.Add(1)
					}
				}
			})
		}
		all.Wait()
		return breached.Load()
	}
	const runs, planted = 60, 12
	same := breaches(runs, 20_000, "--gate", "wall_time < +0%", "--max-time", "15s")
	if t.Logf("%d of %d runs have a false breach", same, runs); same > 8 { // 5 % and three standard deviations of the number
		t.Errorf("%d of %d runs have a false breach", same, runs)
	}
	began := time.Now()
	found := breaches(planted, 20_600, "--gate", "cpu_time < +0%", "--max-time", "2m")
	t.Logf("%d of %d planted changes of 3 %% found in %v", found, planted, time.Since(began))
	if found < planted*3/4 {
		t.Errorf("%d of %d planted changes of 3 %% found", found, planted)
	}
}
