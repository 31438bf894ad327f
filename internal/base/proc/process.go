// Package proc represents a command as data. It prints the command for pasting into a
// shell, runs it and stops it. tare starts every process here, so that none outlives it.
package proc

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/routine"
)

// tailLines is how many of the last log lines an [ExitError] carries.
const tailLines = 20

// markVariable is the environment variable with the mark of a process tree, for systems without [mark].
const markVariable = "TARE_TREE"

// pipeDelay bounds how long an exited process's output pipes are waited for: a
// grandchild may hold them open.
const pipeDelay = 2 * time.Second

// killedTimeout bounds the end of a killed process, which needs a CPU for it: with nice 19 beside 60 busy processes
// it took over five seconds.
const killedTimeout = time.Minute

// Process is a running command. It leads a new process group. The kernel kills it
// when tare dies (Linux).
type Process struct {
	PID int

	command Command
	mark    string // of its descendants, empty for none
	cmd     *exec.Cmd
	tail    tail
	// shortening is held while the log is shortened or read.
	shortening sync.Mutex
	exited     chan struct{} // closed once the process has ended, before its output is complete
	begun      time.Time     // before its start
	ended      time.Time     // set before exited is closed
	done       chan struct{}
	err        error // set before done is closed
	stopped    atomic.Bool
}

// ExitError is the error of a process that did not exit with status 0.
type ExitError struct {
	Name    string   // the program's name
	Command string   // as [Command.String] prints it
	State   string   // "exit status 1", "signal: killed"
	Log     []string // the last lines it wrote
	Stopped bool     // tare had sent SIGTERM
}

func (e *ExitError) Error() string {
	s := fmt.Sprintf("%s ended: %s\n  command: %s", e.Name, e.State, e.Command)
	if len(e.Log) == 0 {
		return s + "\n  it wrote nothing"
	}
	return s + "\n  it last wrote:\n    " + strings.Join(e.Log, "\n    ")
}

// starter returns the channel to the one goroutine that starts processes.
// It stays on one OS thread for the life of tare, because the kernel sends a
// parent-death signal when the *thread* that forked ends, and because a child
// inherits the processor affinity of that thread.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go routine.Guarded(func() {
		runtime.LockOSThread()
		adoptOrphans()
		for f := range work {
			f()
		}
	})()
	return work
})

// Start runs c. The context bounds the starting alone: a started process runs
// until it ends or [Process.Stop] is called. Every started process is written to
// the run's state file, see [Sweep].
func Start(ctx context.Context, c Command) (*Process, error) {
	p := &Process{command: c, exited: make(chan struct{}), done: make(chan struct{})}
	if err := p.start(ctx); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name(), err)
	}
	go routine.Guarded(p.wait)()
	if c.Log != "" && c.MaxLog > 0 {
		go routine.Guarded(p.boundLog)()
	}
	return p, nil
}

func (p *Process) start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	var cpus []int
	if p.command.CPUs != "" {
		var err error
		if cpus, err = ParseCPUs(p.command.CPUs); err != nil {
			return err
		}
	}
	log, err := p.prepare()
	if err != nil {
		return err
	}
	if log != nil {
		defer log.Close()
	}
	result := make(chan error, 1)
	select {
	case starter() <- func() { result <- pinned(cpus, p.fork) }:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := <-result; err != nil {
		return err
	}
	p.PID = p.cmd.Process.Pid
	go routine.Guarded(p.watch)() // before it is registered, so that a short process has its own time
	if err := register(p.PID, p.command.String(), p.mark); err != nil {
		killGroup(p.PID)
		_ = p.reap()
		return err
	}
	return nil
}

// starting is held while a process starts, and while orphans are reaped. running are the started processes until they are reaped.
var (
	starting sync.Mutex
	running  = map[int]bool{}
)

func (p *Process) fork() error {
	starting.Lock()
	defer starting.Unlock()
	start := func() error {
		p.begun = time.Now()
		return p.cmd.Start()
	}
	if err := marking(p.mark, start); err != nil {
		return err
	}
	running[p.cmd.Process.Pid] = true
	return nil
}

