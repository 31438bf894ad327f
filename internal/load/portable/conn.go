package portable

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http1"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/load/target"
	"github.com/tare-mesh/tare/internal/load/template"
)

// longEcho is the size in bytes above which an echo may come back before all is sent.
const longEcho = 32 << 10

// conn is one connection and what it is doing.
type conn struct {
	worker  *Worker
	pool    *pool
	target  *target.Target // of the request under way
	user    *target.User   // with cookies of its own, nil if there are none
	index   int32          // of the connection among the worker's
	number  int64          // of the request among the worker's
	thought bool           // before its first request
	own     []byte         // memory for a varying request
	conn    net.Conn       // nil: to be opened
	backoff time.Duration
	reused  bool    // the connection was not opened for the request under way
	written int     // bytes of that request
	served  bool    // the connection has carried an answer
	spent   float64 // share of the requests after which the connection is replaced
	parser  http1.Parser
	buffer  []byte
	request record.Outcome // under way
	carrier Carrier        // in place of conn, nil for HTTP/1.1
	shares  bool           // the carrier's connection is counted at another place

	// Of redirects:
	detours map[string]*conn // to other origins
	detour  bool             // this is one
	hop     *http1.Hop       // the request of a redirect, nil for the target's request
	route   http1.Redirects
}

// work carries out requests until there are none left.
func (c *conn) work() {
	p := &c.worker.job.Profile
	for c.awaitNext() {
		if c.reused = c.isOpen(); !c.reused {
			if k := c.open(); k != load.FailureNone {
				c.request.Sent = -1
				c.finish(k, 0)
				c.rest()
				continue
			}
		}
		if c.carrier != nil {
			c.finish(c.carry(p))
			if !c.isOpen() {
				c.rest()
			}
			continue
		}
		status, k, reusable := c.exchangeAll(p)
		c.finish(k, status)
		if status != 0 {
			c.served, c.backoff = true, 0
		}
		switch {
		case reusable && !c.spend(p):
		case c.served:
			c.reopen()
		default:
			c.drop()
			c.rest()
		}
	}
}

// spend counts a request on c, and reports whether it is the last one of the connection.
func (c *conn) spend(p *load.Profile) bool {
	if c.spent += p.ConnectionShare(); c.spent < 1 {
		return false
	}
	c.spent--
	return true
}

// awaitNext waits for the next request of c's target. False means that there is none left.
func (c *conn) awaitNext() bool {
	c.think()
	l := c.worker
	l.mu.Lock()
	defer l.mu.Unlock()
	free := l.now()
	for {
		now := l.now()
		if l.closed {
			return false
		}
		if l.job.Profile.Rate == 0 {
			if l.stopped || now >= l.end {
				return false
			}
			if l.quotaReached() {
				l.Stop()
				return false
			}
			l.rec.Due(now)
			return c.begin(now, now)
		}
		if intended, ok := c.pool.queue.Pop(); ok {
			return c.begin(intended, free)
		}
		c.pool.free++
		c.pool.due.Wait()
		c.pool.free--
	}
}

// begin attaches a request, while the worker is locked.
func (c *conn) begin(intended, free int64) bool {
	c.worker.busy++
	c.target, c.number = c.pool.next(c)
	// Where a connection must be opened first, that is part of the service.
	c.request = record.Outcome{Intended: intended, Sent: c.worker.now(), Free: free, Path: c.target.Path, Conn: c.index}
	if c.worker.job.Profile.Rate == 0 {
		c.request.Sent = intended // the same instant, by definition of the closed loop
	}
	return true
}

// finish records the request's outcome.
func (c *conn) finish(k load.Failure, status int) {
	l := c.worker
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed && k != load.FailureNone {
		k = load.FailureTimeout // ended by the end of the drain
		l.rec.Unfinished++
	}
	c.request.End = l.now()
	if status != 0 && c.request.Hops == 0 && c.request.End-c.request.Sent >= int64(l.job.Profile.Timeout) {
		k, status = load.FailureTimeout, 0 // read after the deadline
	}
	c.request.Kind, c.request.Status, c.request.Version = k, status, c.parser.Version
	l.rec.Finish(&c.request)
	if l.busy--; l.busy == 0 {
		l.idle.Broadcast()
	}
}

// rest waits out the backoff of a closed loop, which would otherwise try again at once.
func (c *conn) rest() {
	c.backoff = min(max(time.Duration(job.FirstBackoff), 2*c.backoff), time.Duration(job.LastBackoff))
	if c.worker.job.Profile.Rate == 0 {
		time.Sleep(c.backoff)
	}
}

// reopen replaces the connection ahead of the next request.
func (c *conn) reopen() {
	c.drop()
	l := c.worker
	l.mu.Lock()
	over := l.closed || l.stopped || l.job.Profile.NoKeepAlive || l.now() >= l.end && c.pool.queue.Size == 0
	l.mu.Unlock()
	if !over {
		c.open()
	}
}

