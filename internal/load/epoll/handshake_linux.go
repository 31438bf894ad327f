package epoll

import (
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
)

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