func (p *Process) reap() error {
	defer func() {
		starting.Lock()
		defer starting.Unlock()
		delete(running, p.cmd.Process.Pid)
	}()
	return p.cmd.Wait()
}

// Mark returns the mark that the process and its descendants inherit, "" without [Command.Tree].
func (p *Process) Mark() string { return p.mark }

// newMark returns a number that no other process has as a limit.
func newMark() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return strconv.FormatUint(leastMark|binary.BigEndian.Uint64(b[:])>>2, 10)
}

// leastMark is above every limit that people set.
const leastMark = 1 << 61

// prepare makes the exec.Cmd and returns the log file to close once it runs.
func (p *Process) prepare() (*os.File, error) {
	c := p.command
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Env = append(os.Environ(), c.Env...)
	if c.Tree {
		p.mark = newMark()
		p.cmd.Env = append(p.cmd.Env, markVariable+"="+p.mark)
	}
	p.cmd.Dir = c.Dir
	p.cmd.Stdin = c.Stdin
	p.cmd.ExtraFiles = c.Files
	p.cmd.SysProcAttr = attributes()
	p.cmd.WaitDelay = pipeDelay
	var log *os.File
	var out io.Writer
	if c.Log == "" {
		ring := &Ring{}
		p.tail, out = ring, ring
	} else {
		f, err := os.OpenFile(c.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open its log: %w", err)
		}
		at, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("open its log: %w", err)
		}
		p.tail, out, log = logFile{path: c.Log, from: at}, f, f
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if c.Stdout != nil {
		p.cmd.Stdout = c.Stdout
	}
	return log, nil
}

// watch sets the time at which the process ended.
func (p *Process) watch() {
	waitExited(p.PID)
	p.ended = time.Now()
	close(p.exited)
}

func (p *Process) wait() {
	<-p.exited
	// The group's other members go with their leader. It is not reaped yet, so
	// its number cannot have passed to another.
	killGroup(p.PID)
	marked := killMarked(p.mark)
	err := p.reap()
	state := p.cmd.ProcessState
	switch {
	case state != nil && !state.Success():
		p.err = &ExitError{Name: p.command.name(), Command: p.command.String(), State: state.String(),
			Log: p.Tail(tailLines), Stopped: p.stopped.Load()}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		p.err = fmt.Errorf("wait for %s: %w", p.command.name(), err)
	case marked != nil:
		p.err = fmt.Errorf("kill the processes that %s started: %w", p.command.name(), marked)
	}
	close(p.done)
}

// Command returns the started command.
func (p *Process) Command() Command { return p.command }

// Done is closed once the process has ended and its output is complete.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end. The error is an [*ExitError] unless the process ended with status 0.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Tail returns the last n lines of the process's output (of its log, if it has one).
func (p *Process) Tail(n int) []string {
	p.shortening.Lock()
	defer p.shortening.Unlock()
	return LastLines(p.tail.last(), n)
}

// Signal sends a signal to the process. It returns nil if the process has ended.
func (p *Process) Signal(sig os.Signal) error {
	// os.Process keeps from signalling a reused number.
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s to %s: %w", sig, p.command.name(), err)
	}
	return nil
}

// SignalGroup sends a signal to the process and to all of its process group. It returns nil if the process has ended.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	select {
	case <-p.done: // its number may be another group's
		return nil
	default:
	}
	if err := syscall.Kill(-p.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s to the process group of %s: %w", sig, p.command.name(), err)
	}
	return nil
}

// Stop sends SIGTERM, kills the whole process group after grace or when ctx ends,
// and returns when the process has ended. It returns no error if the process had
// ended before. [Process.Wait] returns how it ended.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	p.stopped.Store(true)
	// os.Process keeps from signalling a reused number.
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.command.name(), err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.command.name(), err)
	}
	// Nothing survives SIGKILL but a process stuck in the kernel.
	stuck := time.NewTimer(pipeDelay + killedTimeout)
	defer stuck.Stop()
	select {
	case <-p.done:
		return nil
	case <-stuck.C:
		return fmt.Errorf("kill %s: process %d does not end", p.command.name(), p.PID)
	}
}

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