// exchange sends the request and reads the answer, until an instant.
func (c *conn) exchange(p *load.Profile, until time.Time) (status int, k load.Failure, reusable bool) {
	l := c.worker
	_ = c.conn.SetDeadline(until)
	c.parser.Served = c.served
	c.parser.Reset(c.target.Bodily)
	if err := c.write(); err != nil {
		return 0, target.NetFailure(err), false
	}
	for {
		n, err := c.conn.Read(c.buffer)
		l.traffic(n, 0)
		if !c.parser.Started() {
			c.request.First = l.now()
		}
		used, done, k := c.parser.Feed(c.buffer[:n])
		switch {
		case k != load.FailureNone:
			return 0, k, false
		case done && used < n:
			return 0, c.parser.Extra(), false
		case errors.Is(err, io.EOF) && !done:
			if done, k = c.parser.EndOfStream(); !done {
				return 0, k, false
			}
		case err != nil && !done:
			if k = target.NetFailure(err); k == load.FailureTLS { // an alert, such as the one after a refused client certificate
				c.because(k, err)
			}
			return 0, k, false
		}
		if done {
			c.served = true
			if len(c.parser.Cookies) > 0 {
				c.user.Set(c.target, c.parser.Cookies)
			}
			return c.parser.Status, l.expect.Check(c.parser.Status, c.parser.Body, &c.parser.Content), !p.NoKeepAlive && !c.parser.Closing && err == nil
		}
	}
}

// write sends the request. A long one whose echo is awaited goes out while the
// echo is read: else both ends would wait for the other to read.
func (c *conn) write() error {
	request := c.target.Request
	switch v := c.target.Varying; {
	case c.hop != nil:
		request = c.hop.Request
	case v != nil:
		j := c.worker.job
		var cookies []byte
		if c.user != nil {
			cookies = c.user.Header(c.target)
		}
		c.own = v.Append(c.own[:0], &template.Values{Seed: j.Profile.Seed, Number: j.Number(c.worker.number, c.number)}, cookies)
		request = c.own
	}
	send := func() (int, error) {
		n, err := c.conn.Write(request)
		c.worker.traffic(0, n)
		return n, err
	}
	if len(c.target.Echo) > longEcho {
		c.written = len(request)
		go func() { _, _ = send() }() // ends with the connection, and the read sees what fails
		return nil
	}
	n, err := send()
	c.written = n
	return err
}

// traffic counts bytes that moved inside the window.
func (l *Worker) traffic(in, out int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rec.InWindow(l.now()) {
		l.rec.BytesIn += int64(in)
		l.rec.BytesOut += int64(out)
	}
}

// open connects, and counts a failure.
func (c *conn) open() load.Failure {
	k := c.connect()
	if k == load.FailureNone {
		c.worker.job.Opened()
		return k
	}
	c.worker.job.Unopened(c.target)
	c.worker.mu.Lock()
	defer c.worker.mu.Unlock()
	c.worker.rec.NotOpened(k)
	return k
}

// connect connects, and shakes hands where the target is https.
func (c *conn) connect() load.Failure {
	l := c.worker
	ctx, cancel := context.WithTimeout(l.opening, l.job.Profile.Timeout)
	defer cancel()
	if c.carrier != nil {
		return c.openCarrier(ctx)
	}
	conn, dialled, k := c.dial(ctx)
	if k != load.FailureNone {
		return k
	}
	connected := time.Now()
	var secured *tls.Conn
	if c.target.TLS != nil {
		t := tls.Client(conn, c.target.TLS)
		if err := t.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return c.because(target.TLSFailure(err), err)
		}
		conn, secured = t, t
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return load.FailureTimeout
	}
	l.rec.Connected(dialled.addr, l.now(), int64(connected.Sub(dialled.began)))
	if secured != nil {
		l.rec.Handshaken(secured.ConnectionState(), int64(time.Since(connected)))
	}
	c.conn, c.served = conn, false
	if !l.zero.IsZero() && !c.detour {
		l.rec.Reconnects++
	}
	return load.FailureNone
}

// dialled is when and to which address, if it is not a Unix socket, a connection began.
type dialled struct {
	began time.Time
	addr  netip.AddrPort
}

// dial connects to one of the host's addresses: each in turn, and on to the next
// where one does not take the connection.
func (c *conn) dial(ctx context.Context) (conn net.Conn, d dialled, k load.Failure) {
	l, t := c.worker, c.target
	d.began = time.Now()
	if t.Socket != "" {
		conn, err := l.dialer.DialContext(ctx, "unix", t.Socket)
		return conn, d, target.NetFailure(err)
	}
	addrs := t.Addrs
	if len(addrs) == 0 {
		var err error
		addrs, err = t.LookUp(ctx, l.job.Lookup, l.job.Profile.IPVersion)
		l.mu.Lock()
		l.rec.Resolved(int64(time.Since(d.began)))
		l.mu.Unlock()
		if err != nil {
			return nil, d, c.because(target.LookupFailure(err), err)
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
			return conn, d, load.FailureNone
		}
		if k = target.NetFailure(err); i < len(addrs)-1 {
			l.mu.Lock()
			l.rec.NotOpened(k)
			l.mu.Unlock()
		}
	}
	return nil, d, k
}

// because stores the reason of a failure.
func (c *conn) because(k load.Failure, err error) load.Failure {
	c.worker.mu.Lock()
	defer c.worker.mu.Unlock()
	c.worker.rec.Because(k, err)
	return k
}

func (c *conn) drop() {
	l := c.worker
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}
