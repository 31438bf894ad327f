package epoll

import (
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/load/websocket"
)

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