// String prints the command as one line that can be pasted into a POSIX shell:
// quoted, with its directory, its environment and its processors. Descriptors in
// Files have no spelling in a shell. They are named in a comment at the end.
func (c Command) String() string {
	var words []string
	for _, kv := range c.Env {
		k, v, _ := strings.Cut(kv, "=")
		words = append(words, k+"="+printable.ShellWord(v))
	}
	if c.CPUs != "" {
		words = append(words, "taskset", "-c", printable.ShellWord(c.CPUs))
	}
	words = append(words, printable.ShellWord(c.Path))
	for _, a := range c.Args {
		words = append(words, printable.ShellWord(a))
	}
	line := strings.Join(words, " ")
	if c.Dir != "" {
		line = "cd " + printable.ShellWord(c.Dir) + " && " + line
	}
	if len(c.Files) > 0 {
		line += " # with"
		for i, f := range c.Files {
			line += fmt.Sprintf(" descriptor %d: %s", i+3, strings.ReplaceAll(f.Name(), "\n", " "))
		}
	}
	return line
}

func (c Command) name() string { return filepath.Base(c.Path) }

// maxCPU is the max processor number in the kernel's CPU sets.
const maxCPU = 1023

// ParseCPUs reads a processor list as taskset writes it: numbers and ranges
// with an optional stride, "0-3,6" or "0-8:2".
func ParseCPUs(list string) ([]int, error) {
	seen := map[int]bool{}
	var cpus []int
	for _, part := range strings.Split(list, ",") {
		first, last, stride, err := parseRange(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("processor list %.40q: %w", list, err)
		}
		for n := first; n <= last; n += stride {
			if !seen[n] {
				seen[n] = true
				cpus = append(cpus, n)
			}
		}
	}
	return cpus, nil
}

func parseRange(s string) (first, last, stride int, err error) {
	span, step, strided := strings.Cut(s, ":")
	from, to, ranged := strings.Cut(span, "-")
	if first, err = parseCPU(from); err != nil {
		return 0, 0, 0, err
	}
	last, stride = first, 1
	if ranged {
		if last, err = parseCPU(to); err != nil {
			return 0, 0, 0, err
		}
	}
	if strided {
		if stride, err = parseCPU(step); err != nil {
			return 0, 0, 0, err
		}
	}
	if last < first || stride < 1 {
		return 0, 0, 0, fmt.Errorf("range %q runs backwards", s)
	}
	return first, last, stride, nil
}

func parseCPU(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n > maxCPU {
		return 0, fmt.Errorf("%q is not a processor number from 0 to %d", s, maxCPU)
	}
	return int(n), nil
}

// Command is a process to be started. Nothing in it goes through a shell.
type Command struct {
	Path  string     // absolute, or looked up on PATH
	Args  []string   // without the program's name
	Env   []string   // added to the environment tare itself has, "K=V"
	Dir   string     // working directory, empty for tare's own
	Files []*os.File // inherited as descriptors 3, 4, …
	CPUs  string     // processors it may run on, as taskset writes them, empty for any
	// At is the start time, by the clock of the host that runs it. Zero means now.
	// Only load workers in pods wait for it.
	At time.Time
	// Stdin is read to its end. Nil is empty.
	Stdin io.Reader
	// Log receives stdout and stderr (path, created 0600, appended to), but stdout only if Stdout is nil.
	Log string
	// MaxLog is about the max size of Log: a longer one loses its middle. 0: no limit.
	MaxLog int64
	// Tree ends the descendants of the process with it, in other sessions too. They inherit a
	// mark. It is for programs of users.
	Tree bool
	// Stdout, where set, receives standard output instead of Log.
	Stdout io.Writer
}
