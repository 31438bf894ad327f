package epoll

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http1"
	"github.com/tare-mesh/tare/internal/load/http2"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/load/stream"
	"github.com/tare-mesh/tare/internal/load/target"
	"github.com/tare-mesh/tare/internal/load/websocket"
)

// request is one of the requests of a pool.
type request struct {
	target *target.Target
	header http1.HeaderMemo // of the last answer
}

// pool has one origin's connections of one worker, and the requests that wait for one.
type pool struct {
	target   *target.Target // the first: all have its addresses
	requests []request
	cursor   job.Cursor
	idle     job.Queue[place]
	closed   job.Queue[place] // without a socket
	queue    job.Queue[int64] // intended starts of due requests
	again    job.Queue[call]  // requests to be retried
	turn     int              // the next of the target's addresses
}

// next is the request that is sent next.
func (p *pool) next() *request { return &p.requests[p.cursor.Next()] }

func (p *pool) waiting() int { return p.queue.Size + p.again.Size }

// nextPlace returns the place for a request: the connection that has been free for
// longest, else one without a socket, else none. Turning through all of them
// spreads the load over the proxy's workers.
func (p *pool) nextPlace() *conn {
	for {
		c, ok := p.idle.Pop()
		if !ok {
			break
		}
		if c.current() && c.unlist() {
			return c.conn
		}
	}
	for {
		c, ok := p.closed.Pop()
		if !ok {
			return nil
		}
		if c.current() {
			return c.conn
		}
	}
}

// places are a worker's connections, with or without a socket, and give them requests.
type places struct {
	w         *Worker
	pools     []pool // by origin
	conns     []conn
	extra     []*conn // connections beside the profile's, of sessions that end
	fresh     bool    // a connection for every request
	perCall   float64 // share of a connection that one request spends, 0 to keep connections
	nextRetry int64   // when the next backoff is over, ns from t0
}

func (s *places) byIndex(index int32) *conn {
	if int(index) < len(s.conns) {
		return &s.conns[index]
	}
	return s.extra[int(index)-len(s.conns)]
}

// add makes a place beside the profile's connections.
func (s *places) add() *conn {
	c := &conn{socket: socket{fd: -1}, index: int32(len(s.conns) + len(s.extra))}
	c.of = c
	s.extra = append(s.extra, c)
	return c
}

func (s *places) queued() (n int) {
	for i := range s.pools {
		n += s.pools[i].waiting()
	}
	return n
}

// scanCost bounds the CPU that looking for due retries takes: 1 % of a core, at some 5 ns
// a place.
const scanCost = 500 // ns

// retry opens the connections whose backoff is over, some at once.
func (s *places) retry() {
	s.nextRetry = load.Never
	scanned, next := 0, int64(load.Never) // next of the places that stay closed
	for i := range s.pools {
		p := &s.pools[i]
		scanned += p.closed.Size
		for range p.closed.Size {
			c, _ := p.closed.Pop()
			switch {
			case !c.current():
			case c.retryAt > s.w.now && p.queue.Size == 0 || s.w.connector.opening >= job.MaxOpening && !s.fresh:
				p.closed.Push(c)
				next = min(next, c.retryAt)
			case s.w.sending() || p.waiting() > 0:
				s.takeNext(c.conn)
			default:
				s.keepClosed(c.conn)
			}
		}
	}
	if next != load.Never {
		next = max(next, s.w.now+max(int64(scanned)*scanCost, job.FirstBackoff))
	}
	s.nextRetry = min(s.nextRetry, next)
}

// takeNext opens a closed place, for the request that has waited longest if there is one.
func (s *places) takeNext(c *conn) {
	if !s.w.pace.closedLoop() {
		if intended, ok := c.pool.queue.Pop(); ok {
			s.w.begin(c, intended, s.w.now)
			return
		}
	}
	if s.fresh {
		s.refill(c)
		return
	}
	s.w.connector.open(c)
}

// Spacings are the mean times in ns between attempts of all places of a pool to connect
// again ahead of a request: the budget of connections that are of no use.
const (
	failedSpacing    = int64(500 * time.Microsecond) // after failed connects
	unusedSpacing    = int64(5 * time.Millisecond)   // of connections that the server closed before any answer
	exhaustedSpacing = int64(50 * time.Millisecond)  // where this machine has no ports or descriptors left
)

