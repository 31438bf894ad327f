package cli

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// executions is a recorded run of programs that end, of 100 ms, or of 1 ms beyond an empty program's. B takes a share more wall time,
// and fails a share of its executions.
func executions(t *testing.T, more, failing float64, short bool) string {
	t.Helper()
	s := answertest.AB(0, 12)
	s.Bare = true
	source := rand.New(rand.NewPCG(3, 4))
	s.Change = func(r *result.Record) {
		r.Load, r.Tasks, r.Node, r.Outside, r.Edges = nil, nil, nil, nil, 0
		for i := range 10 {
			x := execution.Reading{Wall: int64(100e6 * (1 + 0.005*source.NormFloat64())), User: 60e6, System: int64(10e6 * (1 + 0.005*source.NormFloat64())), Peak: int64(float64(32<<20) * (1 + 0.001*source.NormFloat64())), Floor: 8 << 20}
			if r.Treatment == "envoy-b" {
				x.Wall = int64(float64(x.Wall) * (1 + more))
				if float64(i) < failing*10 {
					x.Exit, x.Last = 2, []string{"no such file"}
				}
			}
			if short {
				start := int64(1e6 * (1 + 0.005*source.NormFloat64()))
				x.Wall, x.User, x.System = x.Wall/100+start, x.User/100, x.System/100
				r.Empty = append(r.Empty, execution.Reading{Wall: start, User: 1e5, System: 3e5})
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
	same, slower, fails, short := executions(t, 0, 0, false), executions(t, 0.05, 0, false), executions(t, 0, 0.5, false), executions(t, 0.1, 0, true)
	for _, c := range []struct {
		args string
		want int
		word string
	}{
		{"ab --gate wall_time<+2% --from " + same, console.Done, "holds"},
		{"ab --gate cpu_time<+2% --from " + same, console.Done, "No difference in wall time is shown between envoy-b and envoy-a: "},
		{"ab --gate cpu_time<+2% --from " + slower, console.Done, "envoy-b takes more wall time than envoy-a: +4."},
		{"ab --gate wall_time<+2% --from " + slower, console.Gate, "is breached: +4."},
		{"ab --gate wall_time<+2% --from " + slower, console.Gate, "105 ms with envoy-b instead of 100 ms with envoy-a."},
		{"ab --gate cpu_time<+2% --from " + slower, console.Done, "CPU time 70.00 ms 70.00 ms 0.0 % ("},
		{"ab --gate peak_memory<+2% --from " + slower, console.Done, "peak memory 31.99 MiB 32.00 MiB 0.0 % ("},
		{"ab --gate wall_time<+2ms --from " + slower, console.Gate, "is breached: +4.9 ms ("},
		{"ab --gate wall_time<+2% --from " + fails, console.Gate, "10 of 20 executions failed, and 0 of 20 of the baseline; envoy-b: exit code 2, last lines: no such file"},
		{"ab --gate wall_time<+8% --from " + short, console.Gate, " instead of 1.0"},
		{"report --format text " + short, console.Done, "Executions are shorter than 5 ms, so that the time of an empty program is subtracted: "},
		{"report --format json " + short, console.Done, `"form": "executions-empty"`},
		{"report --format text " + slower, console.Done, "envoy-b takes more wall time than envoy-a"},
		{"report --format json " + slower, console.Done, `"executions": 360`},
		{"report --format html " + slower, console.Done, "wall time"},
	} {
		text, errors, code := tareIn(t, "", strings.Fields(c.args)...)
		if strings.Contains(c.args, "wall_time<+2%") && strings.Contains(text, "more wall time than") {
			t.Errorf("%s: two sentences about the wall time\n%s", c.args, text)
		}
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
	t.Parallel()
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

// Programs that print Go's benchmark format have a figure and a gate for each benchmark: one is 20 % slower, the other is not.
func TestABOfGoBenchmarks(t *testing.T) {
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	t.Parallel()
	programs(t)
	prints := func(decode int) []string { // the last digits of the process's number are noise
		return []string{"sh", "-c", fmt.Sprintf("n=$(($$ %% 20)); echo 'pkg: a.test/x'; echo \"BenchmarkEncode-2 500 $((1000+n)) ns/op\"; echo \"BenchmarkDecode-2 500 $((%d+n)) ns/op\"; echo PASS", decode)}
	}
	text, log, code := tareIn(t, t.TempDir(), endingPrograms(prints(2000), prints(2400), "--max-time", "2m",
		"--gate", "benchmark_time/Encode-2 < +10%", "--gate", "benchmark_time/Decode-2 < +10%")...)
	for _, want := range []string{"“time, Decode-2 < +10%” is breached: +", "time, Encode-2"} {
		if code != console.Gate || !strings.Contains(text, want) {
			t.Errorf("exit code %d, without %q:\n%s%s", code, want, text, log)
		}
	}
	if strings.Contains(text, "Encode-2 < +10%” is breached") {
		t.Errorf("the equal benchmark is breached:\n%s", text)
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
	text, log, code := tareIn(t, t.TempDir(), append([]string{"weigh", "--plain", "--time", "15s", "--prefix", prefix, "--"}, spins(20_000)...)...)
	if code != console.Done || !strings.Contains(text, "more CPU time than plain: +") || !strings.Contains(log, "measuring its executions") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}

// git bisect finds the build that uses more CPU, of six in a real repository, by programs and by a file. A build that is absent is skipped.
func TestBisectOfEndingPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("runs experiments")
	}
	t.Parallel()
	dir := t.TempDir()
	run := repositoryIn(t, filepath.Join(dir, "repository"))
	build := func(turns int, note string) string { return "#!/bin/sh\n# " + note + "\n" + spins(turns)[2] + "\n" }
	good := must.File(t, dir, "good", build(20_000, "good"))
	must.OK(t, os.Chmod(good, 0o700))
	for i, turns := range []int{20_000, 20_000, 0, 20_000, 30_000, 30_000} {
		path := filepath.Join(dir, "repository", "prog")
		if turns == 0 { // this commit has no program
			run("git", "rm", "-q", "prog")
		} else {
			must.OK(t, os.WriteFile(path, []byte(build(turns, fmt.Sprint("build ", i))), 0o700))
			run("git", "add", "prog")
		}
		run("git", "commit", "-q", "-m", fmt.Sprint("build ", i))
	}
	file := must.File(t, dir, "batch.yaml", fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: ends}\napplications: {good: {command: [%q]}, head: {command: [./prog], dir: %q}}\nfactors: {application: [good, head]}\nbatch: {}\nblocks: 5\nphases: {measure: 1s}\n",
		experiment.APIVersion, experiment.Kind, good, filepath.Join(dir, "repository")))
	flags := []string{"ab", "--bisect", "--plain", "--gate", "cpu_time < +20%", "--max-time", "2m"}
	forms := map[string][]string{"programs": {"--", good, "--", "./prog"}}
	if os.Getenv("TARE_TEST_ALL") != "" {
		forms["file"] = []string{"--a", "application=good", "--b", "application=head", file}
	}
	for name, rest := range forms {
		run("git", "bisect", "start", "HEAD", "HEAD~5")
		log := run("git", slices.Concat([]string{"bisect", "run", filepath.Join(programs(t), "tare")}, flags, rest)...)
		if bad := strings.TrimSpace(run("git", "log", "-1", "--format=%s", "refs/bisect/bad")); bad != "build 4" {
			t.Errorf("%s: the first bad commit is %q:\n%s", name, bad, log)
		}
		run("git", "bisect", "reset")
	}
}

// spinning is a static program that reads the CPU time of its process until it has advanced by a time. Other programs do not change that.
func spinning(t *testing.T, dir, name string, spun time.Duration) string {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("has machine code of amd64")
	}
	read := func(into, add byte) []byte { // clock_gettime into the stack, and from there as nanoseconds into r8 or r9
		return []byte{0xb8, 228, 0, 0, 0, 0xbf, 2, 0, 0, 0, 0x48, 0x89, 0xe6, 0x0f, 0x05,
			0x4c, 0x8b, into, 0x24, 0x4d, 0x69, 0xc0 + 9*(into>>3&1), 0x00, 0xca, 0x9a, 0x3b, 0x4c, 0x03, add, 0x24, 8}
	}
	again := append(read(0x0c, 0x4c), 0x4d, 0x39, 0xc1)               // cmp r9, r8
	code := append([]byte{0x48, 0x83, 0xec, 16}, read(0x04, 0x44)...) // sub rsp, 16
	code = binary.LittleEndian.AppendUint32(append(code, 0x49, 0x81, 0xc0), uint32(spun))
	code = append(append(code, again...), 0x7c, byte(-len(again)-2)) // jl again
	path := filepath.Join(dir, name)
	must.OK(t, os.WriteFile(path, execution.Static(code), 0o700))
	return path
}

// Static programs that spin 1 and 2 ms have these times: the time that any process takes is subtracted, and printed with its interval.
func TestEmptyProgramSubtracted(t *testing.T) {
	if testing.Short() {
		t.Skip("runs experiments")
	}
	programs(t)
	dir := t.TempDir()
	one, two := spinning(t, dir, "one", time.Millisecond), spinning(t, dir, "two", 2*time.Millisecond)
	text, log, code := tareIn(t, dir, endingPrograms([]string{one}, []string{two}, "--gate", "cpu_time < +50%", "--max-time", "2m", "--out", "run")...)
	if code != console.Gate || !strings.Contains(strings.Join(strings.Fields(text), " "), "Executions are shorter than 5 ms, so that the time of an empty program is subtracted: ") {
		t.Fatalf("exit code %d:\n%s%s", code, text, log)
	}
	r := reportOf(t, filepath.Join(dir, "run"))
	d := r.Executed[slices.IndexFunc(r.Executed, func(d compare.Decision) bool { return d.Metric == metric.CPUTime })]
	if math.Abs(*d.A-1) > 0.1 || math.Abs(*d.B-2) > 0.2 || math.Abs(d.Change.Estimate-100) > 10 { // not subtracted: +85 %
		t.Errorf("%.3f and %.3f ms, %+.1f %% (%.1f to %.1f); 1 and 2 ms were planted", *d.A, *d.B, d.Change.Estimate, *d.Change.Low, *d.Change.High)
	}
}

// endedRun is the decision of a run, beside the ratio of its means, which hyperfine prints.
type endedRun struct {
	code  int
	took  time.Duration
	ratio float64 // of the mean wall times
	load  float64 // load average of a minute, at its end
}

// ended runs A and B, four runs at a time: they are the load of the machine. No run begins after a time.
func ended(t *testing.T, runs int, within time.Duration, a, b []string, flags ...string) []endedRun {
	all := make([]endedRun, runs)
	var group errgroup.Group
	group.SetLimit(4)
	last := time.Now().Add(within)
	for i := range all {
		group.Go(func() error {
			if time.Now().After(last) {
				return nil
			}
			dir, began := t.TempDir(), time.Now()
			_, _, all[i].code = tareIn(t, dir, endingPrograms(a, b, append(flags, "--out", "run")...)...)
			all[i].took = time.Since(began)
			all[i].load, _ = strconv.ParseFloat(strings.Fields(string(must.Get(os.ReadFile("/proc/loadavg"))(t)))[0], 64)
			opened, err := result.Open(filepath.Join(dir, "run"))
			if err != nil {
				t.Logf("exit code %d: %v", all[i].code, err)
				all[i] = endedRun{}
				return nil
			}
			defer opened.Close()
			records, err := opened.Records()
			if err != nil {
				return err
			}
			sums, n := map[bool]float64{}, map[bool]float64{} // of B or of A, without A again
			for _, r := range records {
				of := strings.HasSuffix(r.Treatment, "-b")
				for _, x := range r.Executions {
					if !r.Control {
						sums[of], n[of] = sums[of]+float64(x.Wall), n[of]+1
					}
				}
			}
			all[i].ratio = sums[true] / n[true] * n[false] / sums[false]
			t.Logf("run %d: exit code %d after %v, B is %+.1f %% slower by the means, load average %.1f", i, all[i].code, all[i].took.Round(time.Second), 100*(all[i].ratio-1), all[i].load)
			return nil
		})
	}
	must.OK(t, group.Wait())
	all = slices.DeleteFunc(all, func(r endedRun) bool { return r.took == 0 })
	slices.SortFunc(all, func(a, b endedRun) int { return cmp.Compare(a.load, b.load) })
	if len(all) == 0 {
		t.Fatal("no run ended")
	}
	t.Logf("%d runs at a load average of %.1f to %.1f, median %.1f", len(all), all[0].load, all[len(all)-1].load, all[len(all)/2].load)
	return all
}

// Runs of a program against itself breach at most 5 %, and a planted 3 % of CPU is found within five minutes.
func TestEndingProgramErrors(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("takes half an hour: TARE_TEST_ALL=1 runs it")
	}
	programs(t)
	count := func(all []endedRun, of func(endedRun) bool) (n int) {
		for _, r := range all {
			if of(r) {
				n++
			}
		}
		return n
	}
	breached := func(r endedRun) bool { return r.code == console.Gate }
	slower := func(by float64) func(endedRun) bool { return func(r endedRun) bool { return r.ratio > by } }
	same := ended(t, 200, 25*time.Minute, spins(20_000), spins(20_000), "--gate", "wall_time < +0%", "--max-time", "24s")
	n, runs := count(same, breached), len(same)
	t.Logf("%d of %d runs of equal programs are breached; means say 5 %% slower in %d, and 1 %% in %d", n, runs, count(same, slower(1.05)), count(same, slower(1.01)))
	if float64(n) > 0.05*float64(runs)+3*math.Sqrt(0.05*0.95*float64(runs)) {
		t.Errorf("%d of %d runs have a false breach", n, runs)
	}
	more := ended(t, 24, 10*time.Minute, spins(20_000), spins(20_600), "--gate", "cpu_time < +0%", "--max-time", "5m")
	n, runs = count(more, breached), len(more)
	longest := slices.MaxFunc(more, func(a, b endedRun) int { return cmp.Compare(a.took, b.took) }).took
	t.Logf("%d of %d planted changes of 3 %% are found in at most %v; means say 5 %% slower in %d, and 1 %% in %d", n, runs, longest, count(more, slower(1.05)), count(more, slower(1.01)))
	if n*10 < runs*9 {
		t.Errorf("%d of %d planted changes of 3 %% are found", n, runs)
	}
}
