package proc

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// AllowedCPUs lists the processors that this process may use, in ascending order.
func AllowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("list the allowed processors: %w", err)
	}
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// pinned calls start with the calling thread bound to cpus, and restores the thread.
// The child inherits the binding. It runs on the starter's own thread.
func pinned(cpus []int, start func() error) error {
	if len(cpus) == 0 {
		return start()
	}
	var before, want, got unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("read the processor affinity: %w", err)
	}
	for _, n := range cpus {
		want.Set(n)
	}
	if err := unix.SchedSetaffinity(0, &want); err != nil {
		return fmt.Errorf("pin to processors %v: %w", cpus, err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &before) }()
	// The kernel ignores CPUs that do not exist.
	if err := unix.SchedGetaffinity(0, &got); err != nil {
		return fmt.Errorf("read the processor affinity: %w", err)
	}
	for _, n := range cpus {
		if !got.IsSet(n) {
			return fmt.Errorf("pin to CPUs %v: CPU %d does not exist, or this process may not use it", cpus, n)
		}
	}
	return start()
}

// peakUnit is the unit of the peak of memory in getrusage(2), bytes.
const peakUnit = 1 << 10

// waitExited returns once the process has ended, without reaping it.
func waitExited(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// adoptOrphans makes this process the parent of descendants whose own parent ends, such as a helper that was forked twice. They
// can then be found and ended.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

func killGroup(pid int) { _ = unix.Kill(-pid, unix.SIGKILL) }

var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
})

// identify reads who a process is. It returns fs.ErrNotExist when it has ended (a zombie has).
func identify(pid int) (identity, error) {
	boot, err := bootID()
	if err != nil {
		return identity{}, err
	}
	p, err := procfs.NewProc(pid)
	if err != nil {
		return identity{}, err
	}
	stat, err := p.Stat()
	if err != nil {
		return identity{}, err
	}
	if stat.State == "Z" || stat.State == "X" {
		return identity{}, fs.ErrNotExist
	}
	return identity{PID: pid, Start: stat.Starttime, Boot: boot}, nil
}
