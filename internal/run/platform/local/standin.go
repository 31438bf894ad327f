package local

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// standIn answers in place of an application until the application starts: each answer is a nonce, a random text. A nonce that
// comes back through the proxies proves that they lead to this address.
type standIn struct {
	tcp    bool // plain TCP: a line is answered with a nonce
	server *http.Server
	socket net.Listener

	mu       sync.Mutex
	issued   map[string]int // answers by nonce
	nonces   int            // requests of [nonceAgent]
	refusing bool           // requests are answered with 503
	open     map[net.Conn]bool
}

// nonceAgent is the header User-Agent of requests for a nonce: others are of the proxies themselves.
const nonceAgent = "tare-nonce"

// bindTime bounds the wait for an address that was just found free: a process that is being started elsewhere holds the socket of
// that search until it executes its program.
const bindTime = time.Second

// newStandIn answers on the address of an application. With its socket it leaves the socket open.
func newStandIn(ctx context.Context, at netip.AddrPort, protocol string, own *net.TCPListener) (*standIn, error) {
	s := &standIn{tcp: protocol == app.TCP, issued: map[string]int{}, open: map[net.Conn]bool{}}
	var err error
	if own == nil {
		err = wait.Within(ctx, bindTime, 5*time.Millisecond, func(context.Context) (err error) {
			if s.socket, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at)); err != nil && !errors.Is(err, syscall.EADDRINUSE) {
				return wait.Stop(err)
			}
			return err
		})
	} else if files, failed := descriptors(own); failed != nil {
		err = failed
	} else {
		s.socket, err = net.FileListener(files[0])
		closeAll(files)
	}
	if err != nil {
		return nil, fmt.Errorf("answer in place of the application: %w", err)
	}
	if s.tcp {
		go routine.Guarded(s.echoLines)()
		return s, nil
	}
	protocols := protocols(1)
	protocols.SetUnencryptedHTTP2(true)
	s.server = &http.Server{Handler: http.HandlerFunc(s.answer), Protocols: protocols, ReadHeaderTimeout: probeTimeout, ConnState: func(c net.Conn, state http.ConnState) {
		s.keep(c, state != http.StateClosed && state != http.StateHijacked)
	}}
	go routine.Guarded(func() { _ = s.server.Serve(s.socket) })()
	return s, nil
}

// stop ends all connections by a reset: the address must not remain in use (TIME_WAIT).
func (s *standIn) stop() {
	s.socket.Close()
	s.mu.Lock()
	open := maps.Clone(s.open)
	s.mu.Unlock()
	for c := range open {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		c.Close()
	}
	if s.server != nil {
		s.server.Close()
	}
}

func (s *standIn) answer(w http.ResponseWriter, r *http.Request) {
	nonce, refusing := s.nonce(strings.HasPrefix(r.UserAgent(), nonceAgent))
	if refusing {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	text := []byte(nonce)
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		text = append([]byte{0, 0, 0, 0, byte(len(text))}, text...)
		defer w.Header().Set("Grpc-Status", "0")
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = w.Write(text)
}

func (s *standIn) echoLines() {
	for {
		c, err := s.socket.Accept()
		if err != nil {
			return
		}
		s.keep(c, true)
		go routine.Guarded(func() {
			defer s.keep(c, false)
			defer c.Close()
			if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
				nonce, _ := s.nonce(true)
				_, _ = io.WriteString(c, nonce+"\n")
				_, _ = io.Copy(io.Discard, c) // the client ends the connection
			}
		})()
	}
}

// keep adds or removes an open connection.
func (s *standIn) keep(c net.Conn, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open {
		s.open[c] = true
	} else {
		delete(s.open, c)
	}
}

// nonce issues a random text, and reports whether its request is to be refused.
func (s *standIn) nonce(counted bool) (text string, refusing bool) {
	n := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued[n]++
	if counted {
		s.nonces++
	}
	return n, s.refusing
}

const (
	// nonceTimeout bounds the wait for the first nonce: a proxy may find its upstream some time after it serves.
	nonceTimeout = 5 * time.Second
	// mostNonces are requested where nothing else counts, within nonceTime: a proxy that answers one request in a hundred itself
	// is then surely found. A slow machine takes as long as leastNonces need, at most slowNonces: they find it in 95 of 100 trials.
	mostNonces  = 1000
	nonceTime   = time.Second
	leastNonces = 300
	slowNonces  = 10 * time.Second
)

// nonces are requests whose answers prove that proxies lead to the stand-ins behind them.
type nonces struct {
	host, path, protocol string
	behind               []*standIn
	retries              bool // the mesh may repeat a refused request
}

