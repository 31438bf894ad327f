// Package service is the program that plays any service of a topology: it reads
// the request, makes its calls, and answers with a body of the size asked for.
//
// It is the baseline that meshes are weighed against, so it must be lean: its
// benchmark holds it to the cost of a bare net/http handler.
package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tare-mesh/tare/internal/app"
)

// Paths that are not counted as requests.
const (
	HealthPath = "/healthz"
	StatsPath  = "/stats"
)

// MaxResponseSize bounds an answer's body: 1 GiB.
const MaxResponseSize = 1 << 30

// chunk is the most that is written at once; bodies of any size share one.
const chunk = 64 << 10

// maxReason bounds what a failed call tells of its answer, bytes.
const maxReason = 200

// Stats is what GET /stats answers.
type Stats struct {
	Requests int64 `json:"requests"` // received so far, [HealthPath] and [StatsPath] not counted
}

// Service plays one instance. It is an [http.Handler].
type Service struct {
	requests atomic.Int64
	status   int
	size     int64
	body     []byte // one chunk, or less
	length   []string
	calls    []*call
}

// call is one upstream: its requests, made once, are copied for every call.
type call struct {
	service   string
	templates []*http.Request
	next      atomic.Uint64
	clients
}

// clients are the ways to make a call. A request that came on a connection of
// its own ("Connection: close") has its calls made on connections of their own,
// so that a probe can be counted in connections all along its way.
type clients struct{ kept, single http.RoundTripper }

var contentType = []string{"application/octet-stream"}

// New makes the service that i describes.
func New(i app.Instance) (*Service, error) {
	s := &Service{status: i.Status, size: i.ResponseSize}
	if s.status == 0 {
		s.status = http.StatusOK
	}
	if s.status < 200 || s.status > 599 {
		return nil, fmt.Errorf("service %s: status %d is not from 200 to 599", i.Name, i.Status)
	}
	if s.size < 0 || s.size > MaxResponseSize {
		return nil, fmt.Errorf("service %s: response size %d is not from 0 to %d bytes", i.Name, s.size, int64(MaxResponseSize))
	}
	s.body = []byte(strings.Repeat("x", int(min(s.size, chunk))))
	s.length = []string{strconv.FormatInt(s.size, 10)}
	clients := newClients()
	for _, up := range i.Calls {
		c, err := newCall(up, clients)
		if err != nil {
			return nil, fmt.Errorf("service %s: %w", i.Name, err)
		}
		s.calls = append(s.calls, c)
	}
	return s, nil
}

// newClients keeps every connection that concurrency has opened: a client that
// closed some would add handshakes to what is measured.
func newClients() clients {
	return clients{
		kept: &http.Transport{
			MaxIdleConns:        0, // no limit
			MaxIdleConnsPerHost: 1 << 16,
			DisableCompression:  true,
		},
		single: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}
}

func newCall(up app.Upstream, clients clients) (*call, error) {
	if len(up.URLs) == 0 {
		return nil, fmt.Errorf("call to %s: no URL", up.Service)
	}
	c := &call{service: up.Service, clients: clients}
	for _, raw := range up.URLs {
		u, err := url.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("call to %s: %w", up.Service, err)
		}
		if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, fmt.Errorf("call to %s: %q is not an http URL", up.Service, raw)
		}
		r, err := http.NewRequest(http.MethodGet, raw, nil)
		if err != nil {
			return nil, fmt.Errorf("call to %s: %w", up.Service, err)
		}
		c.templates = append(c.templates, r)
	}
	return c, nil
}

func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case HealthPath:
		w.Header().Set("Content-Length", "0")
		return
	case StatsPath:
		answerJSON(w, Stats{Requests: s.requests.Load()})
		return
	}
	s.requests.Add(1)
	if r.ContentLength != 0 {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			fail(w, http.StatusBadRequest, fmt.Errorf("read the request: %w", err))
			return
		}
	}
	for _, c := range s.calls {
		if err := c.do(r.Context(), r.Close); err != nil {
			fail(w, http.StatusBadGateway, fmt.Errorf("call %s: %w", c.service, err))
			return
		}
	}
	s.answer(w)
}

// answer writes the body. The header's values are shared by all answers: net/http only reads them.
func (s *Service) answer(w http.ResponseWriter) {
	h := w.Header()
	if s.status != http.StatusNoContent && s.status != http.StatusNotModified {
		h["Content-Length"] = s.length
		h["Content-Type"] = contentType
	}
	w.WriteHeader(s.status)
	for left := s.size; left > 0; {
		n, err := w.Write(s.body[:min(left, int64(len(s.body)))])
		if err != nil {
			return // the caller has gone
		}
		left -= int64(n)
	}
}

func answerJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

func fail(w http.ResponseWriter, status int, err error) {
	text := err.Error() + "\n"
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// do makes one call and reads its answer to the end, so that the connection is used again.
func (c *call) do(ctx context.Context, alone bool) error {
	client := c.kept
	if alone {
		client = c.single
	}
	i := (c.next.Add(1) - 1) % uint64(len(c.templates))
	// RoundTrip, because a redirect is not followed: it is a wrong answer.
	resp, err := client.RoundTrip(c.templates[i].WithContext(ctx))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		reason, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason))
		_, _ = io.Copy(io.Discard, resp.Body)
		return errors.New(strings.TrimSpace(resp.Status + ": " + strings.TrimSpace(string(reason))))
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}
