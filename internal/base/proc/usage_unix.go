//go:build unix

package proc

import (
	"syscall"
	"time"
)

// Usage is the resource usage of a process from its start to its end, with all
// threads, as the kernel reports it to the parent (getrusage(2)). CPU time has
// microsecond precision. The
// kernel's peak of memory is not in it: a child's begins with its parent's before exec.
type Usage struct {
	CPU         time.Duration
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
	u.Voluntary, u.Involuntary = int64(r.Nvcsw), int64(r.Nivcsw)
	return u, true
}
