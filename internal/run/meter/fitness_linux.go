package meter

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/routine"
)

// Examine observes the machine for a while. It uses almost no CPU itself.
func Examine(ctx context.Context, period time.Duration) (Fitness, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return Fitness{}, fmt.Errorf("examine the machine: %w", err)
	}
	f := Fitness{}
	before := lookAround(fs)
	f.Lateness = wakings(ctx, period)
	after := lookAround(fs)
	if err := ctx.Err(); err != nil {
		return Fitness{}, context.Cause(ctx)
	}
	f.Period = after.at.Sub(before.at)
	if l, err := fs.LoadAvg(); err == nil {
		f.Load = &l.Load1
	}
	if all := after.cpu - before.cpu; all > 0 {
		f.Steal = new((after.steal - before.steal) / all)
	}
	if before.pressure != nil && after.pressure != nil {
		f.Pressure = new(min(1, (*after.pressure-*before.pressure)/f.Period.Seconds()))
	}
	cores := map[int]BusyProcess{}
	for pid, p := range after.processes {
		if was, ok := before.processes[pid]; ok && pid != os.Getpid() {
			cores[pid] = BusyProcess{pid, p.Name, (p.Cores - was.Cores) / f.Period.Seconds()}
		}
	}
	f.Busy = busiest(cores)
	f.Quota = quota(cgroupRoot, groupsOfTare())
	if before.throttled != nil && after.throttled != nil {
		f.Throttled = new(*after.throttled - *before.throttled)
	}
	return f, nil
}

// surroundings are the counters of one reading.
type surroundings struct {
	at         time.Time
	cpu, steal float64  // s since boot, all processors
	pressure   *float64 // s since boot
	throttled  *int64
	processes  map[int]BusyProcess // Cores is CPU seconds here
}

func lookAround(fs procfs.FS) surroundings {
	s := surroundings{at: time.Now(), processes: map[int]BusyProcess{}, throttled: throttled(groupsOfTare())}
	if stat, err := fs.Stat(); err == nil {
		c := stat.CPUTotal
		s.steal = c.Steal
		s.cpu = c.User + c.Nice + c.System + c.Idle + c.Iowait + c.IRQ + c.SoftIRQ + c.Steal // guest time is user time already
	}
	if p, err := fs.PSIStatsForResource("cpu"); err == nil && p.Some != nil {
		s.pressure = new(float64(p.Some.Total) / 1e6)
	}
	procs, err := fs.AllProcs()
	if err != nil {
		return s
	}
	for _, p := range procs {
		if stat, err := p.Stat(); err == nil {
			s.processes[p.PID] = BusyProcess{PID: p.PID, Name: stat.Comm, Cores: stat.CPUTime()}
		}
	}
	return s
}

const nap = time.Millisecond

// wakings sleeps repeatedly on its own thread, as the load engine does, and returns the wake-up
// latencies, ascending. PR_SET_TIMERSLACK disables coalescing of timers, and the thread ends with
// the goroutine.
func wakings(ctx context.Context, period time.Duration) []time.Duration {
	late := make(chan []time.Duration)
	go routine.Guarded(func() {
		runtime.LockOSThread()
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // if refused, wake-ups are 50 µs later
		all := make([]time.Duration, 0, int(period/nap)+1)
		for end := time.Now().Add(period); time.Now().Before(end) && ctx.Err() == nil; {
			due := time.Now().Add(nap)
			ts := unix.NsecToTimespec(int64(nap))
			if err := unix.Nanosleep(&ts, nil); err != nil {
				continue // a signal, not the timer
			}
			all = append(all, time.Since(due))
		}
		late <- all
	})()
	all := <-late
	slices.Sort(all)
	return all
}

const cgroupRoot = "/sys/fs/cgroup"

// groupsOfTare returns the control groups of this process.
func groupsOfTare() []string {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	return ownGroups(cgroupRoot, string(b))
}

// ownGroups are the directories below root of the control groups that may limit this process's CPU: of version 2,
// and of the controller cpu of version 1. listed is /proc/self/cgroup.
func ownGroups(root, listed string) (groups []string) {
	for line := range strings.Lines(listed) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) < 3:
		case fields[1] == "":
			groups = append(groups, filepath.Join(root, fields[2]))
		case slices.Contains(strings.Split(fields[1], ","), "cpu"):
			groups = append(groups, filepath.Join(root, "cpu", fields[2]))
		}
	}
	return groups
}

// quota is the lowest limit of the groups and their ancestors below root, in cores.
func quota(root string, groups []string) *float64 {
	var least *float64
	for _, group := range groups {
		for ; strings.HasPrefix(group, root); group = filepath.Dir(group) {
			if cores, ok := limitOf(group); ok && (least == nil || cores < *least) {
				least = &cores
			}
		}
	}
	return least
}

// limitOf is the limit of one group in cores. Without one, version 2 has max and version 1 has -1.
func limitOf(group string) (cores float64, ok bool) {
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(group, name)) // absent in the other version
		return string(b)
	}
	fields := strings.Fields(read("cpu.max") + " " + read("cpu.cfs_quota_us") + " " + read("cpu.cfs_period_us"))
	if len(fields) != 2 {
		return 0, false
	}
	limit, err := strconv.ParseFloat(fields[0], 64)
	period, err2 := strconv.ParseFloat(fields[1], 64)
	return limit / period, err == nil && err2 == nil && limit > 0 && period > 0
}

// throttled is the number of times the groups were throttled, nil if unknown.
func throttled(groups []string) (sum *int64) {
	for _, group := range groups {
		b, err := os.ReadFile(filepath.Join(group, "cpu.stat"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			n, ok := strings.CutPrefix(strings.TrimSpace(line), "nr_throttled ")
			if v, err := strconv.ParseInt(n, 10, 64); ok && err == nil {
				if sum != nil {
					v += *sum
				}
				sum = &v
			}
		}
	}
	return sum
}
