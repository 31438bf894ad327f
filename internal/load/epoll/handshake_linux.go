package epoll

import (
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
)

// shake begins the handshake on a socket that has just connected.
func (cn *connector) shake(c *conn) {
	c.state, c.opened = connShaking, cn.w.now
	at := c.place()
	c.secure = newSecure(c.pool.target.TLS, func() {
		cn.w.inbox.post(func() {
			if at.current() && c.state == connShaking {
				cn.shaking(c)
			}
		})
	})
	cn.background.Go(c.secure.run)
}

// shakeEvent moves the handshake's bytes.
func (cn *connector) shakeEvent(c *conn, readable bool) {
	if readable {
		c.feedHandshake(&cn.w.io)
	}
	cn.shaking(c)
}

// shaking sends what the handshake says, and goes on when it is over.
func (cn *connector) shaking(c *conn) {
	s := c.secure
	over, err := s.hear()
	errno := c.flushTLS() // an alert that tells the server why, too
	switch {
	case over && err != nil:
		cn.openFailed(c, target.TLSFailure(err))
	case over:
		cn.shaken(c)
	case errno != 0:
		cn.openFailed(c, failureOf(errno))
	}
}

// shaken goes on from a handshake to the protocol.
func (cn *connector) shaken(c *conn) {
	s := c.secure
	s.shaking = false
	cn.w.rec.Handshaken(s.tls.ConnectionState(), cn.w.now-c.opened)
	if c.session != nil {
		if s.tls.ConnectionState().NegotiatedProtocol != target.AlpnHTTP2 {
			cn.openFailed(c, load.FailureALPN)
			return
		}
		cn.w.streams.greet(c)
		c.drained = true
		cn.w.streams.talk(c)
		return
	}
	c.drained = true // what has arrived is in s.in
	if k := c.checkIdle(&cn.w.io); k != load.FailureNone {
		cn.openFailed(c, k)
		return
	}
	cn.usable(c)
}
