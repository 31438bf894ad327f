package epoll

import (
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/internal/load/host"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/load/stream"
	"github.com/tare-mesh/tare/internal/load/websocket"
)

// exchanger sends requests and reads answers on connections of HTTP/1.1 and echoes.
type exchanger struct {
	w       *Worker
	expect  check.Expectation
	streams bool // an answer has had messages
}

// send writes the request. Bytes that do not fit follow when the socket has room.
func (x *exchanger) send(c *conn) {
	c.reached, c.arrived = true, stream.Times{}
	if c.messages != nil {
		x.w.messages.send(c)
		return
	}
	if x.streams {
		c.stamp()
	}
	what := c.what
	c.parser.Served = c.served
	c.parser.Reset(what.target.Bodily)
	c.parser.Memo = &what.header
	c.bytes, c.written = what.target.Request, 0
	if deadline := x.w.deadline(c); !c.waiting || c.deadline != deadline {
		c.deadline = deadline
		x.w.deadlines.add(&c.awaited)
	}
	x.write(c)
}

func (x *exchanger) write(c *conn) {
	if k := c.flush(x.w, c); k != load.FailureNone {
		x.writeFailed(c, k)
	}
}

// Unsent returns the bytes of c's request that are still to be written.
func (c *conn) Unsent() []byte { return c.bytes[c.written:] }

// Sent counts written bytes of c's request.
func (c *conn) Sent(n int) { c.written += n }

// writeFailed ends a request that cannot be written, unless its response has already
// arrived: the response may explain the reset.
func (x *exchanger) writeFailed(c *conn, k load.Failure) {
	c.peerEnded = true
	x.read(c)
	if c.carries && c.state == connBusy {
		x.broken(c, k)
	}
}

// isWriting reports whether some of c's request is still to be written.
func (c *conn) isWriting() bool {
	return c.written < len(c.bytes) || c.secure != nil && c.secure.unsent()
}

// read reads the arrived bytes of the response.
func (x *exchanger) read(c *conn) {
	c.drained = false
	for reads := 0; ; reads++ {
		b, p, k := x.w.receive(c, reads)
		if p == receivedNothing {
			if c.secure != nil && c.secure.unsent() {
				x.write(c) // TLS has had to answer
			}
			return
		}
		if x.w.now >= c.deadline {
			x.fail(c, load.FailureTimeout) // read after the deadline, in one batch with others
			return
		}
		switch p {
		case receivedEnd:
			x.ended(c)
			return
		case receivedFailure:
			x.broken(c, k)
			return
		}
		if x.feed(c, b) {
			return
		}
	}
}

// feed gives bytes to the parser and acts when the response is complete. True
// means that the request has ended.
func (x *exchanger) feed(c *conn, b []byte) bool {
	for fed := 0; fed < len(b); {
		next, started, messages := b[fed:], c.parser.Started(), c.parser.Stream.Messages
		if c.stamped {
			next = next[:piece(next, started)]
		}
		used, done, k := c.parser.Feed(next)
		if fed += used; fed == len(b) || used < len(next) || done || !started || c.parser.Stream.Messages > messages {
			at := x.came(c, b[:fed])
			if !started {
				c.first = at
			}
			if x.arrive(c, c.parser.Stream.Messages, at); c.arrived.Messages > 0 && !c.stamped {
				x.streams = true
				c.stamp()
			}
			b, fed = b[fed:], 0
		}
		switch {
		case k != load.FailureNone:
			x.fail(c, k)
			return true
		case done && len(b) > 0:
			x.fail(c, c.parser.Extra())
			return true
		case done:
			return x.whole(c)
		}
	}
	return false
}

// came returns when bytes of the answer on c came, which are taken.
func (x *exchanger) came(c *conn, b []byte) (at int64) {
	if !c.stamped {
		return x.w.now
	}
	age := c.take(b)
	x.w.tick()
	return max(x.w.now-age, c.sent)
}

