// Package service implements any service of a topology. For each request it
// waits, burns CPU time, fails and calls other services as configured, and
// responds with a body of the configured size. The configuration can be changed
// over REST while it runs.
//
// It is the baseline of all comparisons, so it must be lean: its benchmark
// compares it with a bare net/http handler.
package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/tare-mesh/tare/internal/base/dial"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// Paths that are not counted as requests.
const (
	HealthPath = "/healthz"
	ReadyPath  = "/readyz" // of admin addresses
	StatsPath  = "/stats"
)

// MaxResponseSize is the max size of a response body: 1 GiB.
const MaxResponseSize = app.MaxSize

// chunk is the max size of one write, and all bodies share one.
const chunk = 64 << 10

var fill = []byte(strings.Repeat("x", chunk))

// Stats is the response of GET /stats: counts since the start.
type Stats struct {
	Requests    int64 `json:"requests"`           // received, [HealthPath] and [StatsPath] not counted. WebSocket counts connections
	Messages    int64 `json:"messages,omitempty"` // received over WebSocket
	Limited     int64 `json:"limited"`            // refused by the rate limit
	Injected    int64 `json:"injected"`           // injected errors
	Calls       int64 `json:"calls"`              // to other services, retries included
	Retries     int64 `json:"retries"`
	FailedCalls int64 `json:"failedCalls"` // requests that failed because a call did
	Failed      int64 `json:"failed"`      // answered with an error status
	Partial     int64 `json:"partial"`     // ended before all of their calls
	// Callees are the requests to other services, by their name.
	Callees map[string]Callee `json:"callees,omitempty"`
}

// Callee counts the requests to one service.
type Callee struct {
	Sent    int64 `json:"sent"` // retries and followed redirects included
	Failed  int64 `json:"failed"`
	Retries int64 `json:"retries"`
}

// counts are the counters behind [Stats].
type counts struct {
	requests, messages, limited, injected, calls, retries, failedCalls, failed, partial atomic.Int64
}

// Service implements one instance. It is an [http.Handler].
type Service struct {
	now     atomic.Pointer[snapshot]
	count   counts
	clients *clients
	sockets bool // upgrades to WebSocket are accepted

	protocol  string
	maxMemory app.Size
	changing  sync.Mutex // guards the fields below
	held      memory
	callees   map[string]*callee // by name, kept across a change
}

// Options of a service.
type Options struct {
	// MaxMemory is the max memory that a configuration may hold, 0 for
	// [DefaultMaxMemory].
	MaxMemory app.Size
	// Source is the loopback address of outgoing calls. For the zero Addr the kernel
	// chooses.
	Source netip.Addr
}

// DefaultMaxMemory is the default of Options.MaxMemory.
const DefaultMaxMemory = app.Size(4 << 30)

var contentType = []string{"application/octet-stream"}

// New returns the service that i describes.
func New(i app.Instance, o Options) (*Service, error) {
	s := &Service{clients: newClients(dial.From(o.Source)), sockets: i.Protocol == app.WebSocket, protocol: i.Protocol, maxMemory: o.MaxMemory, callees: map[string]*callee{}}
	s.maxMemory = cmp.Or(s.maxMemory, DefaultMaxMemory)
	if err := s.install(i); err != nil {
		return nil, err
	}
	if i.CPU > 0 {
		calibrated() // now, not in the first request
	}
	return s, nil
}

func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case HealthPath:
		w.Header().Set("Content-Length", "0")
		return
	case StatsPath:
		answerJSON(w, http.StatusOK, s.Stats())
		return
	}
	s.count.requests.Add(1)
	if s.sockets && websocket.IsWebSocketUpgrade(r) {
		s.serveWebSocket(r.Context(), w, r)
		return
	}
	n := s.now.Load()
	if r.ContentLength != 0 {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			s.count.failed.Add(1)
			s.count.partial.Add(1)
			fail(w, http.StatusBadRequest, fmt.Errorf("read the request: %w", err))
			return
		}
	}
	if n.plain {
		if isError(n.status) {
			s.count.failed.Add(1)
		}
		n.answerPlain(w)
		return
	}
	if isError(s.work(w, r, n)) {
		s.count.failed.Add(1)
	}
}

// Stats returns the counts since the start.
func (s *Service) Stats() Stats {
	c := &s.count
	return Stats{
		Requests: c.requests.Load(), Messages: c.messages.Load(), Limited: c.limited.Load(), Injected: c.injected.Load(),
		Calls: c.calls.Load(), Retries: c.retries.Load(), FailedCalls: c.failedCalls.Load(),
		Failed: c.failed.Load(), Partial: c.partial.Load(),
		Callees: s.calleeStats(),
	}
}

