package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// enginePortable is a goroutine for each connection over package net. It runs
// wherever Go runs and speaks TLS. Its sends are as punctual as Go's timers, which
// on Linux round to a millisecond: the lateness it reports says so.
const enginePortable = "portable"

// portableLane is one worker: a pacer that makes requests due, and connections
// that carry them out.
type portableLane struct {
	engine *engine
	number int
	dialer net.Dialer
	expect expectation

	mu      sync.Mutex // guards all below
	rec     recorder
	pools   []portablePool // by target
	busy    int            // requests under way
	idle    sync.Cond      // busy has become 0, or closed true
	conns   []*portableConn
	zero    time.Time // t0
	end     int64     // of sending
	stopped bool
	closed  bool // no more requests: connections go home

	wake chan struct{} // stop was called
}

// portablePool is what waits for the connections of one target.
type portablePool struct {
	queue ring[int64] // intended starts
	due   sync.Cond   // the queue has grown, or the end has come
	free  int         // connections that wait for it to grow
}

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
}

func (e *engine) portableLanes() ([]lane, error) {
	p := &e.profile
	lanes := make([]lane, p.Workers)
	for i := range lanes {
		l := &portableLane{
			engine: e, number: i, expect: p.expectation(), rec: e.collect.recorder(), pools: make([]portablePool, len(e.targets)),
			end: int64(p.Warmup + p.Measure + p.Tail), wake: make(chan struct{}, 1),
		}
		l.idle.L = &l.mu
		for k := range l.pools {
			l.pools[k].due.L = &l.mu
		}
		l.conns = make([]*portableConn, share(p.Connections, p.Workers, i))
		seats := p.seats(len(l.conns))
		for k := range l.conns {
			t := seats[k]
			l.conns[k] = &portableConn{lane: l, parser: parser{keep: l.expect.body()}, pool: &l.pools[t], target: &e.targets[t], buffer: make([]byte, 32<<10)}
		}
		lanes[i] = l
	}
	return lanes, nil
}

func (l *portableLane) prewarm() error {
	if l.engine.profile.NoKeepAlive {
		return nil
	}
	slots := make(chan struct{}, maxOpening)
	var opening sync.WaitGroup
	for _, c := range l.conns {
		opening.Go(func() {
			slots <- struct{}{}
			c.open() // a failure is met again by the first request
			<-slots
		})
	}
	opening.Wait()
	return nil
}

func (l *portableLane) stop() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *portableLane) close() {
	for _, c := range l.conns {
		c.drop()
	}
}

// now is the time since t0 in ns.
func (l *portableLane) now() int64 { return int64(time.Since(l.zero)) }

func (l *portableLane) run(t0 time.Time) *totals {
	// The pacer must not be late because it is tied to one thread.
	runtime.UnlockOSThread()
	l.zero = t0
	var running sync.WaitGroup
	stopped := l.sleepUntil(0)
	if !stopped {
		for _, c := range l.conns {
			running.Go(c.work)
		}
		l.pace()
	} else {
		l.cut(0)
	}
	l.drain()
	running.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveUp()
	return &l.rec.totals
}

// sleepUntil waits for an instant after t0; true means that stop was called.
func (l *portableLane) sleepUntil(at int64) bool {
	d := time.Duration(at - l.now())
	if d <= 0 {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-l.wake:
		return true
	}
}

// pace makes requests due by the schedule, and looks at the clocks, until the end.
func (l *portableLane) pace() {
	var s schedule
	next := int64(never)
	if l.engine.profile.Rate > 0 {
		s = l.engine.schedule(l.number)
		next = s.next()
	}
	turn := 0
	clock := laneClock{nextTick: int64(time.Second), nextEdge: l.rec.window[0]}
	for {
		l.mu.Lock()
		now := l.now()
		for next <= now && next < l.end {
			l.rec.due(next)
			l.offer(&l.pools[l.engine.turns[turn]], next)
			turn = (turn + 1) % len(l.engine.turns)
			next = s.next()
		}
		clock.look(&l.rec, l.number, now)
		l.mu.Unlock()
		if now >= l.end && clock.nextEdge == never {
			return
		}
		if l.sleepUntil(min(next, l.end, clock.nextTick, clock.nextEdge)) {
			l.cut(l.now())
			l.mu.Lock()
			clock.nextEdge = min(clock.nextEdge, l.rec.window[1])
			clock.look(&l.rec, l.number, l.now())
			l.mu.Unlock()
			return
		}
	}
}

