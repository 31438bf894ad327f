package meter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/cgroup"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// Local reads processes of this machine. Only the proportional set size of other
// users' processes needs privileges.
type Local struct {
	fs procfs.FS
}

// NewLocal makes the meter of this machine's processes.
func NewLocal() (*Local, error) {
	pfs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, fmt.Errorf("read /proc: %w", err)
	}
	return &Local{fs: pfs}, nil
}

// Follower implements [Meter].
func (*Local) Follower() Follower { return nil }

// Read reads the CPU clocks of all tasks first, so that their times are close
// together, then the node, then memory and context switches.
func (l *Local) Read(ctx context.Context, tasks []platform.Task, depth Depth) (Look, error) {
	if err := ctx.Err(); err != nil {
		return Look{}, context.Cause(ctx)
	}
	look := Look{Tasks: make(map[string]result.Reading, len(tasks)), Missing: map[string]error{}}
	for _, t := range tasks {
		r, err := readClock(t.PID)
		if err != nil {
			look.Missing[t.ID] = err
			continue
		}
		look.Tasks[t.ID] = r
	}
	for _, t := range tasks { // after the clocks, whose times must be close together
		if r, ok := look.Tasks[t.ID]; ok && t.Parent {
			r.CPU += l.ofChildren(t.PID)
			look.Tasks[t.ID] = r
		}
	}
	if depth == Clocks {
		return look, nil
	}
	look.Node, look.NodeErr = l.node()
	for _, t := range tasks {
		if r, ok := look.Tasks[t.ID]; ok {
			l.fill(&r, t.PID, depth)
			look.Tasks[t.ID] = r
		}
	}
	return look, nil
}

const (
	// clockTries is the maximum number of tries for an uninterrupted reading of a clock.
	clockTries = 4
	// clockSpread is the maximum time of an accepted reading. An uninterrupted system call takes a microsecond.
	clockSpread = 20 * time.Microsecond
)

// Busy implements [Busy].
func (l *Local) Busy() (int64, error) {
	node, err := l.node()
	if err != nil {
		return 0, err
	}
	return node.Busy, nil
}

// readClock reads the CPU time of a process with all its threads, ended ones included, in
// nanoseconds. The reader may be interrupted between the clock and its time stamp, so the tightest
// of several tries is used.
func readClock(pid int) (result.Reading, error) {
	var best result.Reading
	tightest := time.Duration(-1)
	for range clockTries {
		before := time.Now()
		cpu, err := processCPU(pid)
		took := time.Since(before)
		if err != nil {
			return result.Reading{}, err
		}
		if tightest < 0 || took < tightest {
			tightest = took
			best = result.Reading{At: before.Add(took / 2), CPU: cpu}
		}
		if tightest <= clockSpread {
			break
		}
	}
	return best, nil
}

// processCPU returns the ID of a process's CPU clock, as clock_getcpuclockid(3) computes it: the
// inverted pid above the clock type. Type 2 (CPUCLOCK_SCHED) is the scheduler's precise
// accounting.
func processCPU(pid int) (ns int64, err error) {
	if pid <= 0 {
		return 0, fmt.Errorf("read CPU clock: %w: the task has no process on this machine", errors.ErrUnsupported)
	}
	clock := int32(^pid)<<3 | 2
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESRCH) {
			return 0, fmt.Errorf("read CPU clock: process %d has ended: %w", pid, fs.ErrNotExist)
		}
		return 0, fmt.Errorf("read CPU clock of process %d: %w", pid, err)
	}
	return ts.Nano(), nil
}

// ofChildren is the CPU time of the ended children of a process, and of their ended children, in nanoseconds. The kernel counts it
// in ticks of 10 ms.
func (l *Local) ofChildren(pid int) int64 {
	const tick = int64(10 * time.Millisecond) // USER_HZ is 100
	p, err := l.fs.Proc(pid)
	if err != nil {
		return 0
	}
	stat, err := p.Stat()
	if err != nil {
		return 0
	}
	return int64(stat.CUTime+stat.CSTime) * tick
}

