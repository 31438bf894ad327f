package nodeagent

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/base/httpserver"
)

const (
	// headerTimeout bounds the receipt of a request's header, idleTimeout the time without a request.
	headerTimeout = 10 * time.Second
	idleTimeout   = 10 * time.Minute
	// minToken is the minimum length of the token.
	minToken = 16
)

// Server reads control groups for a client with the token.
type Server struct {
	token  string
	groups *groups
	mux    *http.ServeMux

	mu   sync.Mutex
	last *follower
	stop context.CancelFunc // of last
	ctx  context.Context    // of the server, and ends its plan
}

// NewServer returns a server for the control groups below root.
func NewServer(token, root string) (*Server, error) {
	if len(token) < minToken {
		return nil, fmt.Errorf("start node agent: the token has %d characters, fewer than %d", len(token), minToken)
	}
	g, err := openGroups(root)
	if err != nil {
		return nil, fmt.Errorf("start node agent: %w", err)
	}
	s := &Server{token: token, groups: g, mux: http.NewServeMux(), ctx: context.Background()}
	s.mux.HandleFunc("GET /clock", s.clock)
	s.mux.HandleFunc("POST /read", s.read)
	s.mux.HandleFunc("POST /follow", s.follow)
	s.mux.HandleFunc("GET /followed", s.followed)
	return s, nil
}

// Serve serves on l until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	return httpserver.Serve(ctx, l, &http.Server{Handler: s, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 16 << 10})
}

// ServeHTTP serves requests with the token and refuses others.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme, credentials, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare([]byte(strings.TrimSpace(credentials)), []byte(s.token)) != 1 {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tare"`)
		refuse(w, http.StatusUnauthorized, errors.New("the token of the run is missing"))
		return
	}
	s.mux.ServeHTTP(w, r)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error is a broken connection
}

func refuse(w http.ResponseWriter, status int, why error) { answer(w, status, refusal{why.Error()}) }

// decode reads the JSON body of a request, without unknown fields.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && d.Decode(&struct{}{}) != io.EOF {
		err = errors.New("text after the JSON object")
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("read the request: %w", err))
		return false
	}
	return true
}

func (s *Server) clock(w http.ResponseWriter, _ *http.Request) {
	received := now()
	answer(w, http.StatusOK, clock.Stamps{Received: received, Sent: now()})
}

func (s *Server) read(w http.ResponseWriter, r *http.Request) {
	received := now()
	var q Query
	if !decode(w, r, &q) {
		return
	}
	if len(q.IDs) > MaxContainers {
		refuse(w, http.StatusBadRequest, fmt.Errorf("%d containers are more than %d", len(q.IDs), MaxContainers))
		return
	}
	reading := s.groups.read(q)
	reading.Clock = clock.Stamps{Received: received, Sent: now()}
	answer(w, http.StatusOK, reading)
}

// read reads containers, CPU times first, and the node.
func (g *groups) read(q Query) Reading {
	r := Reading{Containers: map[string]Counters{}, Missing: map[string]string{}}
	paths, missing := g.find(q.IDs)
	for id, err := range missing {
		r.Missing[id] = err.Error()
	}
	for id, path := range paths {
		c, err := g.files.counters(path, q.Memory)
		if err != nil {
			r.Missing[id] = err.Error()
			continue
		}
		r.Containers[id] = c
	}
	n, err := g.node()
	if r.Node = n; err != nil {
		r.NodeErr = err.Error()
	}
	return r
}

// follow starts a plan and ends the one before.
func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	var p Plan
	if !decode(w, r, &p) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && s.last.plan.ID == p.ID {
		answer(w, http.StatusOK, s.last.progress(0))
		return
	}
	if err := p.validate(time.Now()); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	if s.stop != nil {
		s.stop()
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(s.ctx)
	s.last = follow(ctx, s.groups, p)
	answer(w, http.StatusCreated, Progress{ID: p.ID, Instants: []Instant{}})
}

// followed writes what a plan has read.
func (s *Server) followed(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f := s.last
	s.mu.Unlock()
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	switch id := r.URL.Query().Get("id"); {
	case f == nil || f.plan.ID != id:
		refuse(w, http.StatusNotFound, fmt.Errorf("there is no plan %.80q", id))
	case err != nil || from < 0:
		refuse(w, http.StatusBadRequest, fmt.Errorf("from is no index: %.40q", r.URL.Query().Get("from")))
	default:
		answer(w, http.StatusOK, f.progress(from))
	}
}
