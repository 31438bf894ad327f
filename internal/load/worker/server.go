package worker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/httpserver"
)

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
