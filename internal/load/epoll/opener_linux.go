package epoll

import (
	"errors"

	"github.com/tare-mesh/tare/internal/load"
)

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

// event handles an event on c's socket.
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
