//go:build unix

package proc

import (
	"syscall"
	"time"
)

// Usage is the resource usage of a process from its start to its end, with all
// threads, as the kernel reports it to the parent (getrusage(2)). CPU time has
// microsecond precision. Processes that it waited for are included.
type Usage struct {
	Wall        time.Duration // from its start to its end, Linux
	CPU         time.Duration // User and System
	User        time.Duration
	System      time.Duration
	Voluntary   int64 // context switches
	Involuntary int64 // context switches
	// Peak is the peak resident memory of its largest process, bytes. It begins with the peak of the program that starts it.
	Peak int64
	// Exit is the exit code, or 128 and the signal that ended it, as in shells.
	Exit int
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
	u.Wall, u.User, u.System, u.Exit = p.ended.Sub(p.begun), state.UserTime(), state.SystemTime(), state.ExitCode()
	u.CPU = u.User + u.System
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		u.Exit = 128 + int(status.Signal())
	}
	r, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return u, true
	}
	u.Voluntary, u.Involuntary, u.Peak = int64(r.Nvcsw), int64(r.Nivcsw), int64(r.Maxrss)*peakUnit
	return u, true
}
