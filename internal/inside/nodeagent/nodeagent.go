// Package nodeagent reads the control groups of a node's containers for tare. The
// [Server] runs in a pod on each node and listens on the loopback address only. It
// has a read-only view of the control-group file system, requires a token, and runs
// no command. The [Client] calls it through a forwarded connection.
package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/base/httpserver"
)

// Bounds of requests.
const (
	// maxContainers of one request. A node has 110 pods by default.
	maxContainers = 2000
	// maxRequest bounds the body of a request, bytes.
	maxRequest = 2 << 20
)

// Counters of one container. Cumulative values begin with the container.
type Counters struct {
	At  int64 `json:"at"`  // ns since 1970, of the agent's clock
	CPU int64 `json:"cpu"` // ns
	// Memory is the working set, as the kubelet computes it: usage without the inactive page cache, in
	// bytes.
	Memory int64 `json:"memory,omitempty"`
	// Peak is the maximum memory, page cache included, in bytes, 0 if unknown.
	Peak int64 `json:"peak,omitempty"`
	// Throttled is the time of CPU throttling, ns, absent if unknown.
	Throttled *int64 `json:"throttled,omitempty"`
	// Periods are the periods of the CPU limit in which it wanted CPU, and Reached those in which it reached the limit.
	Periods *int64 `json:"periods,omitempty"`
	Reached *int64 `json:"reached,omitempty"`
}

// Node is the CPU time of the whole node, divided by control group.
type Node struct {
	At  int64 `json:"at"`  // ns since 1970, of the agent's clock
	CPU int64 `json:"cpu"` // of everything, ns
	// Pods is the CPU of all pods, ended ones included.
	Pods int64 `json:"pods"`
	// Daemons is the CPU of the control groups beside the pods: kubelet, container runtime, sshd.
	Daemons int64 `json:"daemons"`
	// DaemonMemory is their working set, bytes.
	DaemonMemory int64 `json:"daemonMemory,omitempty"`
	// Memory is the working set of everything, bytes, 0 if unknown.
	Memory int64 `json:"memory,omitempty"`
}

// Kernel is the CPU outside all control groups: kernel threads, and processes without a group.
func (n Node) Kernel() int64 { return n.CPU - n.Pods - n.Daemons }

// Query names the containers to read, by the container runtime's ID.
type Query struct {
	IDs []string `json:"ids"`
	// Memory adds memory, its peak and throttling to CPU time.
	Memory bool `json:"memory,omitempty"`
}

// Reading is the response to a [Query].
type Reading struct {
	// Clock are the times of the request and of the response.
	Clock      clock.Stamps        `json:"clock"`
	Containers map[string]Counters `json:"containers"`
	// Missing has the reason for each container without counters.
	Missing map[string]string `json:"missing,omitempty"`
	Node    *Node             `json:"node,omitempty"` // absent: unknown, with the reason in NodeError
	NodeErr string            `json:"nodeError,omitempty"`
	// Inotify is how many inotify instances a user may have (fs.inotify.max_user_instances), 0 if unknown.
	Inotify int64 `json:"inotify,omitempty"`
}

const (
	// callTimeout bounds one request and its response.
	callTimeout = 10 * time.Second
	// maxAnswer bounds a response, bytes: [maxPage] instants of [maxContainers].
	maxAnswer = 128 << 20
)

// Client calls one agent over a connection that it keeps. A failed request is repeated once, over a
// new connection.
type Client struct {
	http  *http.Transport
	token string
}

// NewClient returns a client that connects with dial.
func NewClient(dial func(ctx context.Context, network, address string) (net.Conn, error), token string) *Client {
	return &Client{http: &http.Transport{DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: 1}, token: token}
}

// Close closes the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Compare measures how far the agent's clock is ahead of this process's, and the maximum error of
// that.
func (c *Client) Compare(ctx context.Context) (ahead, unsure time.Duration, err error) {
	// Opening the connection is in no round trip.
	var stamps clock.Stamps
	if err := c.call(ctx, http.MethodGet, "/clock", nil, &stamps); err != nil {
		return 0, 0, err
	}
	ahead, unsure, err = clock.Measure(time.Now, func() (stamps clock.Stamps, err error) {
		return stamps, c.call(ctx, http.MethodGet, "/clock", nil, &stamps)
	})
	return ahead, unsure, err
}

// Read reads containers once.
func (c *Client) Read(ctx context.Context, q Query) (r Reading, err error) {
	return r, c.call(ctx, http.MethodPost, "/read", q, &r)
}

// Follow starts a plan.
func (c *Client) Follow(ctx context.Context, p Plan) error {
	var started Progress
	return c.call(ctx, http.MethodPost, "/follow", p, &started)
}

// Followed returns what a plan has read from an index on.
func (c *Client) Followed(ctx context.Context, id string, from int) (p Progress, err error) {
	q := url.Values{"id": {id}, "from": {strconv.Itoa(from)}}
	return p, c.call(ctx, http.MethodGet, "/followed?"+q.Encode(), nil, &p)
}

// call sends a request, and again if the connection is broken. All requests can be repeated.
func (c *Client) call(ctx context.Context, method, target string, body, into any) error {
	err := c.once(ctx, method, target, body, into)
	var refused *httpserver.Refused
	if err == nil || errors.As(err, &refused) || ctx.Err() != nil {
		return err
	}
	c.http.CloseIdleConnections()
	return c.once(ctx, method, target, body, into)
}

func (c *Client) once(ctx context.Context, method, target string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return httpserver.Call(ctx, c.http, c.token, method, "http://node-agent"+target, body, maxAnswer, into)
}

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
	if text, err := readFile(inotifyFile); err == nil {
		r.Inotify, _ = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
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
