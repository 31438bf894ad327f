package epoll

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
)

// connector opens connections: to each of the host's addresses in turn, and on to
// the next after a failure.
type connector struct {
	w          *Worker
	opening    int                      // connections that are not yet usable
	lastReady  int64                    // instant of the last one, 0 if none yet
	exhausted  int                      // connects in a row that this machine could not begin
	background sync.WaitGroup           // goroutines that post to the inbox
	avoided    map[netip.AddrPort]int64 // addresses that failed, until an instant
}

// mostShare is the most time in ns for a connect to one of several addresses. The last has
// all that is left.
const mostShare = int64(time.Second)

// errNoHandshake is the reason why a connection was never usable.
var errNoHandshake = errors.New("the handshake did not end")

// expired handles the end of the time for opening c, or for one of its addresses.
func (cn *connector) expired(c *conn) {
	switch {
	case c.state != connConnecting:
		cn.w.rec.Because(load.FailureTimeout, errNoHandshake)
		cn.openFailed(c, load.FailureTimeout)
	case c.tried < len(c.addrs) && cn.w.now < c.openEnd:
		cn.connectFailed(c, unix.ETIMEDOUT)
	default:
		cn.avoid(c)
		cn.openFailed(c, load.FailureTimeout)
	}
}

// connectFailed handles a failed connect and tries the next address.
func (cn *connector) connectFailed(c *conn, errno unix.Errno) {
	_ = unix.Close(int(c.fd))
	c.fd = -1
	c.generation++
	c.peerEnded, c.deaf = false, false
	cn.avoid(c)
	cn.tryNext(c, failureOf(errno))
}

// avoidFor is the time in ns for which an address is skipped after a failed connect,
// if the name has others.
const avoidFor = int64(time.Second)

// open begins to connect c. A failure at once is handled like a failure later.
func (cn *connector) open(c *conn) {
	c.generation++
	c.peerEnded, c.deaf, c.reused, c.served, c.opened = false, false, false, false, cn.w.now
	if cn.w.pace.started {
		cn.w.rec.Reconnects++
	}
	c.state, c.fd, c.tried = connConnecting, -1, 0
	cn.opening++
	c.openEnd = cn.w.deadline(c)
	cn.until(c, c.openEnd)
	if t := c.pool.target; t.Socket == "" {
		cn.tryAddresses(c, t.Addrs)
		return
	}
	c.addrs = nil
	cn.tryNext(c, load.FailureNone)
}

// tryAddresses connects c to the next of addrs without a recent failure.
func (cn *connector) tryAddresses(c *conn, addrs []netip.AddrPort) {
	c.addrs, c.turn, c.tried = addrs, c.pool.turn%len(addrs), 0
	for i := range addrs {
		if next := (c.pool.turn + i) % len(addrs); cn.avoided[addrs[next]] <= cn.w.now {
			c.turn = next
			break
		}
	}
	c.pool.turn = c.turn + 1
	cn.tryNext(c, load.FailureNone)
}

// tryNext connects c to its next address after one has failed for k. After the last
// address, the connection has failed.
func (cn *connector) tryNext(c *conn, k load.Failure) {
	for c.tried < max(1, len(c.addrs)) {
		if k != load.FailureNone {
			cn.w.rec.NotOpened(k)
		}
		c.opened = cn.w.now
		if k = cn.connect(c); k == load.FailureNone {
			// Each address but the last has a share of the time: one may be dead.
			if left := int64(len(c.addrs) - c.tried + 1); left > 1 {
				cn.until(c, cn.w.now+min((c.openEnd-cn.w.now)/left, mostShare))
			} else if len(c.addrs) > 1 {
				cn.until(c, c.openEnd)
			}
			return
		}
		cn.avoid(c)
	}
	cn.openFailed(c, k)
}

// connect begins to connect c's socket to the address that is next.
func (cn *connector) connect(c *conn) load.Failure {
	c.tried++
	fd, errno := dial(c.pool.target.Socket, c.address())
	if errno == 0 {
		if err := cn.w.poll.add(fd, watched, c.index, c.generation); err != nil {
			_ = unix.Close(fd)
			errno = errnoOf(err)
		}
	}
	if errno != 0 {
		return failureOf(errno)
	}
	c.fd, c.stamped = int32(fd), false
	return load.FailureNone
}

// avoid skips the failed address for avoidFor if the name has other addresses.
func (cn *connector) avoid(c *conn) {
	if len(c.addrs) > 1 {
		cn.avoided[c.address()] = cn.w.now + avoidFor
	}
}

// opened handles the event that ends a connect.
func (cn *connector) opened(c *conn) {
	if errno := socketError(c.fd); errno != 0 {
		cn.connectFailed(c, errno)
		return
	}
	cn.connected(c)
	if c.deadline != c.openEnd {
		cn.until(c, c.openEnd)
	}
	switch {
	case c.pool.target.TLS != nil:
		cn.startHandshake(c)
	case c.session != nil:
		cn.w.streams.startSession(c)
	default:
		cn.usable(c)
	}
}

// connected counts the address of a new connection.
func (cn *connector) connected(c *conn) {
	cn.w.rec.Connected(c.address(), cn.w.now, cn.w.now-c.opened)
}

// address is the one that was tried last, or none of a Unix socket.
func (c *conn) address() netip.AddrPort {
	if len(c.addrs) == 0 {
		return netip.AddrPort{}
	}
	return c.addrs[(c.turn+c.tried-1)%len(c.addrs)]
}

// until sets the deadline of opening c.
func (cn *connector) until(c *conn, deadline int64) {
	c.deadline = deadline
	cn.w.deadlines.add(&c.awaited)
}

