// Package http3 carries requests over HTTP/3, by quic-go. Only tare-kube links it.
package http3

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/portable"
	"github.com/tare-mesh/tare/internal/load/target"
)

// NewWorker makes worker i of j. The worker must be closed.
func NewWorker(j *job.Job, i int) *portable.Worker {
	p, requests := &j.Profile, map[*target.Target]request{}
	for t := range j.Targets {
		call, body := p.ForTarget(t), j.Body
		if t < len(p.Calls) && p.Calls[t].Body != nil {
			body = p.Calls[t].Body
		}
		requests[&j.Targets[t]] = request{newRequest(j.Targets[t].URL.String(), &call, body), body}
	}
	turn := i
	return portable.NewWorkerOver(j, i, func(t *target.Target, expect *check.Expectation) []portable.Carrier {
		c := &connection{target: t, timeout: p.Timeout, turn: turn}
		turn++
		carriers := make([]portable.Carrier, p.Streams)
		for n := range carriers {
			carriers[n] = &stream{connection: c, requests: requests, expect: expect, content: expect.NewContent(), buffer: make([]byte, 32<<10)}
		}
		return carriers
	})
}

// request is the request of a target. Streams share it and change nothing.
type request struct {
	http *http.Request
	body []byte
}

// newRequest is the request of each exchange, without its body.
func newRequest(url string, p *load.Profile, body []byte) *http.Request {
	r, err := http.NewRequest(p.Method, url, nil)
	if err != nil {
		panic(err) // the profile is valid
	}
	r.ContentLength = int64(len(body))
	r.Header.Set("User-Agent", "tare")
	if kind := p.BodyType(); len(body) > 0 && kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	for _, line := range p.Headers {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.EqualFold(name, "host"):
			r.Host = value
		case strings.EqualFold(name, "user-agent"), strings.EqualFold(name, "content-type"):
			r.Header.Set(name, value)
		default:
			r.Header.Add(name, value)
		}
	}
	return r
}

// connection is one QUIC connection, on a UDP socket of its own.
type connection struct {
	target  *target.Target
	timeout time.Duration
	turn    int // of the target's addresses

	mu     sync.Mutex // guards all below
	socket *net.UDPConn
	quic   *quic.Conn
	client *http3.ClientConn
	going  bool // the server has sent GOAWAY
	in     uint64
	out    uint64 // bytes counted so far
}

// idleTimeout is the timeout on tare's side. It is long, so that only the server ends connections of a slow load.
const idleTimeout = 10 * time.Minute

// IsOpen implements [portable.Carrier].
func (c *connection) IsOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.usable()
}

// Open implements [portable.Carrier].
func (c *connection) Open(ctx context.Context) (portable.Opened, load.Failure, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.usable() {
		return portable.Opened{}, load.FailureNone, nil
	}
	c.end()
	addrs := c.target.Addrs
	var last error
	for range addrs {
		addr := addrs[c.turn%len(addrs)]
		c.turn++
		began := time.Now()
		if last = c.dial(ctx, addr); last == nil {
			return portable.Opened{Addr: addr, TLS: c.quic.ConnectionState().TLS, Took: time.Since(began)}, load.FailureNone, nil
		}
	}
	k := failureOf(last)
	if k == load.FailureQUICLost { // nothing ever came
		k = load.FailureTimeout
	}
	return portable.Opened{}, k, last
}

func (c *connection) dial(ctx context.Context, addr netip.AddrPort) error {
	socket, err := net.ListenUDP("udp", nil)
	if err != nil {
		return err
	}
	conn, err := quic.Dial(ctx, socket, net.UDPAddrFromAddrPort(addr), c.target.TLS, &quic.Config{HandshakeIdleTimeout: c.timeout, MaxIdleTimeout: idleTimeout})
	if err != nil {
		_ = socket.Close()
		return err
	}
	t := &http3.Transport{DisableCompression: true, MaxResponseHeaderBytes: check.MaxHeader}
	c.socket, c.quic, c.client, c.going, c.in, c.out = socket, conn, t.NewClientConn(conn), false, 0, 0
	return nil
}

// Close implements [portable.Carrier].
func (c *connection) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.going = false
	c.end()
}

// end ends the connection, which is locked.
func (c *connection) end() {
	if c.quic == nil {
		return
	}
	if !c.going || c.quic.Context().Err() != nil { // else its requests end first, and the library with them
		_ = c.quic.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
		_ = c.socket.Close()
	} else {
		conn, socket := c.quic, c.socket
		context.AfterFunc(conn.Context(), func() { _ = socket.Close() })
	}
	c.quic = nil
}

// stream carries one request at a time over a connection.
type stream struct {
	*connection
	requests map[*target.Target]request
	expect   *check.Expectation
	content  check.Content
	buffer   []byte
}

// Exchange implements [portable.Carrier].
func (s *stream) Exchange(ctx context.Context, t *target.Target) (a portable.Answer) {
	client := s.current()
	if client == nil {
		return portable.Answer{Kind: load.FailureGoAway, Unprocessed: true}
	}
	defer func() { a.In, a.Out = s.traffic() }()
	s.content.Reset()
	what := s.requests[t]
	r := what.http.WithContext(ctx)
	if len(what.body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(what.body))
	}
	answer, err := client.RoundTrip(r)
	if err != nil {
		return s.failed(client, err, false)
	}
	a.First = time.Now()
	var size int64
	for {
		n, err := answer.Body.Read(s.buffer)
		size += int64(n)
		s.content.Add(s.buffer[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			_ = answer.Body.Close()
			a = s.failed(client, err, true)
			if k := check.Bodyless(r.Method == http.MethodHead, answer.StatusCode); a.Kind == load.FailureHTTP3 && k != load.FailureNone {
				a.Kind = k // the library refuses the body: it is too long
			}
			return a
		}
	}
	_ = answer.Body.Close()
	a.Status = answer.StatusCode
	a.Kind = s.expect.Check(a.Status, size, &s.content)
	return a
}

// current is the client of the connection, nil if it has none.
func (c *connection) current() *http3.ClientConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.usable() {
		return nil
	}
	return c.client
}

func (c *connection) usable() bool { return c.quic != nil && !c.going && c.quic.Context().Err() == nil }

// traffic returns the bytes of UDP payload since the last call.
func (c *connection) traffic() (in, out int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.quic == nil {
		return 0, 0
	}
	s := c.quic.ConnectionStats()
	in, out = int64(s.BytesReceived-c.in), int64(s.BytesSent-c.out)
	c.in, c.out = s.BytesReceived, s.BytesSent
	return in, out
}

// failed is the outcome of a request without a whole answer.
func (s *stream) failed(client *http3.ClientConn, err error, answered bool) portable.Answer {
	k := failureOf(err)
	unprocessed := !answered && isUnprocessed(err)
	if unprocessed || isGoAway(err) {
		s.leave(client)
	}
	return portable.Answer{Kind: k, Err: err, Unprocessed: unprocessed}
}

// leave marks a connection that takes no more requests.
func (c *connection) leave(client *http3.ClientConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == client {
		c.going = true
	}
}
