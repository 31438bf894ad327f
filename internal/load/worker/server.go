package worker

import (
	"archive/tar"
	"context"
	"crypto/subtle"
	"encoding/json"
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

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/base/httpserver"
)

const (
	// maxRequest bounds the body of a request (a command with its standard input), in bytes.
	maxRequest = 64 << 20
	// headerTimeout bounds the receipt of a request's header.
	headerTimeout = 10 * time.Second
	// endGrace is the time between SIGTERM and SIGKILL for a command when the server stops.
	endGrace = time.Second
)

// Server runs one command at a time for a client with the token.
type Server struct {
	token string
	root  string // parent of the commands' working directories
	mux   *http.ServeMux
	done  chan struct{}
	once  sync.Once

	mu   sync.Mutex
	runs map[string]*run
	last *run
}

// NewServer returns a server whose commands run in new directories under root. root must exist.
func NewServer(token, root string) (*Server, error) {
	if len(token) < 16 {
		return nil, fmt.Errorf("start worker: the token has %d characters, fewer than 16", len(token))
	}
	if info, err := os.Stat(root); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("start worker: %s is no directory", root)
	}
	s := &Server{token: token, root: root, mux: http.NewServeMux(), done: make(chan struct{}), runs: map[string]*run{}}
	s.mux.HandleFunc("POST /run", s.start)
	s.mux.HandleFunc("GET /status", s.withRun(s.status))
	s.mux.HandleFunc("GET /stdout", s.withRun(s.stream(Stdout)))
	s.mux.HandleFunc("GET /stderr", s.withRun(s.stream(Stderr)))
	s.mux.HandleFunc("GET /files", s.withRun(s.files))
	s.mux.HandleFunc("POST /stop", s.withRun(s.stop))
	s.mux.HandleFunc("GET /clock", s.clock)
	s.mux.HandleFunc("POST /done", s.finish)
	return s, nil
}

// Serve serves on l until ctx ends or a client calls Done. It then stops a running command.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: 16 << 10}
	defer s.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return httpserver.Serve(ctx, l, server)
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

// ServeHTTP serves requests with the token and refuses others.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme, credentials, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare([]byte(strings.TrimSpace(credentials)), []byte(s.token)) != 1 {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tare"`)
		refuse(w, http.StatusUnauthorized, "a request needs the token of the run")
		return
	}
	s.mux.ServeHTTP(w, r)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, format string, args ...any) {
	answer(w, status, refusal{fmt.Sprintf(format, args...)})
}

// start starts a command unless a run with its ID exists.
func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	c, err := readCommand(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.runs[c.ID]; ok {
		answer(w, http.StatusOK, known.status())
		return
	}
	if s.last != nil && !s.last.status().Ended {
		refuse(w, http.StatusConflict, "command %s still runs", s.last.id)
		return
	}
	started, err := start(s.root, c)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, "start %s: %v", c.Path, err)
		return
	}
	s.runs[c.ID], s.last = started, started
	answer(w, http.StatusCreated, started.status())
}

// readCommand reads the command of a request. Its ID is a name of a directory.
func readCommand(from io.Reader) (c Command, err error) {
	d := json.NewDecoder(from)
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Command{}, fmt.Errorf("read the command: %w", err)
	}
	if c.ID == "" || len(c.ID) > 64 || strings.Trim(c.ID, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" || c.Path == "" {
		return Command{}, errors.New("a command has a path, and an id of letters, digits and -")
	}
	return c, nil
}

// withRun passes the run that a request names to do.
func (s *Server) withRun(do func(http.ResponseWriter, *http.Request, *run)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Query().Get("run")
		s.mu.Lock()
		known, ok := s.runs[id]
		s.mu.Unlock()
		if !ok {
			refuse(w, http.StatusNotFound, "there is no run %.80q", id)
			return
		}
		do(w, r, known)
	}
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request, of *run) {
	answer(w, http.StatusOK, of.status())
}

// stream writes the command's output from an offset until the command has ended.
func (s *Server) stream(name string) func(http.ResponseWriter, *http.Request, *run) {
	return func(w http.ResponseWriter, r *http.Request, of *run) {
		from, err := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
		if size := of.output[name].length(); err != nil || from < 0 || from > size {
			refuse(w, http.StatusRequestedRangeNotSatisfiable, "there is no offset %.40q in %d bytes", r.URL.Query().Get("from"), size)
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
		refuse(w, http.StatusConflict, "command %s still runs", of.id)
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
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4096)).Decode(&asked); err != nil {
		refuse(w, http.StatusBadRequest, "read the request: %v", err)
		return
	}
	if err := of.stop(asked.Grace); err != nil {
		refuse(w, http.StatusInternalServerError, "%v", err)
		return
	}
	answer(w, http.StatusOK, of.status())
}

func (s *Server) clock(w http.ResponseWriter, _ *http.Request) {
	received := time.Now().UnixNano()
	answer(w, http.StatusOK, clock.Stamps{Received: received, Sent: time.Now().UnixNano()})
}

func (s *Server) finish(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusNoContent)
	s.once.Do(func() { close(s.done) })
}
