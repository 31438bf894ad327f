//go:build unix

package proc

import (
	"runtime"
	"syscall"
	"time"
)

// Usage is the resource usage of a process from its start to its end, with all
// threads, as the kernel reports it to the parent (getrusage(2)). CPU time has
// microsecond precision.
type Usage struct {
	CPU         time.Duration
	Peak        int64 // resident memory, bytes
	Voluntary   int64 // context switches
	Involuntary int64 // context switches
}

// Usage returns the resource usage. It is not ok while the process runs.
func (p *Process) Usage() (u Usage, ok bool) {
	select {
	case <-p.done:
	default:
		return u, false
	}
	state := p.cmd.ProcessState
	if state == nil {
		return u, false
	}
	u.CPU = state.UserTime() + state.SystemTime()
	r, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return u, true
	}
	u.Peak, u.Voluntary, u.Involuntary = int64(r.Maxrss), int64(r.Nvcsw), int64(r.Nivcsw)
	if runtime.GOOS == "linux" { // in KiB there, in bytes on macOS
		u.Peak <<= 10
	}
	return u, true
}
