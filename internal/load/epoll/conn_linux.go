package epoll

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http1"
	"github.com/tare-mesh/tare/internal/load/http2"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/target"
)

type connState uint8

const (
	connClosed     connState = iota // no socket; retryAt says when the next attempt is due
	connConnecting                  // the socket is on its way
	connShaking                     // connected, the TLS handshake is under way
	connIdle                        // connected, in its pool's ring of free connections
	connBusy                        // a request is under way
	connGreeting                    // HTTP/2: connected, the server's settings are yet to come
	connSession                     // HTTP/2: requests may be under way on its streams
)

// conn is one connection and the request it carries. Its socket comes and goes;
// the place stays.
type conn struct {
	index      int32
	generation int32 // of the socket: an event for an earlier one is stale
	fd         int32
	state      connState
	carries    bool // a request is attached (busy, or waiting for connect)
	peerEnded  bool // the peer will send no more
	dry        bool // the last read took all there was
	pool       *pool

	written          int // bytes of the request
	intended, sent   int64
	free             int64 // when it could have taken its request
	opened, first    int64 // when the connect began, when the answer's first byte came
	addrs            []netip.AddrPort
	turn, tried      int // of addrs: the first to be tried, and how many have been
	backoff, retryAt int64
	awaited

	parser  http1.Parser
	session *http2.Session // HTTP/2; nil for HTTP/1.1
	calls   []streamCall   // by the session's streams
	listed  bool           // in its pool's ring of free connections
	queued  bool           // in the worker's list of sessions with something to send
	secure  *secure        // nil: plaintext, or no socket

	// Of redirects:
	home    *conn            // the place that a detour is of; nil: it is one itself
	detours map[string]*conn // by origin
	hop     *http1.Hop       // the request under way; nil: the target's
	hops    int              // redirects that the request has followed
}

// streamCall is the request on one stream; instants are ns from t0.
type streamCall struct {
	awaited
	intended, free, sent int64
}

// pool is one target's connections of one worker, and the requests that wait for one.
type pool struct {
	target *target.Target
	idle   job.Queue[place]
	closed job.Queue[place] // without a socket
	queue  job.Queue[int64] // intended starts of due requests
	turn   int              // the next of the target's addresses
	bodily bool
	header http1.HeaderMemo // of the last answer
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

// open begins to connect c. A failure at once is handled like a failure later.
func (w *Worker) open(c *conn) {
	c.generation++
	c.peerEnded, c.opened = false, w.now
	if w.started && c.home == nil {
		w.rec.Reconnects++
	}
	c.state, c.fd, c.tried = connConnecting, -1, 0
	w.opening++
	c.deadline = w.now + w.timeout
	w.await(&c.awaited)
	w.reach(c)
}

// opened handles the event that ends a connect.
func (w *Worker) opened(c *conn) {
	if errno := socketError(c.fd); errno != 0 {
		w.unreached(c, errno)
		return
	}
	w.reached(c)
	switch {
	case c.pool.target.TLS != nil:
		w.shake(c)
	case c.session != nil:
		w.greet(c)
	default:
		c.backoff = 0
		w.usable(c)
	}
}

// usable takes a connection into use on which a request can be sent.
func (w *Worker) usable(c *conn) {
	w.opening--
	w.unawait(&c.awaited)
	c.parser.Reset(c.pool.bodily)
	if c.carries {
		c.state = connBusy
		w.send(c)
		return
	}
	w.release(c)
}

func (w *Worker) openFailed(c *conn, k load.Failure) {
	w.opening--
	w.rec.OpenKinds[k]++
	w.drop(c)
	if c.home != nil {
		if c.carries {
			w.finish(c, k, 0)
			w.comeBack(c.home)
		}
		return
	}
	c.backoff = min(max(job.FirstBackoff, 2*c.backoff), job.LastBackoff)
	w.retryLater(c)
	if c.carries {
		w.finish(c, k, 0)
	} else if w.closedLoop() && w.started && w.sending() {
		// In a closed loop the next request is due as soon as a connection can
		// take it; one that cannot be opened fails that request.
		c.intended, c.sent, c.free = w.now, -1, w.now
		w.rec.Due(c.intended)
		w.finish(c, k, 0)
	}
}

// retryLater lets the place rest for its backoff. A due request that finds no
// better place may take it earlier.
func (w *Worker) retryLater(c *conn) {
	c.retryAt = w.now + c.backoff
	if w.fresh && !w.closedLoop() {
		c.retryAt = load.Never
	}
	c.pool.closed.Push(c.place())
	w.nextRetry = min(w.nextRetry, c.retryAt)
}

// drop closes c's socket, if it has one. Closing takes it out of the poller.
func (w *Worker) drop(c *conn) {
	w.unawait(&c.awaited)
	if c.secure != nil {
		w.unsecure(c)
	}
	if c.fd >= 0 {
		_ = unix.Close(int(c.fd))
		c.fd = -1
	}
	c.generation++
	c.state = connClosed
}

// release makes a connected c ready for the next request, which may be there already.
func (w *Worker) release(c *conn) {
	if c.home != nil {
		c.state = connIdle
		w.comeBack(c.home)
		return
	}
	if c.session != nil {
		c.listed = false
		w.fill(c)
		return
	}
	if w.closedLoop() {
		if w.started && w.sending() {
			w.begin(c, w.now, w.now)
			return
		}
	} else if intended, ok := c.pool.queue.Pop(); ok {
		w.begin(c, intended, w.now)
		return
	}
	c.state = connIdle
	c.pool.idle.Push(c.place())
}

// reopen replaces c's socket ahead of the next request, as long as there will be one.
func (w *Worker) reopen(c *conn) {
	w.drop(c)
	switch {
	case c.home != nil:
		w.comeBack(c.home)
	case w.fresh:
		w.vacate(c)
	case w.sending() || c.pool.queue.Size > 0:
		w.open(c)
	}
}

// vacate makes c's place, which has no connection, ready for the next request.
func (w *Worker) vacate(c *conn) {
	switch intended, ok := c.pool.queue.Pop(); {
	case ok:
		w.begin(c, intended, w.now)
	case w.closedLoop() && w.started && w.sending():
		w.begin(c, w.now, w.now)
	default:
		c.retryAt = load.Never
		c.pool.closed.Push(c.place())
	}
}

// idleEvent handles a free connection that says something: the server has
// closed it, or speaks out of turn.
func (w *Worker) idleEvent(c *conn) {
	if c.secure != nil {
		c.dry = false
		switch k := w.lull(c); k {
		case load.FailureNone:
			return
		case load.FailureTLS:
			// In TLS 1.3 a server refuses a client's certificate after the handshake.
			w.opening++
			w.openFailed(c, k)
			return
		}
	}
	w.rec.IdleClosed++
	w.drop(c) // its entry in the ring of free connections is stale now
	if w.sending() && c.home == nil {
		w.open(c)
	}
}
