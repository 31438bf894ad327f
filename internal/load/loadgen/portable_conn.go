package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// portableConn is one connection and what it is doing.
type portableConn struct {
	lane    *portableLane
	pool    *portablePool
	target  *target
	conn    net.Conn // nil: to be opened
	backoff time.Duration
	parser  parser
	buffer  []byte
	request outcome // under way

	// Of redirects:
	detours map[string]*portableConn // to other origins
	detour  bool                     // this is one
	hop     *hop                     // what is asked for; nil: the target's request
	route   route
}

// take waits for the next request of c's target; false means that there is none left.
func (c *portableConn) take() bool {
	l := c.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	free := l.now()
	for {
		now := l.now()
		if l.closed {
			return false
		}
		if l.job.profile.Rate == 0 {
			if l.stopped || now >= l.end {
				return false
			}
			if l.sated() {
				l.stop()
				return false
			}
			l.rec.due(now)
			return c.begin(now, now)
		}
		if intended, ok := c.pool.queue.pop(); ok {
			return c.begin(intended, free)
		}
		c.pool.free++
		c.pool.due.Wait()
		c.pool.free--
	}
}

// begin attaches a request; the lane is locked.
func (c *portableConn) begin(intended, free int64) bool {
	c.lane.busy++
	// Where a connection must be opened first, that is part of the service.
	c.request = outcome{intended: intended, sent: c.lane.now(), free: free, path: c.target.path}
	if c.lane.job.profile.Rate == 0 {
		c.request.sent = intended // the same instant, by definition of the closed loop
	}
	return true
}

// finish records the request's outcome.
func (c *portableConn) finish(k kind, status int) {
	l := c.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed && k != kindNone {
		k = kindTimeout // ended by the end of the drain
		l.rec.unfinished++
	}
	c.request.end, c.request.kind, c.request.status = l.now(), k, status
	l.rec.finish(c.request)
	if l.busy--; l.busy == 0 {
		l.idle.Broadcast()
	}
}

// work carries out requests until there are none left.
func (c *portableConn) work() {
	p := &c.lane.job.profile
	for c.take() {
		if c.conn == nil {
			if k := c.open(); k != kindNone {
				c.finish(k, 0)
				c.rest()
				continue
			}
		}
		status, k, reusable := c.chase(p)
		c.finish(k, status)
		if !reusable {
			c.reopen()
		}
	}
}

// rest waits out the backoff of a closed loop, which would otherwise try again at once.
func (c *portableConn) rest() {
	c.backoff = min(max(time.Duration(firstBackoff), 2*c.backoff), time.Duration(lastBackoff))
	if c.lane.job.profile.Rate == 0 {
		time.Sleep(c.backoff)
	}
}

// reopen replaces the connection ahead of the next request.
func (c *portableConn) reopen() {
	c.drop()
	l := c.lane
	l.mu.Lock()
	over := l.closed || l.stopped || l.job.profile.NoKeepAlive || l.now() >= l.end && c.pool.queue.size == 0
	l.mu.Unlock()
	if !over {
		c.open()
	}
}

// exchange sends the request and reads the answer.
func (c *portableConn) exchange(p *Profile) (status int, k kind, reusable bool) {
	l := c.lane
	_ = c.conn.SetDeadline(time.Now().Add(p.Timeout))
	if err := c.write(); err != nil {
		return 0, netKind(err), false
	}
	c.parser.reset(p.Method != http.MethodHead)
	for {
		n, err := c.conn.Read(c.buffer)
		l.traffic(n, 0)
		if !c.parser.started() {
			c.request.first = l.now()
		}
		used, done, k := c.parser.feed(c.buffer[:n])
		switch {
		case k != kindNone:
			return 0, k, false
		case done && used < n:
			return 0, kindExtraBytes, false
		case errors.Is(err, io.EOF) && !done:
			if done, k = c.parser.eof(); !done {
				return 0, k, false
			}
		case err != nil && !done:
			return 0, netKind(err), false
		}
		if done {
			return c.parser.status, l.expect.check(c.parser.status, c.parser.body, &c.parser.content), !p.NoKeepAlive && !c.parser.closing && err == nil
		}
	}
}

