package epoll

import (
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http2"
)

// equip gives a place what HTTP/2 needs, if its target has it.
func (m *multiplexer) equip(c *conn) {
	p := &m.w.job.Profile
	if c.pool.target.HTTP2 == nil {
		return
	}
	c.session = http2.NewSession(&m.w.exchanges.expect, p.Streams, p.Protocol == load.ProtocolGRPC)
	c.session.Streaming, c.session.KeepCookies = p.GRPCStream, p.Cookies
	c.calls = make([]streamCall, c.session.Size())
}

// retire moves a session that the server ends, with the requests still under way, to another
// place, and opens a new connection in c at once, as other clients do. It reports whether
// it did: a place has room for one such session.
func (m *multiplexer) retire(c *conn) bool {
	if c.ending || !m.w.sending() && c.pool.waiting() == 0 {
		return false
	}
	d := c.retired
	if d == nil {
		d = m.w.places.add()
		d.ending, d.pool, d.user = true, c.pool, c.user
		m.equip(d)
		c.retired = d
	}
	if d.state != connClosed || m.w.poll.move(int(c.fd), watched, d.index, d.generation+1) != nil {
		return false
	}
	d.generation++
	d.state, d.served = connSession, c.served
	d.socket, c.socket = c.socket, socket{fd: -1}
	d.session, c.session = c.session, d.session
	d.calls, c.calls = c.calls, d.calls
	for i := range d.calls {
		d.calls[i].of = d
	}
	m.queueFlush(d)
	m.w.readLater(d)
	m.w.places.reopen(c)
	return true
}
