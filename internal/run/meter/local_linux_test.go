package meter_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

const burnerEnv = "TARE_TEST_BURNER"

// The main goroutine stays on the main thread, see burnThreads.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	if os.Getenv(burnerEnv) != "" {
		burner(os.Stdin, os.Stdout)
		return
	}
	os.Exit(m.Run())
}

// burner obeys one command a line and answers each with one line:
//
//	burn N over N     ns of CPU over ns of time, spread evenly; answers the CPU time by the clocks of its threads
//	threads N N       ns each of N threads that burn and end one after another; answers their sum and the last one's number
func burner(in io.Reader, out io.Writer) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var a, b int64
		switch text := lines.Text(); {
		case scan(text, "burn %d over %d", &a, &b):
			fmt.Fprintln(out, burnOver(a, b))
		case scan(text, "threads %d %d", &a, &b):
			sum, tid := burnThreads(a, int(b))
			fmt.Fprintln(out, sum, tid)
		default:
			fmt.Fprintln(out, "what?", text)
		}
	}
}

func scan(text, format string, a, b *int64) bool {
	n, err := fmt.Sscanf(text, format, a, b)
	return n == 2 && err == nil
}

// clockOf reads the CPU clock of one thread, the reference for the meter. The meter
// reads the process's clock.
func clockOf(tid int) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^tid)<<3|6, &ts); err != nil {
		return 0 // it has ended
	}
	return ts.Nano()
}

// threadsCPU returns the sum over all threads, including the Go runtime's.
func threadsCPU() (sum int64) {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			panic(err)
		}
		sum += clockOf(tid)
	}
	return sum
}

func spin(ns int64) {
	tid := unix.Gettid()
	for until := clockOf(tid) + ns; clockOf(tid) < until; {
	}
}

func burnOver(ns, over int64) int64 {
	const slices = 20
	begin, from := threadsCPU(), time.Now()
	for i := range int64(slices) {
		if due := (i+1)*ns/slices - (threadsCPU() - begin); due > 0 {
			spin(due)
		}
		// The schedule is the point here, not a condition to wait for.
		time.Sleep(time.Until(from.Add(time.Duration((i + 1) * over / slices))))
	}
	return threadsCPU() - begin
}

func burnThreads(ns int64, n int) (sum int64, tid int) {
	// The main thread never ends, so burnThreads occupies it: other threads do the work.
	if unix.Gettid() != os.Getpid() {
		panic("the burner is not on its main thread")
	}
	begin := threadsCPU()
	for range n {
		done := make(chan int64)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
			tid = unix.Gettid()
			spin(ns)
			done <- clockOf(tid)
		}()
		sum += <-done
		awaitEnd(tid)
	}
	return sum + threadsCPU() - begin, tid
}