// prove requests a number of nonces through the proxies at an address, two at least. Each must arrive once.
func (n *nonces) prove(ctx context.Context, name string, through netip.AddrPort, times int) check.Check {
	c := check.Check{Name: "nonce through " + name}
	deadline := time.NewTimer(nonceTimeout)
	defer deadline.Stop()
	again := time.NewTicker(ownPause)
	defer again.Stop()
	last, passed := "", 0
	for began := time.Now(); passed < 2 || passed < times && time.Since(began) < nonceTime || passed < min(times, leastNonces) && time.Since(began) < slowNonces; {
		before, all := counted(n.behind), issued(n.behind)
		text, by, err := requestNonce(ctx, through, n.host, n.path, n.protocol)
		answered := errors.As(err, new(statusError))
		if err == nil && !issuedBy(n.behind, text) {
			answered, err = true, fmt.Errorf("the answer is not of the application's address: %.60q", text)
		}
		arrived := counted(n.behind) - before
		if err == nil && arrived > 1 {
			c.Detail, c.Hint = fmt.Sprintf("one request arrived %d times", arrived), repeatsHint
			return c
		}
		if err == nil && text == last {
			c.Detail, c.Hint = "the same answer came twice, and the second without a request to the application", "the proxy caches; switch its cache off"
			return c
		}
		if err == nil {
			passed, last = passed+1, text
			continue
		}
		select {
		case <-again.C:
			if passed == 0 {
				began = time.Now()
				continue
			}
		case <-deadline.C:
		case <-ctx.Done():
		}
		c.Detail, c.Hint = err.Error(), notForwardedHint
		switch {
		case answered && issued(n.behind) == all:
			c.Detail, c.Hint = fmt.Sprintf("answered by %s, not by the application: %s", name, by), ownAnswerHint
		case answered:
			c.Detail, c.Hint = fmt.Sprintf("%s; the whole answer: %s", err, by), ownAnswerHint
		}
		if passed > 0 {
			c.Detail += fmt.Sprintf(" (after %d that came through)", passed)
		}
		return c
	}
	if times > 2 && !n.retries && n.protocol != app.TCP {
		if arrived := n.refuse(ctx, through); arrived > 1 {
			c.Detail, c.Hint = fmt.Sprintf("one request that the application refused with 503 arrived %d times", arrived), repeatsHint
			return c
		}
	}
	c.OK, c.Detail = true, fmt.Sprintf("%d random answers came through, each once", passed)
	return c
}

// Hints for a request that was sent to a proxy, and cannot bypass it.
const (
	notForwardedHint = "the proxy does not forward this request to the application; see its configuration and its log in the trial's provenance directory"
	ownAnswerHint    = "the proxy answers in place of the application: its configuration must allow this request and forward it; see its log in the trial's provenance directory; a gateway that rewrites requests has translates: true"
)

const repeatsHint = "the proxy repeats requests; remove its retries, or declare provides: {retries: true}"

// refuse lets the stand-ins refuse one request, and returns how often it arrived.
func (n *nonces) refuse(ctx context.Context, through netip.AddrPort) int {
	setRefusing(n.behind, true)
	defer setRefusing(n.behind, false)
	before := counted(n.behind)
	_, _, _ = requestNonce(ctx, through, n.host, n.path, n.protocol) // it fails
	return counted(n.behind) - before
}

func setRefusing(all []*standIn, refusing bool) {
	for _, s := range all {
		s.mu.Lock()
		s.refusing = refusing
		s.mu.Unlock()
	}
}

// counted is the number of requests for a nonce that arrived.
func counted(all []*standIn) (n int) {
	for _, s := range all {
		s.mu.Lock()
		n += s.nonces
		s.mu.Unlock()
	}
	return n
}

// issued is the number of requests that arrived, those of the proxies themselves too.
func issued(all []*standIn) (n int) {
	for _, s := range all {
		s.mu.Lock()
		n += len(s.issued)
		s.mu.Unlock()
	}
	return n
}

func issuedBy(all []*standIn, nonce string) bool {
	for _, s := range all {
		s.mu.Lock()
		n := s.issued[nonce]
		s.mu.Unlock()
		if n > 0 {
			return true
		}
	}
	return false
}

// requestNonce requests one nonce on a connection of its own. by is the status of the answer, with the headers that name who made it.
func requestNonce(ctx context.Context, through netip.AddrPort, host, path, protocol string) (nonce, by string, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if protocol == app.TCP {
		nonce, err = lineNonce(ctx, through)
		return nonce, fmt.Sprintf("%.60q", nonce), err
	}
	method, body, version := http.MethodGet, []byte(nil), 1
	switch protocol {
	case app.GRPC:
		method, body, version = http.MethodPost, make([]byte, 5), 2
	case app.HTTP2:
		version = 2
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(rootURL(through), "/")+path, bytes.NewReader(body))
	if err != nil {
		return "", "", err
	}
	r.Host = host
	r.Header.Set("User-Agent", nonceAgent)
	if protocol == app.GRPC {
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("TE", "trailers")
	}
	transport := &http.Transport{DisableCompression: true, Protocols: protocols(version)}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	switch {
	case err != nil:
	case resp.StatusCode != http.StatusOK:
		err = statusError(resp.StatusCode)
	case protocol == app.GRPC && len(text) > 5:
		text = text[5:]
	}
	return string(text), resp.Status + naming(resp.Header), err
}

// namingHeaders name the program that made an answer. Others may hold secrets.
var namingHeaders = []string{"Server", "Via", "Proxy-Status", "Proxy-Authenticate", "X-Squid-Error", "X-Cache", "X-Served-By", "X-Powered-By"}

// naming are those headers of an answer: " (Server: squid/6.13; X-Squid-Error: ERR_ACCESS_DENIED 0)".
func naming(h http.Header) string {
	var all []string
	for _, name := range namingHeaders {
		if value := h.Get(name); value != "" {
			all = append(all, name+": "+printable.Clip(printable.Line(value), 60))
		}
	}
	if all == nil {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

func lineNonce(ctx context.Context, through netip.AddrPort) (string, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", through.String())
	if err != nil {
		return "", err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, nonceAgent+"\n"); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}
