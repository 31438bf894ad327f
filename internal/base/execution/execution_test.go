package execution

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

// The test binary is also the agent, and the programs that end, with a truth each.
var roles = map[string]func(){
	"burn": func() {
		for cpu() < 60*time.Millisecond {
		}
	},
	"hold": func() {
		b := make([]byte, 64<<20)
		for i := 0; i < len(b); i += 512 {
			b[i] = 1
		}
		fmt.Print(strings.Repeat("x", 5000), b[0])
	},
	"sleep": func() { time.Sleep(150 * time.Millisecond) },
	"fail":  func() { fmt.Println("on stdout"); fmt.Fprintln(os.Stderr, "first\nno such file"); os.Exit(3) },
	"die":   func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} },
	"hang":  func() { time.Sleep(time.Hour) },
	"read": func() {
		n, _ := io.Copy(io.Discard, os.Stdin)
		fmt.Print(strings.Repeat("y", int(n)))
	},
	"note": func() {
		f, err := os.OpenFile("notes", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(f, os.Getenv("WHO"))
		f.Close()
	},
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestMain(m *testing.M) {
	if role := roles[os.Getenv("TARE_TEST_ROLE")]; role != nil {
		role()
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == "execute" {
		if err := Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "tare-agent:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "tare-state-")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_STATE_HOME", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func program(role string, env ...string) Program {
	return Program{Command: []string{os.Args[0]}, Env: append(env, "TARE_TEST_ROLE="+role)}
}

// Each program has a planted truth: CPU, memory, time, output, exit code.
func TestReadings(t *testing.T) {
	input := filepath.Join(t.TempDir(), "input")
	must.OK(t, os.WriteFile(input, make([]byte, 777), 0o600))
	names := []string{"burn", "hold", "sleep", "fail", "die", "read"}
	s := Series{Rows: [][]int{{0, 1, 2, 3, 4, 5}}, Input: input, Limit: time.Minute}
	for _, name := range names {
		s.Programs = append(s.Programs, program(name))
	}
	all := must.Get(s.By(t.Context(), os.Args[0], ""))(t)
	of := func(name string) Reading {
		readings := all[slices.Index(names, name)]
		if len(readings) != 1 {
			t.Fatalf("%s: %d readings", name, len(readings))
		}
		return readings[0]
	}
	within := func(what string, got, low, high float64) {
		t.Helper()
		if got < low || got > high {
			t.Errorf("%s: %v, want %v to %v", what, got, low, high)
		}
	}
	burn, hold, sleep := of("burn"), of("hold"), of("sleep")
	within("CPU of burn, ms", float64(burn.User+burn.System)/1e6, 60, 120)
	within("wall time over CPU of burn", float64(burn.Wall)/float64(burn.User+burn.System), 0.5, 1e6)
	within("peak of hold, MiB", float64(hold.Peak)/(1<<20), 64, 110)
	within("floor, MiB", float64(hold.Floor)/(1<<20), 1, 40)
	within("output of hold", float64(hold.Output), 5001, 5001)
	within("wall time of sleep, ms", float64(sleep.Wall)/1e6, 150, 10_000)
	within("CPU of sleep, ms", float64(sleep.User+sleep.System)/1e6, 0, 100)
	within("bytes that read wrote", float64(of("read").Output), 777, 777)
	if fail := of("fail"); fail.Exit != 3 || fail.Failure() != "exit code 3, last lines: first | no such file" || fail.Output != 10 {
		t.Errorf("fail: %+v: %s", fail, fail.Failure())
	}
	if die := of("die"); die.Exit != 137 || die.Failure() != "exit code 137, without a message" {
		t.Errorf("die: %+v", die)
	}
	if burn.Exit != 0 || burn.Last != nil || time.Since(burn.Start) > time.Minute {
		t.Errorf("burn: %+v", burn)
	}
}

// Programs are executed row by row, after the warm-up, each prepared, with a process beside it, for about the time.
func TestRows(t *testing.T) {
	dir := t.TempDir()
	note := func(who string) Program {
		p := program("note", "WHO="+who)
		p.Dir = dir
		return p
	}
	s := Series{Programs: []Program{note("a"), note("b")}, Rows: [][]int{{0, 1}, {1, 0}}, Warmup: 1, Prepare: []string{"sh", "-c", "echo prepared $WHO >> notes"}, Limit: time.Minute}
	var order []int
	emit := func(p int, _ Reading) error { order = append(order, p); return nil }
	s.Programs[0].Beside = []Program{program("hang")}
	must.OK(t, s.Run(t.Context(), emit))
	notes, want := strings.Fields(string(must.Get(os.ReadFile(filepath.Join(dir, "notes")))(t))), strings.Fields(strings.Repeat("prepared a a prepared b b ", 2))
	if !slices.Equal(order, []int{0, 1}) || !slices.Equal(notes, want) {
		t.Errorf("order %v, notes %q", order, notes)
	}
	order, s.Warmup, s.Prepare, s.Time, s.Programs[0].Beside = nil, 0, nil, 400*time.Millisecond, nil
	began := time.Now()
	must.OK(t, s.Run(t.Context(), emit))
	if rows := len(order) / 2; time.Since(began) > 20*time.Second || rows > MaxRows || rows > 1 && (order[2] != 1 || order[3] != 0) {
		t.Errorf("%d rows in %v: %v", rows, time.Since(began), order)
	}
}

// What does not end is killed, with its descendants, by the limit or an interrupt. What does not start is an error.
func TestEnds(t *testing.T) {
	s := Series{Programs: []Program{program("hang")}, Rows: [][]int{{0}}, Limit: 100 * time.Millisecond}
	all := must.Get(s.By(t.Context(), os.Args[0], ""))(t)
	if r := all[0][0]; r.Exit != 137 && r.Exit != 143 || !strings.Contains(r.Failure(), "it did not end within 100ms") {
		t.Errorf("%+v: %s", r, r.Failure())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	s.Limit = time.Hour
	began := time.Now()
	if _, err := s.By(ctx, os.Args[0], ""); err == nil || time.Since(began) > 20*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	s.Programs[0].Command = []string{"/nonexistent/program"}
	must.Fail(t, must.Err(s.By(t.Context(), os.Args[0], "")), "start program: ")
	s.Programs[0], s.Prepare = program("note"), []string{"sh", "-c", "echo no rule; exit 2"}
	s.Programs[0].Dir = t.TempDir()
	must.Fail(t, must.Err(s.By(t.Context(), os.Args[0], "")), "no rule")
	must.Fail(t, Serve(t.Context(), bufio.NewReader(strings.NewReader("{}")), io.Discard), "needs programs and rows")
}

// Go's benchmark format on standard output: the means by name and unit, and by package if there are several. Other output has none.
func TestBenchmarks(t *testing.T) {
	got, _ := Benchmarks([]byte("goos: linux\nBenchmarkEncode/size=10-8 \t 100 \t 2000 ns/op \t 16 B/op \t 1 allocs/op\nBenchmarkEncode/size=10-8 \t 100 \t 4000 ns/op \t 16 B/op \t 1 allocs/op\nBenchmarkDecode \t 5 \t 7 ns/op\nBenchmarking is fun\nPASS\n"))
	if e := got["Encode/size_10-8"]; len(got) != 2 || math.Abs(e["sec/op"]-3e-6) > 1e-12 || e["B/op"] != 16 || e["allocs/op"] != 1 || math.Abs(got["Decode"]["sec/op"]-7e-9) > 1e-15 {
		t.Errorf("%v", got)
	}
	got, damaged := Benchmarks([]byte("pkg: a/x\nBenchmarkRead 1 2 B/op\npkg: a/y\nBenchmarkRead 1 4 B/op\nBenchmarkCut 1\n"))
	if len(got) != 2 || got["a/x/Read"]["B/op"] != 2 || got["a/y/Read"]["B/op"] != 4 || damaged == nil || damaged.Line != 5 {
		t.Errorf("%v, %v", got, damaged)
	}
	if got, damaged := Benchmarks([]byte("hello\n")); got != nil || damaged != nil {
		t.Errorf("%v, %v", got, damaged)
	}
}

// The empty program takes part in rows that have it, without preparation. It does nothing: less than any program here.
func TestEmptyProgram(t *testing.T) {
	if Static(nil) == nil {
		t.Skip("no empty program on this system")
	}
	s := Series{Programs: []Program{program("read")}, Rows: [][]int{{1, 0}, {0, 1}}, Prepare: []string{"sh", "-c", "test -n \"$TARE_TEST_ROLE\""}, Time: 500 * time.Millisecond, Limit: time.Minute}
	all := must.Get(s.By(t.Context(), os.Args[0], ""))(t)
	if len(all) != 2 || len(all[0]) < 2 || len(all[1]) != len(all[0]) {
		t.Fatalf("%d readings of %d programs", len(all[0]), len(all))
	}
	sum := func(all []Reading) (wall, cpu, output int64, failed int) {
		for _, r := range all {
			wall, cpu, output, failed = wall+r.Wall, cpu+r.User+r.System, output+r.Output, failed+r.Exit
		}
		return wall, cpu, output, failed
	}
	wall, cpu, output, failed := sum(all[1])
	if programWall, programCPU, _, _ := sum(all[0]); !(wall > 0 && wall < programWall && cpu < programCPU) || output != 0 || failed != 0 {
		t.Errorf("%d executions: %v of wall time and %v of CPU, %d bytes, exit codes %d; the program: %v and %v", len(all[1]), time.Duration(wall), time.Duration(cpu), output, failed, time.Duration(programWall), time.Duration(programCPU))
	}
}