// arrive notes the messages of the answer on c, now that it has n.
func (x *exchanger) arrive(c *conn, n int, at int64) {
	for c.arrived.Messages < n {
		if gap := c.arrived.Arrive(at); gap >= 0 {
			x.w.rec.MessageGap(at, gap)
		}
	}
}

// whole ends the request of c, whose response is complete.
func (x *exchanger) whole(c *conn) bool {
	if c.secure != nil { // the end of the connection may have come with the answer
		switch c.checkIdle(&x.w.io) {
		case load.FailureNone:
		case load.FailureExtraBytes:
			x.fail(c, c.parser.Extra())
			return true
		default:
			c.peerEnded = true
		}
	}
	x.answered(c)
	return true
}

func (x *exchanger) ended(c *conn) {
	if done, k := c.parser.EndOfStream(); !done {
		x.broken(c, k)
		return
	}
	x.answered(c)
}

func (x *exchanger) answered(c *conn) {
	status, k := c.parser.Status, x.expect.Check(c.parser.Status, c.parser.Body, &c.parser.Content)
	// An answer to a request that is not yet written leaves the connection in doubt.
	reusable := !x.w.places.spend(c) && !x.w.places.fresh && !c.parser.Closing && !c.peerEnded && !c.isWriting()
	c.served, c.backoff = true, 0
	x.w.deadlines.remove(&c.awaited)
	x.finish(c, k, status)
	if c.peerEnded || c.parser.Closing && !x.w.places.fresh {
		x.w.rec.Dropped(c.connection(), x.w.now)
	}
	if !reusable {
		x.w.places.reopen(c)
		return
	}
	x.w.places.release(c)
}

// broken ends c's request because its connection has ended.
func (x *exchanger) broken(c *conn, k load.Failure) {
	if k.Cut() {
		x.w.rec.Dropped(c.connection(), x.w.now)
	}
	if c.parser.Started() || k != load.FailureReset && k != load.FailureClosedEarly {
		x.fail(c, k)
		return
	}
	if x.w.places.countUnused(c); !c.reused {
		x.fail(c, k)
		return
	}
	if !host.Arrived(c.fd, c.written) {
		k = load.FailureIdleClosed
	}
	x.fail(c, k)
}

// fail ends c's request, and the connection with it.
func (x *exchanger) fail(c *conn, k load.Failure) {
	x.finish(c, k, 0)
	x.w.places.reopen(c)
}

func (x *exchanger) finish(c *conn, k load.Failure, status int) {
	if c.carries {
		x.w.inFlight--
	}
	c.carries = false
	x.w.sleep.answered(x.w.now - c.sent)
	x.w.rec.Finish(&record.Outcome{Intended: c.intended, Sent: c.sentAt(), Free: c.free, First: c.first, End: x.w.now, Status: status, Kind: k, Path: c.what.target.Path,
		Messages: c.arrived.Messages, Message: c.arrived.Message, Conn: c.index, Version: c.parser.Version})
}

// messenger sends messages and reads their answers on WebSocket connections. The server may
// also send at any other time: pings, messages of its own, a close.
type messenger struct{ w *Worker }

// addWebSocket gives a place a WebSocket connection, if its target is a WebSocket.
func (m *messenger) addWebSocket(c *conn) {
	if r := c.pool.target.WebSocket; r != nil {
		c.messages = websocket.NewConn(r, &m.w.exchanges.expect, m.w.rec.Versions)
	}
}

// upgrade begins the handshake on a connection. The deadline of the connect holds for it too.
func (m *messenger) upgrade(c *conn) {
	c.state = connUpgrade
	c.messages.Reset()
	m.flush(c)
}

func (m *messenger) send(c *conn) {
	c.messages.Begin()
	if deadline := m.w.deadline(c); !c.waiting || c.deadline != deadline {
		c.deadline = deadline
		m.w.deadlines.add(&c.awaited)
	}
	m.flush(c)
}