func (s *Service) calleeStats() map[string]Callee {
	s.changing.Lock()
	defer s.changing.Unlock()
	if len(s.callees) == 0 {
		return nil
	}
	all := make(map[string]Callee, len(s.callees))
	for name, c := range s.callees {
		all[name] = Callee{Sent: c.sent.Load(), Failed: c.failed.Load(), Retries: c.retries.Load()}
	}
	return all
}

func isError(status int) bool { return status >= http.StatusBadRequest }

// work serves a request that needs work before its response.
func (s *Service) work(w http.ResponseWriter, r *http.Request, n *snapshot) (status int) {
	if to, ok := n.instance.Redirects[r.URL.Path]; ok {
		if r.URL.RawQuery != "" {
			to += "?" + r.URL.RawQuery
		}
		w.Header().Set("Location", to)
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusMovedPermanently)
		return http.StatusMovedPermanently
	}
	in := incoming{alone: r.Close}
	if len(n.steps) > 0 {
		in.alone = in.alone || isAlone(canonicalAlone, r.Header)
		in.trace = traceOf(canonicalTrace, r.Header)
	}
	result := s.do(r.Context(), n, in)
	size := n.draw()
	if result.err == nil || result.status/100 == 2 { // the configuration may hide a failed call
		n.answer(w, result.status, size)
	} else {
		fail(w, result.status, result.err)
	}
	return result.status
}

// draw is the size of the body of one response.
func (n *snapshot) draw() int64 {
	if n.size >= 0 {
		return n.size
	}
	return n.instance.ResponseSize.Draw()
}

// answerPlain writes the constant response. All responses share the header
// values: net/http only reads them.
func (n *snapshot) answerPlain(w http.ResponseWriter) {
	h := w.Header()
	h["Content-Length"] = n.length
	h["Content-Type"] = contentType
	if n.version != nil {
		h[versionHeader] = n.version
	}
	if n.status != http.StatusOK {
		w.WriteHeader(n.status)
	}
	_, _ = w.Write(fill[:n.size]) // fails if the client is gone
}

// answer writes a body of any size.
func (n *snapshot) answer(w http.ResponseWriter, status int, size int64) {
	if !hasBody(status) {
		w.WriteHeader(status)
		return
	}
	h := w.Header()
	h["Content-Type"] = contentType
	if n.version != nil {
		h[versionHeader] = n.version
	}
	if n.size >= 0 {
		h["Content-Length"] = n.length
	} else {
		h["Content-Length"] = []string{strconv.FormatInt(size, 10)}
	}
	w.WriteHeader(status)
	for left := size; left > 0; {
		m, err := w.Write(fill[:min(left, chunk)])
		if err != nil {
			return // the client is gone
		}
		left -= int64(m)
	}
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

func fail(w http.ResponseWriter, status int, err error) {
	if !hasBody(status) {
		w.WriteHeader(status)
		return
	}
	text := err.Error() + "\n"
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// filled returns n equal bytes. Only bodies larger than a chunk are allocated.
func filled(size int64) []byte {
	if size <= chunk {
		return fill[:size]
	}
	return largeFill(size)
}

var large struct {
	sync.Mutex
	bytes []byte
}

// largeFill returns a body, and keeps the largest one for all responses.
func largeFill(size int64) []byte {
	large.Lock()
	defer large.Unlock()
	if int64(len(large.bytes)) < size {
		large.bytes = []byte(strings.Repeat("x", int(size)))
	}
	return large.bytes[:size]
}

// outcome is the result of a request before its response is written: the status
// and the error. A nil error means the configured response.
type outcome struct {
	status int
	err    error
}

var (
	errLimited  = errors.New("more requests than the rate limit allows")
	errInjected = errors.New("an error that was asked for")
)

// do does the work of a request. in contains the data that calls pass on.
func (s *Service) do(ctx context.Context, n *snapshot, in incoming) outcome {
	o := s.steps(ctx, n, in)
	if o.err != nil {
		s.count.partial.Add(1)
	}
	return o
}

// steps performs the wait, CPU burn, injected errors and calls of a request.
func (s *Service) steps(ctx context.Context, n *snapshot, in incoming) outcome {
	if n.limit != nil && !n.limit.allow() {
		s.count.limited.Add(1)
		return outcome{http.StatusTooManyRequests, errLimited}
	}
	if wait := n.instance.Time.Draw() + n.instance.Delay.Draw(); wait > 0 {
		if err := sleep(ctx, wait); err != nil {
			return outcome{statusGone, err}
		}
	}
	if n.instance.CPU > 0 {
		burn(time.Duration(n.instance.CPU))
	}
	if n.errorRatio > 0 && rand.Float64() < n.errorRatio {
		s.count.injected.Add(1)
		return outcome{n.errorStatus, errInjected}
	}
	if err := s.callAll(ctx, n.steps, in); err != nil {
		s.count.failedCalls.Add(1)
		return outcome{n.failedCall, err}
	}
	return outcome{status: n.status}
}

// statusGone is the status that proxies log if the client is gone, and is never
// sent.
const statusGone = 499