// release makes a connected c ready for the next request, and sends one that waits.
func (s *places) release(c *conn) {
	c.reused = true
	if c.session != nil {
		c.listed = false
		s.w.streams.fill(c)
		return
	}
	if s.w.pace.closedLoop() {
		if s.w.pace.started && s.w.sending() {
			s.w.begin(c, s.w.now, s.w.now)
			return
		}
	} else if intended, ok := c.pool.queue.Pop(); ok {
		s.w.begin(c, intended, s.w.now)
		return
	}
	c.state = connIdle
	c.pool.idle.Push(c.place())
}

// spend counts a request on c, and reports whether it is the last one of the connection.
func (s *places) spend(c *conn) bool {
	if c.spent += s.perCall; c.spent < 1 {
		return false
	}
	c.spent--
	return true
}

// held counts the open connections, except those on which the first answer is awaited: the
// server may be about to close them.
func (s *places) held() (n int64) {
	for i := range s.conns {
		switch c := &s.conns[i]; {
		case c.state == connIdle, c.state == connSession && c.session.Active == 0,
			c.served && (c.state == connBusy || c.state == connSession):
			n++
		}
	}
	return n
}

// idleEvent handles an event on a free connection: the server has closed it, or sends
// unexpected bytes. The event may also be of the end of a long answer, which
// readMore has read since.
func (s *places) idleEvent(c *conn) {
	if c.secure == nil {
		nothing, bytes := peek(c.fd)
		if nothing && !c.peerEnded {
			return
		}
		s.countExtra(c, bytes)
	} else {
		c.drained = false
		switch k := c.checkIdle(&s.w.io); k {
		case load.FailureNone:
			return
		case load.FailureExtraBytes:
			s.countExtra(c, true)
		case load.FailureTLS:
			// In TLS 1.3 a server refuses a client's certificate after the handshake.
			s.w.connector.opening++
			s.w.connector.openFailed(c, k)
			return
		}
	}
	s.w.rec.IdleClosed++
	s.w.rec.Dropped(c.connection(), s.w.now)
	s.countUnused(c)
	s.reopen(c) // its entry in the ring of free connections is stale now
}

// peek reports whether a connection is open and has no byte to read, or whether it has one.
func peek(fd int32) (nothing, bytes bool) {
	var b [1]byte
	n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return err == unix.EAGAIN, n > 0
}

// countExtra counts an idle connection on which bytes came after a response.
func (s *places) countExtra(c *conn, came bool) {
	if came && c.served {
		s.w.rec.ExtraBytes++
	}
}

// countUnused counts a connection that the server has closed before any answer.
func (s *places) countUnused(c *conn) {
	if !c.served && c.heir == nil {
		s.w.rec.ClosedUnused++
	}
}

// reopen replaces c's socket ahead of the next request, as long as there will be one. A
// connection that has carried no answer is replaced later.
func (s *places) reopen(c *conn) {
	s.drop(c)
	switch {
	case c.heir != nil:
		s.w.streams.ended = append(s.w.streams.ended, c)
	case s.fresh:
		s.refill(c)
	case !s.w.sending() && c.pool.waiting() == 0:
		s.keepClosed(c)
	case c.served:
		s.w.connector.open(c)
	default:
		s.retryLater(c, unusedSpacing)
	}
}

// drop closes c's socket, if it has one. Closing takes it out of the poller.
func (s *places) drop(c *conn) {
	s.w.deadlines.remove(&c.awaited)
	if c.messages != nil {
		s.w.messages.sendClose(c)
	}
	if c.secure != nil {
		c.endTLS()
	}
	if c.fd >= 0 {
		_ = unix.Close(int(c.fd))
		c.fd = -1
	}
	c.generation++
	c.state = connClosed
}

// refill makes c's place, which has no connection, ready for the next request.
func (s *places) refill(c *conn) {
	switch intended, ok := c.pool.queue.Pop(); {
	case ok:
		s.w.begin(c, intended, s.w.now)
	case s.w.pace.closedLoop() && s.w.pace.started && s.w.sending():
		s.w.begin(c, s.w.now, s.w.now)
	default:
		s.keepClosed(c)
	}
}

// keepClosed keeps c's place for the next request, without one until then. At the end of the load there may be one more: a
// worker that was late finds requests that were due before.
func (s *places) keepClosed(c *conn) {
	c.retryAt = load.Never
	c.pool.closed.Push(c.place())
}