// fill adds values from /proc. Values that it lacks remain absent.
func (l *Local) fill(r *result.Reading, pid int, depth Depth) {
	p, err := l.fs.Proc(pid)
	if err != nil {
		return
	}
	if depth >= Full { // before the peak, which a growing process may pass meanwhile
		if rollup, err := p.ProcSMapsRollup(); err == nil {
			r.PSS = new(int64(rollup.Pss))
		}
	}
	if status, err := p.NewStatus(); err == nil {
		r.RSS = int64(status.VmRSS)
		r.Peak = int64(status.VmHWM)
	}
	if depth >= Edge {
		r.Voluntary, r.Involuntary = switches(pid)
		if g := cgroup.Of(pid); g != nil {
			if c, err := g.Counts(); err == nil {
				r.Throttled, r.Periods, r.Reached, r.OOMKills = &c.Time, &c.Periods, &c.Throttled, c.OOMKills
			}
		}
	}
}

// node reads the whole machine. The kernel counts here in ticks (10 ms at the
// usual USER_HZ of 100): a difference over a whole measure phase is good, over
// a second it is coarse.
func (l *Local) node() (*result.NodeReading, error) {
	before := time.Now()
	stat, err := l.fs.Stat()
	took := time.Since(before)
	if err != nil {
		return nil, fmt.Errorf("read /proc/stat: %w", err)
	}
	c := stat.CPUTotal
	// Guest time is part of user and nice already.
	busy := c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ
	return &result.NodeReading{At: before.Add(took / 2), Busy: nanoseconds(busy), Steal: nanoseconds(c.Steal)}, nil
}

func nanoseconds(seconds float64) int64 { return int64(seconds * float64(time.Second)) }

// switches sums the context switches of a process's current threads, as the kernel keeps none of
// ended threads. It runs at the edges of the measure phase, and processes have many threads, so it
// avoids the garbage of a general parser and takes a third of its time.
func switches(pid int) (voluntary, involuntary int64) {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return 0, 0
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0, 0
	}
	buf := make([]byte, 4096)
	for _, name := range names {
		status, err := readAt(int(dir.Fd()), name+"/status", buf)
		if err != nil {
			continue // the thread has ended
		}
		voluntary += field(status, "\nvoluntary_ctxt_switches:")
		involuntary += field(status, "\nnonvoluntary_ctxt_switches:")
	}
	return voluntary, involuntary
}

// readAt reads a file that fits into buf, as the files of one thread do.
func readAt(dir int, name string, buf []byte) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	return buf[:max(n, 0)], err
}

// field is the number after name, or 0.
func field(status []byte, name string) (n int64) {
	i := bytes.Index(status, []byte(name))
	if i < 0 {
		return 0
	}
	for _, c := range bytes.TrimLeft(status[i+len(name):], " \t") {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

const governorGlob = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"

// Host describes this machine. Properties that cannot be read are absent.
func Host() result.Environment {
	env := result.Environment{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Kernel: kernel(), Governor: governor()}
	pfs, err := procfs.NewDefaultFS()
	if err != nil {
		return env
	}
	// All processors of the machine, not only those available to this process.
	if stat, err := pfs.Stat(); err == nil && len(stat.CPU) > 0 {
		env.CPUs = len(stat.CPU)
	}
	if cpus, err := pfs.CPUInfo(); err == nil {
		env.CPUModel = model(cpus)
	}
	if mem, err := pfs.Meminfo(); err == nil && mem.MemTotalBytes != nil {
		env.MemoryMB = int64(*mem.MemTotalBytes / 1e6)
	}
	return env
}

// AvailableMemory is the memory that new processes can use without swapping, in bytes, 0 if unknown.
func AvailableMemory() int64 {
	pfs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	mem, err := pfs.Meminfo()
	if err != nil || mem.MemAvailableBytes == nil {
		return 0
	}
	return int64(*mem.MemAvailableBytes)
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// model names every processor model of the machine. A machine may have two.
func model(cpus []procfs.CPUInfo) string {
	var names []string
	for _, c := range cpus {
		if c.ModelName != "" {
			names = append(names, strings.Join(strings.Fields(c.ModelName), " "))
		}
	}
	return distinct(names)
}

// governor is the frequency governor: with any other than "performance", equal work takes different times.
func governor() string {
	paths, err := filepath.Glob(governorGlob)
	if err != nil {
		return ""
	}
	var names []string
	for _, path := range paths {
		if b, err := os.ReadFile(path); err == nil {
			names = append(names, strings.TrimSpace(string(b)))
		}
	}
	return distinct(names)
}

func distinct(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