// usable takes a connection into use on which a request can be sent.
func (cn *connector) usable(c *conn) {
	switch {
	case c.messages != nil && c.state != connUpgrade:
		cn.w.messages.upgrade(c)
		return
	case c.pool.target.Opening != nil && c.state != connOpening:
		cn.w.openings.begin(c)
		return
	}
	cn.ready()
	if c.carries {
		c.state = connBusy
		cn.w.exchanges.send(c)
		return
	}
	cn.w.deadlines.remove(&c.awaited)
	cn.w.places.release(c)
}

// ready counts a connection that is usable now.
func (cn *connector) ready() {
	cn.opening--
	cn.lastReady, cn.exhausted = cn.w.now, 0
	cn.w.job.Opened()
}

func (cn *connector) openFailed(c *conn, k load.Failure) {
	cn.opening--
	cn.w.rec.NotOpened(k)
	cn.w.job.Unopened(c.pool.target)
	cn.w.places.drop(c)
	spacing := failedSpacing
	if k == load.FailureNoPorts || k == load.FailureNoDescriptors {
		cn.exhausted++
		spacing = exhaustedSpacing
	}
	cn.w.places.retryLater(c, spacing)
	if c.carries {
		cn.w.exchanges.finish(c, k, 0)
	} else if cn.w.pace.closedLoop() && cn.w.pace.started && cn.w.sending() {
		// In a closed loop the next request is due as soon as a connection can
		// take it. One that cannot be opened fails that request.
		c.call = call{intended: cn.w.now, free: cn.w.now, sent: cn.w.now, what: c.pool.next()}
		cn.w.rec.Due(c.intended)
		cn.w.exchanges.finish(c, k, 0)
	}
}

// startHandshake begins the handshake on a socket that has just connected.
func (cn *connector) startHandshake(c *conn) {
	c.state, c.opened = connHandshake, cn.w.now
	at := c.place()
	c.secure = newSecure(c.pool.target.TLS, func() {
		cn.w.inbox.post(func() {
			if at.current() && c.state == connHandshake {
				cn.continueHandshake(c)
			}
		})
	})
	cn.background.Go(c.secure.run)
}

// handshakeEvent moves the handshake's bytes.
func (cn *connector) handshakeEvent(c *conn, readable bool) {
	if readable {
		c.feedHandshake(&cn.w.io)
	}
	cn.continueHandshake(c)
}

// continueHandshake sends the handshake's bytes, and goes on after its end.
func (cn *connector) continueHandshake(c *conn) {
	s := c.secure
	over, err := s.takeOutput()
	errno := c.flushTLS() // including an alert for the server
	switch {
	case over && err != nil:
		k := target.TLSFailure(err)
		cn.w.rec.Because(k, err)
		cn.openFailed(c, k)
	case over:
		cn.endHandshake(c)
	case errno != 0:
		cn.openFailed(c, failureOf(errno))
	}
}

// endHandshake goes on from a handshake to the protocol.
func (cn *connector) endHandshake(c *conn) {
	s := c.secure
	s.shaking = false
	cn.w.rec.Handshaken(s.tls.ConnectionState(), cn.w.now-c.opened)
	if c.session != nil {
		if s.tls.ConnectionState().NegotiatedProtocol != target.AlpnHTTP2 {
			cn.openFailed(c, load.FailureALPN)
			return
		}
		cn.w.streams.startSession(c)
		c.drained = true
		cn.w.streams.readSession(c)
		return
	}
	c.drained = true // what has arrived is in s.in
	if k := c.checkIdle(&cn.w.io); k != load.FailureNone {
		cn.w.rec.Because(k, s.failed)
		cn.openFailed(c, k)
		return
	}
	cn.usable(c)
}

// opener sends the opening of a connection of protocol tcp, and reads its answer, before the first request.
type opener struct{ w *Worker }

// errOpening is the reason why a connection was never usable.
var errOpening = errors.New("the opening of the connection has another answer")

// begin sends the opening. The deadline of the connect holds for it too.
func (o *opener) begin(c *conn) {
	c.state = connOpening
	x := c.pool.target.Opening
	c.parser.Echo, c.parser.Until, c.parser.Unlike = x.Expect, x.Until, load.FailureWrongBody
	c.parser.Reset(true)
	c.bytes, c.written = x.Send, 0
	o.write(c)
}

func (o *opener) write(c *conn) {
	if k := c.flush(o.w, c); k != load.FailureNone {
		o.w.connector.openFailed(c, k)
	}
}

func (o *opener) event(c *conn, writable, readable bool) {
	if writable && c.isWriting() {
		o.write(c)
	}
	if readable && c.state == connOpening {
		o.read(c)
	}
}

func (o *opener) read(c *conn) {
	for c.drained = false; ; {
		b, p, k := o.w.receive(c, 0)
		if p == receivedNothing {
			return
		}
		if p == receivedEnd {
			k = load.FailureClosedEarly
		}
		used, done := 0, false
		if k == load.FailureNone {
			used, done, k = c.parser.Feed(b)
		}
		if done && used < len(b) {
			k = c.parser.Extra()
		}
		switch {
		case k != load.FailureNone:
			if k == load.FailureWrongBody {
				o.w.rec.Because(k, errOpening)
			}
			o.w.connector.openFailed(c, k)
			return
		case done:
			t := c.pool.target
			c.parser.Echo, c.parser.Until, c.parser.Unlike = t.Echo, t.Until, t.Unlike
			o.w.connector.usable(c)
			return
		}
	}
}