// writeFailed reads the remaining bytes, which may explain the failed write, and ends the connection.
func (m *messenger) writeFailed(c *conn, k load.Failure) {
	c.peerEnded = true
	generation := c.generation
	if m.read(c); c.generation == generation {
		m.end(c, k)
	}
}

func (m *messenger) event(c *conn, writable, readable bool) {
	generation := c.generation
	if writable {
		m.flush(c)
	}
	if readable && c.generation == generation {
		m.read(c)
	}
}

// flush writes the bytes for the server. Those that do not fit follow when the socket has room.
func (m *messenger) flush(c *conn) {
	if k := c.flush(m.w, c.messages); k != load.FailureNone {
		m.writeFailed(c, k)
	}
}

// read reads what has arrived, up to the end of the stream.
func (m *messenger) read(c *conn) {
	c.drained = false
	generation := c.generation
	for reads := 0; ; reads++ {
		b, p, k := m.w.receive(c, reads)
		if p == receivedNothing {
			m.flush(c) // pongs, and what TLS has had to answer
			return
		}
		if c.carries && c.state == connBusy && m.w.now >= c.deadline {
			m.end(c, load.FailureTimeout) // read after the deadline, in one batch with others
			return
		}
		done := false
		switch p {
		case receivedEnd:
			k = c.messages.EndReason()
		case receivedBytes:
			done, k = c.messages.Feed(b, m.w.now)
			m.w.exchanges.arrive(c, c.messages.Messages, m.w.now)
		}
		switch {
		case c.state == connUpgrade && k == load.FailureNone && c.messages.Open:
			m.w.connector.usable(c)
		case done:
			m.answered(c, k)
		}
		switch {
		case c.generation != generation:
			return
		case k != load.FailureNone:
			m.end(c, k)
			return
		}
	}
}

// answered handles a complete answer. k is the end of the connection in the same bytes.
func (m *messenger) answered(c *conn, k load.Failure) {
	c.served, c.backoff = true, 0
	m.w.deadlines.remove(&c.awaited)
	flaw := c.messages.Outcome()
	m.finish(c, flaw, load.StatusEcho)
	switch {
	case k != load.FailureNone:
		c.state = connIdle // the caller ends it
	case m.w.places.fresh:
		m.w.places.reopen(c)
	default:
		m.w.places.release(c)
	}
}

// end ends the connection for what happened to it, and the request under way on it.
func (m *messenger) end(c *conn, k load.Failure) {
	m.w.rec.Because(k, c.messages.Reason)
	if c.state == connUpgrade {
		m.w.connector.openFailed(c, k)
		return
	}
	m.w.places.countUnused(c)
	if k.Cut() {
		m.w.rec.Dropped(c.connection(), m.w.now)
	}
	if c.carries {
		m.finish(c, k, 0)
	} else {
		m.w.rec.IdleClosed++
	}
	m.w.places.reopen(c)
}

func (m *messenger) finish(c *conn, k load.Failure, status int) {
	s, messages := c.messages, 0
	if m.w.job.Profile.WebSocket.Messages > 1 {
		messages = s.Messages
	}
	c.carries = false
	m.w.inFlight--
	m.w.sleep.answered(m.w.now - c.sent)
	m.w.rec.Finish(&record.Outcome{Intended: c.intended, Sent: c.sentAt(), Free: c.free, First: s.First, End: m.w.now, Status: status, Kind: k,
		Path: c.what.target.Path, Messages: messages, Message: s.Message, Conn: c.connection(), Version: s.Version})
}

// sendClose tries to send a close frame before c's socket is closed.
func (m *messenger) sendClose(c *conn) {
	open := c.messages.Open
	c.messages.Close(load.CloseNormal) // unless it was
	if c.messages.Open = false; c.fd < 0 || !open || c.secure != nil && c.secure.unsent() {
		return
	}
	if n, errno, err := c.write(c.messages.Unsent()); errno == 0 && err == nil {
		c.messages.Sent(n)
	}
	if c.secure != nil {
		_ = c.flushTLS()
	}
}
