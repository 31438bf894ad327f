package nodeagent

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/base/httpserver"
)

// Server reads control groups for a client with the token.
type Server struct {
	*httpserver.TokenServer
	groups *groups

	mu   sync.Mutex
	last *follower
	stop context.CancelFunc // of last
	ctx  context.Context    // of the server, and ends its plan
}

// NewServer returns a server for the control groups below root.
func NewServer(token, root string) (*Server, error) {
	on, err := httpserver.NewTokenServer(token)
	if err != nil {
		return nil, fmt.Errorf("start node agent: %w", err)
	}
	g, err := openGroups(root)
	if err != nil {
		return nil, fmt.Errorf("start node agent: %w", err)
	}
	s := &Server{TokenServer: on, groups: g, ctx: context.Background()}
	s.HandleFunc("POST /read", s.read)
	s.HandleFunc("POST /follow", s.follow)
	s.HandleFunc("GET /followed", s.followed)
	return s, nil
}

// Serve serves on l until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	return s.TokenServer.Serve(ctx, l)
}

func (s *Server) read(w http.ResponseWriter, r *http.Request) {
	received := now()
	var q Query
	if !httpserver.Decode(w, r, maxRequest, &q) {
		return
	}
	if len(q.IDs) > maxContainers {
		httpserver.Refuse(w, http.StatusBadRequest, "%d containers are more than %d", len(q.IDs), maxContainers)
		return
	}
	reading := s.groups.read(q)
	reading.Clock = clock.Stamps{Received: received, Sent: now()}
	httpserver.Answer(w, http.StatusOK, reading)
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
	if !httpserver.Decode(w, r, maxRequest, &p) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && s.last.plan.ID == p.ID {
		httpserver.Answer(w, http.StatusOK, s.last.progress(0))
		return
	}
	if err := p.validate(time.Now()); err != nil {
		httpserver.Refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	if s.stop != nil {
		s.stop()
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(s.ctx)
	s.last = follow(ctx, s.groups, p)
	httpserver.Answer(w, http.StatusCreated, Progress{ID: p.ID, Instants: []Instant{}})
}

// followed writes what a plan has read.
func (s *Server) followed(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f := s.last
	s.mu.Unlock()
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	switch id := r.URL.Query().Get("id"); {
	case f == nil || f.plan.ID != id:
		httpserver.Refuse(w, http.StatusNotFound, "there is no plan %.80q", id)
	case err != nil || from < 0:
		httpserver.Refuse(w, http.StatusBadRequest, "from is not an index: %.40q", r.URL.Query().Get("from"))
	default:
		httpserver.Answer(w, http.StatusOK, f.progress(from))
	}
}