// offer makes a request due that was intended at an instant; the lane is locked.
func (l *portableLane) offer(p *portablePool, intended int64) {
	if l.engine.profile.Overflow == overflowDrop && p.queue.size >= p.free {
		l.rec.drop(intended)
		return
	}
	p.queue.push(intended)
	p.due.Signal()
	l.rec.queueMax = max(l.rec.queueMax, int64(p.queue.size-p.free))
}

// cut ends sending and the measure window now.
func (l *portableLane) cut(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped, l.end = true, now
	for i := range l.rec.window {
		l.rec.window[i] = min(l.rec.window[i], now)
	}
}

// drain waits for what is under way, then sends the connections home.
func (l *portableLane) drain() {
	expire := time.AfterFunc(l.engine.profile.Drain, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.closed = true
		l.idle.Broadcast()
	})
	defer expire.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && l.waiting() > 0 {
		l.idle.Wait()
	}
	l.closed = true
	for _, c := range l.conns {
		if c.conn != nil {
			_ = c.conn.SetDeadline(time.Unix(1, 0)) // ends a read under way
		}
	}
	for i := range l.pools {
		l.pools[i].due.Broadcast()
	}
}

// waiting counts requests that are due or under way; the lane is locked.
func (l *portableLane) waiting() int {
	n := l.busy
	for i := range l.pools {
		n += l.pools[i].queue.size
	}
	return n
}

func (l *portableLane) giveUp() {
	now := l.now()
	for i := range l.pools {
		for q := &l.pools[i].queue; q.size > 0; {
			intended, _ := q.pop()
			l.rec.unfinished++
			l.rec.finish(outcome{intended: intended, sent: -1, end: now, kind: kindNotSent})
		}
	}
	// Its goroutines have no thread of their own whose CPU time would mean something.
	l.rec.threadCPU = 0
	l.rec.publish(int(max(0, now) / 1e9))
	l.rec.flush()
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
		if l.engine.profile.Rate == 0 {
			if l.stopped || now >= l.end {
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
	c.request = outcome{intended: intended, sent: c.lane.now(), free: free}
	if c.lane.engine.profile.Rate == 0 {
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
	p := &c.lane.engine.profile
	for c.take() {
		if c.conn == nil {
			if k := c.open(); k != kindNone {
				c.finish(k, 0)
				c.rest()
				continue
			}
		}
		status, k, reusable := c.exchange(p)
		c.finish(k, status)
		if !reusable {
			c.reopen()
		}
	}
}

// rest waits out the backoff of a closed loop, which would otherwise try again at once.
func (c *portableConn) rest() {
	c.backoff = min(max(time.Duration(firstBackoff), 2*c.backoff), time.Duration(lastBackoff))
	if c.lane.engine.profile.Rate == 0 {
		time.Sleep(c.backoff)
	}
}

// reopen replaces the connection ahead of the next request.
func (c *portableConn) reopen() {
	c.drop()
	l := c.lane
	l.mu.Lock()
	over := l.closed || l.stopped || l.engine.profile.NoKeepAlive || l.now() >= l.end && c.pool.queue.size == 0
	l.mu.Unlock()
	if !over {
		c.open()
	}
}

// exchange sends the request and reads the answer.
func (c *portableConn) exchange(p *Profile) (status int, k kind, reusable bool) {
	l := c.lane
	_ = c.conn.SetDeadline(time.Now().Add(p.Timeout))
	n, err := c.conn.Write(c.target.request)
	l.traffic(0, n)
	if err != nil {
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
			return c.parser.status, l.expect.check(&c.parser), !p.NoKeepAlive && !c.parser.closing && err == nil
		}
	}
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

// open connects, and shakes hands where the target is https.
func (c *portableConn) open() kind {
	l := c.lane
	ctx, cancel := context.WithTimeout(context.Background(), l.engine.profile.Timeout)
	defer cancel()
	network, address := "tcp", c.target.addr.String()
	if c.target.socket != "" {
		network, address = "unix", c.target.socket
	}
	began := time.Now()
	conn, err := l.dialer.DialContext(ctx, network, address)
	if err != nil {
		return netKind(err)
	}
	connected := time.Now()
	if c.target.tls != nil {
		t := tls.Client(conn, c.target.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return tlsKind(err)
		}
		conn = t
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return kindTimeout
	}
	put(l.rec.connect, int64(connected.Sub(began)))
	if c.target.tls != nil {
		put(l.rec.handshake, int64(time.Since(connected)))
	}
	c.conn, c.backoff = conn, 0
	if !l.zero.IsZero() {
		l.rec.reconnects++
	}
	return kindNone
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