// write sends the request. A long one whose echo is awaited goes out while the
// echo is read: else both ends would wait for the other to read.
func (c *portableConn) write() error {
	send := func() error {
		request := c.target.request
		if c.hop != nil {
			request = c.hop.request
		}
		n, err := c.conn.Write(request)
		c.lane.traffic(0, n)
		return err
	}
	if len(c.target.echo) <= longEcho {
		return send()
	}
	go func() { _ = send() }() // ends with the connection; what fails, the read sees
	return nil
}

// traffic counts bytes that moved inside the window.
func (l *portableLane) traffic(in, out int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rec.in(l.now()) {
		l.rec.bytesIn += int64(in)
		l.rec.bytesOut += int64(out)
	}
}

// open connects, and counts a failure.
func (c *portableConn) open() kind {
	k := c.connect()
	if k != kindNone {
		c.lane.mu.Lock()
		defer c.lane.mu.Unlock()
		c.lane.rec.openKinds[k]++
	}
	return k
}

// connect connects, and shakes hands where the target is https.
func (c *portableConn) connect() kind {
	l := c.lane
	ctx, cancel := context.WithTimeout(l.opening, l.job.profile.Timeout)
	defer cancel()
	conn, dialled, k := c.dial(ctx)
	if k != kindNone {
		return k
	}
	connected := time.Now()
	var secured *tls.Conn
	if c.target.tls != nil {
		t := tls.Client(conn, c.target.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return tlsKind(err)
		}
		conn, secured = t, t
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return kindTimeout
	}
	l.rec.reached(dialled.addr, int64(connected.Sub(dialled.began)))
	if secured != nil {
		l.rec.shook(secured.ConnectionState(), int64(time.Since(connected)))
	}
	c.conn, c.backoff = conn, 0
	if !l.zero.IsZero() && !c.detour {
		l.rec.reconnects++
	}
	return kindNone
}

// dialled is when and to which address, if it is not a Unix socket, a connection began.
type dialled struct {
	began time.Time
	addr  netip.AddrPort
}

// dial connects to one of the host's addresses: each in turn, and on to the next
// where one does not take the connection.
func (c *portableConn) dial(ctx context.Context) (conn net.Conn, d dialled, k kind) {
	l, t := c.lane, c.target
	d.began = time.Now()
	if t.socket != "" {
		conn, err := l.dialer.DialContext(ctx, "unix", t.socket)
		return conn, d, netKind(err)
	}
	addrs := t.addrs
	if len(addrs) == 0 {
		var err error
		addrs, err = l.job.lookup.addresses(ctx, t.url, l.job.profile.IPVersion)
		l.mu.Lock()
		l.rec.resolved(int64(time.Since(d.began)))
		l.mu.Unlock()
		if err != nil {
			return nil, d, lookupKind(err)
		}
	}
	l.mu.Lock()
	first := c.pool.turn
	c.pool.turn++
	l.mu.Unlock()
	for i := range addrs {
		d = dialled{time.Now(), addrs[(first+i)%len(addrs)]}
		conn, err := l.dialer.DialContext(ctx, "tcp", d.addr.String())
		if err == nil {
			return conn, d, kindNone
		}
		if k = netKind(err); i < len(addrs)-1 {
			l.mu.Lock()
			l.rec.openKinds[k]++
			l.mu.Unlock()
		}
	}
	return nil, d, k
}

func (c *portableConn) drop() {
	l := c.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// netKind names an error of package net.
func netKind(err error) kind {
	if err == nil {
		return kindNone
	}
	for _, known := range []struct {
		err  error
		kind kind
	}{
		{os.ErrDeadlineExceeded, kindTimeout},
		{context.DeadlineExceeded, kindTimeout},
		{syscall.ECONNREFUSED, kindRefused},
		{syscall.ENOENT, kindRefused},
		{syscall.ECONNRESET, kindReset},
		{syscall.EPIPE, kindReset},
		{syscall.ECONNABORTED, kindReset},
		{syscall.EMFILE, kindNoDescriptors},
		{syscall.ENFILE, kindNoDescriptors},
		{syscall.EADDRNOTAVAIL, kindNoPorts},
		{syscall.ENETUNREACH, kindUnreachable},
		{syscall.EHOSTUNREACH, kindUnreachable},
		{io.EOF, kindClosedEarly},
		{io.ErrUnexpectedEOF, kindHalfResponse},
	} {
		if errors.Is(err, known.err) {
			return known.kind
		}
	}
	// An alert; in TLS 1.3 the refusal of a client's certificate comes after the handshake.
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "remote error" {
		return kindTLS
	}
	return kindOther
}
