package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// outputDelay bounds the wait for the output of an ended command. A grandchild
// may keep the output open.
const outputDelay = 2 * time.Second

// run is one started command.
type run struct {
	id     string
	dir    string // working directory, which receives the result files
	cmd    *exec.Cmd
	output map[string]*output
	done   chan struct{}

	mu      sync.Mutex
	stopped bool
}

// start runs c in a new directory under root.
func start(root string, c Command) (*run, error) {
	r := &run{id: c.ID, dir: filepath.Join(root, c.ID, "work"), output: map[string]*output{}, done: make(chan struct{})}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for it: %w", err)
	}
	for _, name := range []string{Stdout, Stderr} {
		o, err := newOutput(filepath.Join(root, c.ID, name))
		if err != nil {
			return nil, err
		}
		r.output[name] = o
	}
	r.cmd = exec.Command(c.Path, c.Args...)
	r.cmd.Env = append(os.Environ(), c.Env...)
	r.cmd.Dir = r.dir
	r.cmd.Stdin = bytes.NewReader(c.Stdin)
	r.cmd.Stdout, r.cmd.Stderr = r.output[Stdout], r.output[Stderr]
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.WaitDelay = outputDelay
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go r.wait()
	return r, nil
}

func (r *run) wait() {
	_ = r.cmd.Wait() // ProcessState has the exit status
	for _, o := range r.output {
		o.end()
	}
	close(r.done)
}

func (r *run) status() Status {
	r.mu.Lock()
	stopped := r.stopped
	r.mu.Unlock()
	s := Status{ID: r.id, Exit: -1, Stopped: stopped, Stdout: r.output[Stdout].length(), Stderr: r.output[Stderr].length()}
	select {
	case <-r.done:
		s.Ended, s.Exit, s.State = true, r.cmd.ProcessState.ExitCode(), r.cmd.ProcessState.String()
	default:
	}
	return s
}

// stop interrupts the command, and kills its group after grace. It does not wait.
func (r *run) stop(grace time.Duration) error {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	// os.Process does not signal a reused PID.
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", r.id, err)
	}
	go func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-r.done:
		case <-timer.C:
			if r.cmd.Process.Signal(syscall.Signal(0)) == nil {
				_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
			}
		}
	}()
	return nil
}

// output is a command's output. It is readable from any offset while it grows.
type output struct {
	file *os.File

	mu    sync.Mutex
	size  int64
	ended bool
	grown chan struct{} // closed at the next growth, or end
}

func newOutput(path string) (*output, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep its output: %w", err)
	}
	return &output{file: f, grown: make(chan struct{})}, nil
}

// Write implements [io.Writer], and exec calls it from one goroutine.
func (o *output) Write(b []byte) (int, error) {
	n, err := o.file.Write(b)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.size += int64(n)
	close(o.grown)
	o.grown = make(chan struct{})
	return n, err
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	close(o.grown)
	o.grown = make(chan struct{})
}

func (o *output) length() int64 {
	size, _, _ := o.state()
	return size
}

// copyFrom copies the output from an offset as it grows, until the command has ended or stop is closed.
func (o *output) copyFrom(w io.Writer, from int64, flush func(), stop <-chan struct{}) error {
	for {
		size, ended, grown := o.state()
		if from < size {
			n, err := io.Copy(w, io.NewSectionReader(o.file, from, size-from))
			from += n
			if err != nil {
				return err
			}
			flush()
			continue
		}
		if ended {
			return nil
		}
		select {
		case <-grown:
		case <-stop:
			return nil
		}
	}
}

func (o *output) state() (size int64, ended bool, grown <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size, o.ended, o.grown
}