func awaitEnd(tid int) {
	for deadline := time.Now().Add(5 * time.Second); clockOf(tid) != 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

type burning struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func startBurner(t *testing.T) *burning {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	// One processor and no collector: only the burning thread is measured, not the runtime.
	cmd.Env = append(os.Environ(), burnerEnv+"=1", "GOMAXPROCS=1", "GOGC=off")
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	b := &burning{t: t, cmd: cmd, in: in, out: bufio.NewReader(out)}
	b.ask("burn 1000000 over 1000000") // it has started
	return b
}

func (b *burning) ask(command string) string {
	b.t.Helper()
	if _, err := fmt.Fprintln(b.in, command); err != nil {
		b.t.Fatal(err)
	}
	answer, err := b.out.ReadString('\n')
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

func (b *burning) task() platform.Task {
	return platform.Task{Task: mesh.Task{ID: "burner"}, PID: b.cmd.Process.Pid}
}

func newLocal(t testing.TB) *meter.Local {
	t.Helper()
	return must.Get(meter.NewLocal())(t)
}

func look(t testing.TB, m meter.Meter, depth meter.Depth, tasks ...platform.Task) meter.Look {
	t.Helper()
	return must.Get(m.Read(context.Background(), tasks, depth))(t)
}

// The figure everything rests on: 250 ms of CPU a second are read as that, to one in a hundred.
func TestKnownBurner(t *testing.T) {
	b, m := startBurner(t), newLocal(t)
	before := look(t, m, meter.Counters, b.task()).Tasks["burner"]
	var burned int64
	must.Get(fmt.Sscan(b.ask("burn 250000000 over 1000000000"), &burned))(t)
	after := look(t, m, meter.Counters, b.task()).Tasks["burner"]
	read := after.CPU - before.CPU
	wall := after.At.Sub(before.At)
	t.Logf("burned %v, read %v over %v: %+.3f %%", time.Duration(burned), time.Duration(read), wall, 100*(float64(read)/float64(burned)-1))
	if burned < 250e6 {
		t.Fatalf("the burner reports %v of CPU, want 250 ms", time.Duration(burned))
	}
	if off := math.Abs(float64(read)/float64(burned) - 1); off > 0.01 {
		t.Errorf("off by %.2f %%, want at most 1 %%", 100*off)
	}
	if wall < time.Second {
		t.Errorf("the stamps are %v apart, the burner took a second", wall)
	}
}

func TestThreadsThatEndedCount(t *testing.T) {
	b, m := startBurner(t), newLocal(t)
	before := look(t, m, meter.Counters, b.task()).Tasks["burner"]
	var burned int64
	var tid int
	must.Get(fmt.Sscan(b.ask("threads 50000000 4"), &burned, &tid))(t)
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", b.cmd.Process.Pid, tid)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the burning thread has not ended, the test shows nothing: %v", err)
	}
	after := look(t, m, meter.Counters, b.task()).Tasks["burner"]
	read := after.CPU - before.CPU
	t.Logf("burned %v, read %v", time.Duration(burned), time.Duration(read))
	if burned < 200e6 {
		t.Fatalf("the burner reports %v of CPU", time.Duration(burned))
	}
	// Starting and ending threads costs CPU beyond the burned time.
	if off := float64(read)/float64(burned) - 1; off < -0.001 || off > 0.03 {
		t.Errorf("off by %.2f %%", 100*off)
	}
}

// CPU of children that ended between two readings counts to the process that started them, as its shell reports it.
func TestChildrenThatEndedCount(t *testing.T) {
	const script = `read go; for n in 1 2 3; do (i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done); done; times; read end`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	in := must.Get(cmd.StdinPipe())(t)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.OK(t, err)
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	m := newLocal(t)
	task := platform.Task{Task: mesh.Task{ID: "sh"}, PID: cmd.Process.Pid, Parent: true}
	before := look(t, m, meter.Clocks, task).Tasks["sh"]
	fmt.Fprintln(in)
	lines := bufio.NewScanner(out)
	for n := 0; n < 2 && lines.Scan(); n++ { // the shell's own times, and its children's
	}
	after := look(t, m, meter.Clocks, task).Tasks["sh"]
	task.Parent = false
	own := look(t, m, meter.Clocks, task).Tasks["sh"]
	children := time.Duration(0)
	for _, text := range strings.Fields(lines.Text()) {
		d := must.Get(time.ParseDuration(text))(t)
		children += d
	}
	counted := time.Duration(after.CPU - before.CPU)
	t.Logf("%v counted, %v of it in the shell, %v of its children by the shell", counted, time.Duration(own.CPU), children)
	const tick = 10 * time.Millisecond
	if children < 2*tick || counted < children-3*tick || counted > children+time.Duration(own.CPU)+3*tick {
		t.Errorf("%v counted, want %v of children and what the shell used itself", counted, children)
	}
}

