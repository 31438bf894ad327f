// Package worker runs a command for tare in a load worker pod. The [Server] runs
// in the pod and listens on the loopback address only. The [Client] calls it
// through a forwarded connection.
//
// Connections may break at any time. The server therefore keeps the command's
// output, clients read it by offset, and starts are idempotent. A broken
// connection costs time and loses no byte.
package worker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/httpserver"
)

// Command is a command for a worker. Path is a path on the worker's system.
type Command struct {
	// ID is the caller's name for this run. A second start with the same ID has no effect.
	ID    string   `json:"id"`
	Path  string   `json:"path"`
	Args  []string `json:"args,omitempty"`
	Env   []string `json:"env,omitempty"` // added to the worker's own, "K=V"
	Stdin []byte   `json:"stdin,omitempty"`
}

// Status is the state of a run.
type Status struct {
	ID      string `json:"id"`
	Ended   bool   `json:"ended"`
	Exit    int    `json:"exit"`            // exit code, -1 if ended by a signal, or still running
	State   string `json:"state,omitempty"` // how it ended, "signal: killed"
	Stopped bool   `json:"stopped,omitempty"`
	Stdout  int64  `json:"stdout"` // bytes written so far
	Stderr  int64  `json:"stderr"`
}

// Streams of a run that can be read.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

type stopRequest struct {
	Grace time.Duration `json:"grace"` // ns until it is killed
}

const (
	// maxRequest bounds the body of a request (a command with its standard input), in bytes.
	maxRequest = 64 << 20
	// endGrace is the time between SIGTERM and SIGKILL for a command when the server stops.
	endGrace = time.Second
)

// Server runs one command at a time for a client with the token.
type Server struct {
	*httpserver.TokenServer
	root string // parent of the commands' working directories

	mu   sync.Mutex
	runs map[string]*run
	last *run
}

// NewServer returns a server whose commands run in new directories under root. root must exist.
func NewServer(token, root string) (*Server, error) {
	on, err := httpserver.NewTokenServer(token)
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	if info, err := os.Stat(root); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("start worker: %s is not a directory", root)
	}
	s := &Server{TokenServer: on, root: root, runs: map[string]*run{}}
	s.HandleFunc("POST /run", s.start)
	s.HandleFunc("GET /status", s.withRun(s.status))
	s.HandleFunc("GET /stdout", s.withRun(s.stream(Stdout)))
	s.HandleFunc("GET /stderr", s.withRun(s.stream(Stderr)))
	s.HandleFunc("GET /files", s.withRun(s.files))
	s.HandleFunc("POST /stop", s.withRun(s.stop))
	return s, nil
}

// Serve serves on l until ctx ends. It then stops a running command.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer s.end()
	return s.TokenServer.Serve(ctx, l)
}

// end stops a running command and waits for it.
func (s *Server) end() {
	s.mu.Lock()
	r := s.last
	s.mu.Unlock()
	if r == nil {
		return
	}
	select {
	case <-r.done:
		return
	default:
	}
	_ = r.stop(endGrace)
	<-r.done
}

// start starts a command unless a run with its ID exists.
func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	var c Command
	if !httpserver.Decode(w, r, maxRequest, &c) {
		return
	}
	if err := c.check(); err != nil {
		httpserver.Refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.runs[c.ID]; ok {
		httpserver.Answer(w, http.StatusOK, known.status())
		return
	}
	if s.last != nil && !s.last.status().Ended {
		httpserver.Refuse(w, http.StatusConflict, "command %s still runs", s.last.id)
		return
	}
	started, err := start(s.root, c)
	if err != nil {
		httpserver.Refuse(w, http.StatusUnprocessableEntity, "start %s: %v", c.Path, err)
		return
	}
	s.runs[c.ID], s.last = started, started
	httpserver.Answer(w, http.StatusCreated, started.status())
}

// check refuses a command without a path, or with an ID that is not a name of a directory.
func (c *Command) check() error {
	if c.ID == "" || len(c.ID) > 64 || strings.Trim(c.ID, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" || c.Path == "" {
		return errors.New("a command has a path, and an id of letters, digits and -")
	}
	return nil
}

// withRun passes the run that a request names to do.
func (s *Server) withRun(do func(http.ResponseWriter, *http.Request, *run)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Query().Get("run")
		s.mu.Lock()
		known, ok := s.runs[id]
		s.mu.Unlock()
		if !ok {
			httpserver.Refuse(w, http.StatusNotFound, "there is no run %.80q", id)
			return
		}
		do(w, r, known)
	}
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request, of *run) {
	httpserver.Answer(w, http.StatusOK, of.status())
}

// stream writes the command's output from an offset until the command has ended.
func (s *Server) stream(name string) func(http.ResponseWriter, *http.Request, *run) {
	return func(w http.ResponseWriter, r *http.Request, of *run) {
		from, err := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
		if size := of.output[name].length(); err != nil || from < 0 || from > size {
			httpserver.Refuse(w, http.StatusRequestedRangeNotSatisfiable, "there is no offset %.40q in %d bytes", r.URL.Query().Get("from"), size)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		flush := http.NewResponseController(w)
		_ = flush.Flush() // the header, so that the client sees a response
		// An error is a broken connection, and the client retries.
		_ = of.output[name].copyFrom(w, from, func() { _ = flush.Flush() }, r.Context().Done())
	}
}

// files writes a tar archive of the command's directory.
func (s *Server) files(w http.ResponseWriter, _ *http.Request, of *run) {
	if !of.status().Ended {
		httpserver.Refuse(w, http.StatusConflict, "command %s still runs", of.id)
		return
	}
	w.Header().Set("Content-Type", "application/x-tar")
	archive := tar.NewWriter(w)
	err := filepath.WalkDir(of.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return addFile(archive, of.dir, path)
	})
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client must not accept an incomplete archive
	}
}

func addFile(archive *tar.Writer, dir, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: info.Size(), ModTime: info.ModTime()}); err != nil {
		return err
	}
	_, err = io.CopyN(archive, f, info.Size())
	return err
}

func (s *Server) stop(w http.ResponseWriter, r *http.Request, of *run) {
	var asked stopRequest
	if !httpserver.Decode(w, r, 4096, &asked) {
		return
	}
	if err := of.stop(asked.Grace); err != nil {
		httpserver.Refuse(w, http.StatusInternalServerError, "%v", err)
		return
	}
	httpserver.Answer(w, http.StatusOK, of.status())
}

// outputDelay bounds the wait for the output of an ended command. A grandchild
// may keep the output open.
const outputDelay = 2 * time.Second

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