// retryLater starts the backoff of the place. A due request takes it earlier, at once if it
// waits already: however few the places, each request meets the failure itself.
func (s *places) retryLater(c *conn, spacing int64) {
	c.backoff = min(max(job.FirstBackoff, 2*c.backoff), job.LastBackoff)
	c.retryAt = s.w.now + max(c.backoff, spacing*int64(c.pool.closed.Size))
	if s.fresh && !s.w.pace.closedLoop() {
		c.retryAt = load.Never
	}
	if c.pool.queue.Size > 0 {
		c.retryAt = s.w.now
	}
	c.pool.closed.Push(c.place())
	s.nextRetry = min(s.nextRetry, c.retryAt)
}

type connState uint8

const (
	connClosed     connState = iota // no socket, and the next attempt is due at retryAt
	connConnecting                  // the socket is on its way
	connHandshake                   // connected, the TLS handshake is under way
	connIdle                        // connected, in its pool's ring of free connections
	connBusy                        // a request is under way
	connSettings                    // HTTP/2: connected, the server's settings are yet to come
	connSession                     // HTTP/2: requests may be under way on its streams
	connUpgrade                     // WebSocket: connected, the handshake is under way
	connOpening                     // tcp: connected, the opening is under way
)

// conn is one connection and the request it carries. Its socket comes and goes,
// but the place stays.
type conn struct {
	socket
	index      int32
	generation int32 // of the socket: an event for an earlier one is stale
	state      connState
	carries    bool // a request is attached (busy, or waiting for connect)
	pool       *pool

	call
	bytes            []byte  // of the request under way
	written          int     // of them
	reused           bool    // the connection was not opened for its request
	served           bool    // the connection has carried an answer
	spent            float64 // share of the requests after which the connection is replaced
	openEnd          int64   // deadline of opening it, with all addresses
	opened, first    int64   // when the connect began, when the answer's first byte came
	addrs            []netip.AddrPort
	turn, tried      int // of addrs: the first to be tried, and how many have been
	backoff, retryAt int64
	awaited

	arrived stream.Times // messages of the answer under way, not of HTTP/2
	parser  http1.Parser
	session *http2.Session // HTTP/2, nil for HTTP/1.1
	calls   []streamCall   // by the session's streams

	messages *websocket.Conn // WebSocket, nil for other protocols
	listed   bool            // in its pool's ring of free connections
	queued   bool            // in the worker's list of sessions with something to send
	holding  bool            // in the holder's list
	heir     *conn           // the place that this one's session, which the server ends, had; it is not opened again
	leaving  int             // requests under way on such sessions of this place
}

// call is one request, whose instants are ns from t0.
type call struct {
	intended int64
	free     int64 // when a connection could have taken it
	sent     int64 // for the first time, opening its connection included
	reached  bool  // an open connection got it
	retries  int32 // how often it was retried
	what     *request
}

// sentAt is sent, or negative if no open connection got the request.
func (r *call) sentAt() int64 {
	if r.reached {
		return r.sent
	}
	return -1
}

// streamCall is the request on one stream.
type streamCall struct {
	awaited
	call
}

// place is a connection as it was when it entered a ring. If its generation has
// moved on, the entry is stale and skipped.
type place struct {
	*conn
	generation int32
}

func (c *conn) place() place { return place{c, c.generation} }

// unlist notes that c has left its pool's ring of free connections. It reports
// whether c can take a request.
func (c *conn) unlist() bool {
	c.listed = false
	return c.session == nil || c.session.Room()
}

func (p place) current() bool { return p.generation == p.conn.generation }

// connection is the index of the profile's connection that c is, or was before the server ended its session.
func (c *conn) connection() int32 {
	if c.heir != nil {
		return c.heir.index
	}
	return c.index
}

// resender holds requests that a server has certainly not processed, until a connection
// has room for them. Their clocks go on from the intended start, and so do their timeouts.
type resender struct {
	w       *Worker
	waiting int // requests in all pools
}

// push takes a request to be retried, and returns false if it was sent often enough or its
// time is over.
func (s *resender) push(p *pool, r call) bool {
	if r.retries >= job.MaxRetries || s.w.now >= r.sent+s.w.timeout {
		return false
	}
	r.retries++
	p.again.Push(r)
	s.waiting++
	return true
}

// spread gives the waiting requests to sessions with free streams, except from, which has
// refused them. It may still take the rest.
func (s *resender) spread(from *conn) {
	p := from.pool
	for left := p.idle.Size; left > 0 && p.again.Size > 0; left-- {
		at, _ := p.idle.Pop()
		switch {
		case !at.current():
		case at.conn == from:
			p.idle.Push(at)
		case at.unlist():
			r, _ := s.pop(p)
			s.w.streams.attach(at.conn, r)
			s.w.streams.offer(at.conn)
			left = p.idle.Size + 1
		}
	}
}