func TestDepths(t *testing.T) {
	b, m := startBurner(t), newLocal(t)
	r := look(t, m, meter.Full, b.task()).Tasks["burner"]
	if d := difftest.Wrong("r.CPU <= 0", r.CPU <= 0, "r.RSS < 1<<20", r.RSS < 1<<20, "r.Peak < r.RSS", r.Peak < r.RSS, "r.Voluntary < 1", r.Voluntary < 1); d != "" {
		t.Errorf("%s: %+v", d, r)
	}
	if r.PSS == nil || *r.PSS < 1<<16 || *r.PSS > r.RSS {
		t.Errorf("PSS %v of RSS %d", r.PSS, r.RSS)
	}
	if r := look(t, m, meter.Edge, b.task()).Tasks["burner"]; r.PSS != nil || r.Voluntary < 1 {
		t.Errorf("at an edge: %+v", r)
	}
	if r := look(t, m, meter.Counters, b.task()).Tasks["burner"]; r.Voluntary != 0 || r.RSS == 0 {
		t.Errorf("counters: %+v", r)
	}
}

func TestTaskThatIsGone(t *testing.T) {
	b, m := startBurner(t), newLocal(t)
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
	l := look(t, m, meter.Full, b.task(), platform.Task{Task: mesh.Task{ID: "remote"}}, platform.Task{Task: mesh.Task{ID: "self"}, PID: os.Getpid()})
	if len(l.Tasks) != 1 || l.Tasks["self"].CPU == 0 {
		t.Errorf("read %+v", l.Tasks)
	}
	if err := l.Missing["burner"]; !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("ended task: %v", err)
	}
	if err := l.Missing["remote"]; !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("task without a process: %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	cancel(why)
	if _, err := m.Read(ctx, nil, meter.Full); !errors.Is(err, why) {
		t.Errorf("cancelled: %v", err)
	}
}

// The node has burned at least what one of its processes has, tick for tick.
func TestNode(t *testing.T) {
	b, m := startBurner(t), newLocal(t)
	before := look(t, m, meter.Counters, b.task())
	b.ask("burn 300000000 over 300000000")
	after := look(t, m, meter.Counters, b.task())
	if before.Node == nil || after.Node == nil {
		t.Fatalf("no node: %v, %v", before.NodeErr, after.NodeErr)
	}
	node, task := after.Node.Busy-before.Node.Busy, after.Tasks["burner"].CPU-before.Tasks["burner"].CPU
	wall := after.Node.At.Sub(before.Node.At)
	const tick = int64(10 * time.Millisecond)
	most := int64(wall)*int64(meter.Host().CPUs) + 10*tick
	t.Logf("node %v, task %v over %v", time.Duration(node), time.Duration(task), wall)
	if node < task*8/10-2*tick || node > most {
		t.Errorf("node burned %v, the burner on it %v in %v", time.Duration(node), time.Duration(task), wall)
	}
}

func TestHost(t *testing.T) {
	env := meter.Host()
	if d := difftest.Wrong(`env.OS != "linux"`, env.OS != "linux", `env.Kernel == ""`, env.Kernel == "", "env.CPUs < 1", env.CPUs < 1, "env.MemoryMB < 64", env.MemoryMB < 64, "env.Arch != runtime.GOARCH", env.Arch != runtime.GOARCH); d != "" {
		t.Errorf("%s: %+v", d, env)
	}
	if runtime.GOARCH == "amd64" && env.CPUModel == "" {
		t.Error("no CPU model")
	}
}

// Twenty tasks, as in a small topology with sidecars. Reading must not disturb the tasks.
func BenchmarkRead20Tasks(b *testing.B) {
	m := newLocal(b)
	tasks := make([]platform.Task, 20)
	for i := range tasks {
		tasks[i] = platform.Task{Task: mesh.Task{ID: fmt.Sprint(i)}, PID: os.Getpid()}
	}
	for _, d := range []struct {
		name  string
		depth meter.Depth
	}{{"counters", meter.Counters}, {"edge", meter.Edge}, {"full", meter.Full}} {
		b.Run(d.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if l := look(b, m, d.depth, tasks...); len(l.Tasks) != len(tasks) {
					b.Fatal(l.Missing)
				}
			}
		})
	}
}
