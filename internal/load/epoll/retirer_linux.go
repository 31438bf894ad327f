package epoll

import (
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http2"
)

// retire moves a session that ends, with the requests still under way, to another place. It opens a new connection in c
// at once, as other clients do. A session ends by the server, or after its share of requests. It reports whether it did.
func (m *multiplexer) retire(c *conn) bool {
	if c.heir != nil || !m.w.sending() && c.pool.waiting() == 0 {
		return false
	}
	d := m.endingPlace()
	if m.w.poll.move(int(c.fd), watched, d.index, d.generation+1) != nil {
		m.ended = append(m.ended, d)
		return false
	}
	d.pool, d.heir = c.pool, c
	if d.session == nil {
		m.addSession(d)
	}
	d.generation++
	d.state, d.served, d.holding = connSession, c.served, false
	d.socket, c.socket = c.socket, socket{fd: -1}
	d.session, c.session = c.session, d.session
	d.calls, c.calls = c.calls, d.calls
	for i := range d.calls {
		d.calls[i].of = d
	}
	c.leaving += d.session.Active
	m.queueFlush(d)
	m.w.readLater(d)
	c.served = true // the server is at work on its requests
	m.w.places.reopen(c)
	return true
}

// addSession gives a place an HTTP/2 session, if its target has HTTP/2.
func (m *multiplexer) addSession(c *conn) {
	p := &m.w.job.Profile
	if c.pool.target.HTTP2 == nil {
		return
	}
	c.session = http2.NewSession(&m.w.exchanges.expect, p.Streams, p.Protocol == load.ProtocolGRPC)
	c.session.Streaming, c.session.Versions = p.GRPCStream, m.w.rec.Versions
	c.session.Chunks = p.Stream == load.StreamChunks
	c.calls = make([]streamCall, c.session.Size())
}

// endingPlace is a free place for a session that the server ends.
func (m *multiplexer) endingPlace() *conn {
	if last := len(m.ended) - 1; last >= 0 {
		d := m.ended[last]
		m.ended = m.ended[:last]
		return d
	}
	return m.w.places.add()
}

// noteGoAway counts a session that the server ends, and keeps the reason if it is an error: most
// servers end a session after a number of requests, or a time.
func (m *multiplexer) noteGoAway(c *conn) {
	if n := c.session.TakeGoAway(); n != nil {
		m.w.rec.GoAways++
		m.w.rec.Dropped(c.connection(), m.w.now)
		if n.IsError() {
			m.w.rec.Because(load.FailureGoAway, n)
		}
	}
}