// deadline is when the time of a waiting request is over, and there is one.
func (s *resender) deadline() int64 {
	first := int64(load.Never)
	for i := range s.w.places.pools {
		if q := &s.w.places.pools[i].again; q.Size > 0 {
			first = min(first, q.First().sent+s.w.timeout)
		}
	}
	return first
}

// expire gives up the waiting requests whose time is over.
func (s *resender) expire() {
	for i := range s.w.places.pools {
		p := &s.w.places.pools[i]
		for p.again.Size > 0 && p.again.First().sent+s.w.timeout <= s.w.now {
			r, _ := s.pop(p)
			s.w.giveUp(r, load.FailureTimeout)
		}
	}
}

// pop returns the request of p that has waited longest.
func (s *resender) pop(p *pool) (r call, ok bool) {
	if r, ok = p.again.Pop(); ok {
		s.waiting--
	}
	return r, ok
}

// giveUp records the failure of a request that no connection carries.
func (w *Worker) giveUp(r call, k load.Failure) {
	w.rec.Finish(&record.Outcome{Intended: r.intended, Sent: r.sentAt(), Free: r.free, End: w.now, Kind: k, Path: r.what.target.Path, Retries: r.retries})
}

// holder sends the small rests of bodies that sessions hold, once their servers had time to return
// more window.
type holder struct {
	w    *Worker
	held job.Queue[held] // in the order of their ends
}

// held is a session with such a rest.
type held struct {
	place
	since   int64
	end     int64
	updates int64 // of its window
}

// The times that RFC 1122 section 4.2.3.4 allows, ns.
const (
	silence = int64(100 * time.Millisecond) // without any window
	maxHeld = int64(time.Second)            // while other streams get window
)

// watch lists c if its session holds a rest.
func (h *holder) watch(c *conn) {
	if c.session.Held && !c.holding {
		c.holding = true
		h.held.Push(held{c.place(), h.w.now, h.w.now + silence, c.session.Updates})
	}
}

// release sends the rests that are due.
func (h *holder) release() {
	for h.next() <= h.w.now {
		of, _ := h.held.Pop()
		if !of.current() {
			continue
		}
		silent := of.session.Updates == of.updates
		if !of.session.Held {
			of.holding = false
			continue
		}
		if !silent && h.w.now < of.since+maxHeld {
			of.end, of.updates = h.w.now+silence, of.session.Updates
			h.held.Push(of)
			continue
		}
		if of.holding = false; silent {
			h.w.rec.LateRests++
		}
		of.session.Release(silent)
		h.w.streams.queueFlush(of.conn)
	}
	h.w.streams.flushAll()
}

// next is when the first session is due, and there may be one.
func (h *holder) next() int64 {
	if h.held.Size == 0 {
		return load.Never
	}
	return h.held.First().end
}

// awaited is an event with a deadline: the answer on a connection or on
// one of its streams, or the connection itself.
type awaited struct {
	of             *conn
	stream         *http2.Stream // nil: the connection
	deadline       int64
	waiting        bool // in the worker's list
	earlier, later *awaited
}

// deadlines is a list in the order of the deadlines.
type deadlines struct{ first, last *awaited }

// add puts a in its place, near the end: all timeouts are equal, so that only a request
// that is retried, or had to wait for a connection, is due before others in the list.
func (d *deadlines) add(a *awaited) {
	if a.waiting {
		d.remove(a)
	}
	before := d.last
	for before != nil && before.deadline > a.deadline {
		before = before.earlier
	}
	a.waiting, a.earlier = true, before
	if before != nil {
		a.later, before.later = before.later, a
	} else {
		a.later, d.first = d.first, a
	}
	if a.later != nil {
		a.later.earlier = a
	} else {
		d.last = a
	}
}

// remove takes a off the list, if it is on it.
func (d *deadlines) remove(a *awaited) {
	if !a.waiting {
		return
	}
	if a.earlier != nil {
		a.earlier.later = a.later
	} else {
		d.first = a.later
	}
	if a.later != nil {
		a.later.earlier = a.earlier
	} else {
		d.last = a.earlier
	}
	a.waiting, a.earlier, a.later = false, nil, nil
}

// shift makes the deadlines count from an instant that later by this many ns.
func (d *deadlines) shift(by int64) {
	for a := d.first; a != nil; a = a.later {
		a.deadline -= by
	}
}
