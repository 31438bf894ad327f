package epoll

import (
	"errors"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
)

// What lies between a connection's protocol and its socket: nothing, or TLS.

// secureChunk is how many bytes of a request are made into records at once: more
// only when those are on their way.
const secureChunk = 64 << 10

// plainBuffer holds the content of any one record.
const plainBuffer = 32 << 10

// pulled says what a pull brought.
type pulled uint8

const (
	pulledNothing pulled = iota // for now; an event will tell of more
	pulledBytes
	pulledEnd     // the peer will send no more
	pulledFailure // neither will it take any more
)

// pull takes what has arrived on c, a buffer's worth at a time. After a short read
// it does not look again, unless the peer will send no more: then no event would
// tell of the end. Of a connection with TLS it must be called until it brings
// something else than bytes, as what it leaves behind is in a buffer of the worker's.
func (w *Worker) pull(c *conn) (b []byte, p pulled, k load.Failure) {
	if c.secure != nil {
		return w.pullSecure(c)
	}
	if c.dry {
		return nil, pulledNothing, load.FailureNone
	}
	for {
		n, errno := sysRead(c.fd, w.buffer)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return nil, pulledNothing, load.FailureNone
		case errno != 0:
			return nil, pulledFailure, failureOf(errno)
		case n == 0:
			return nil, pulledEnd, load.FailureNone
		}
		c.dry = n < len(w.buffer) && !c.peerEnded
		return w.buffer[:n], pulledBytes, load.FailureNone
	}
}

func (w *Worker) pullSecure(c *conn) ([]byte, pulled, load.Failure) {
	s := c.secure
	for {
		if s.ready() == 0 && s.end == nil {
			if c.dry || !w.fillSecure(c) {
				s.keep()
				return nil, pulledNothing, load.FailureNone
			}
			continue
		}
		n, err := s.tls.Read(w.plain)
		switch {
		case n > 0:
			return w.plain[:n], pulledBytes, load.FailureNone
		case err == errDry: // it was nothing for us: a session ticket, say
		case errors.Is(err, io.EOF):
			return nil, pulledEnd, load.FailureNone
		case err != nil:
			return nil, pulledFailure, target.TLSFailure(err)
		}
	}
}

// fillSecure reads once from the socket behind what is left of the last record;
// false: there is nothing.
func (w *Worker) fillSecure(c *conn) bool {
	s := c.secure
	left := copy(w.buffer, s.in)
	s.in = w.buffer[:left]
	for {
		n, errno := sysRead(c.fd, w.buffer[left:])
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return false
		case errno != 0:
			s.end = errno
		case n == 0:
			s.end = io.EOF
		default:
			s.in = w.buffer[:left+n]
			c.dry = n < len(w.buffer)-left && !c.peerEnded
		}
		return true
	}
}

// push sends the records that are ready, as far as the socket takes them.
func (w *Worker) push(c *conn) unix.Errno {
	s := c.secure
	for s.unsent() {
		n, errno := sysWrite(c.fd, s.out[s.written:])
		switch errno {
		case 0:
			s.written += n
		case unix.EINTR:
		case unix.EAGAIN:
			s.out = append(s.out[:0], s.out[s.written:]...)
			s.written = 0
			return 0
		default:
			return errno
		}
	}
	s.out, s.written = s.out[:0], 0
	return 0
}

// writeSecure is write over TLS.
func (w *Worker) writeSecure(c *conn) {
	request, s := c.request(), c.secure
	for {
		if errno := w.push(c); errno != 0 {
			w.writeFailed(c, errno)
			return
		}
		if s.unsent() || c.written == len(request) {
			return
		}
		b := request[c.written:]
		b = b[:min(len(b), secureChunk)]
		if _, err := s.tls.Write(b); err != nil {
			w.fail(c, target.TLSFailure(err))
			return
		}
		c.written += len(b)
		if w.rec.InWindow(w.now) {
			w.rec.BytesOut += int64(len(b))
		}
	}
}

// flushSecure is flush over TLS.
func (w *Worker) flushSecure(c *conn) {
	s, t := c.session, c.secure
	for {
		if errno := w.push(c); errno != 0 {
			w.flushFailed(c, errno)
			return
		}
		b := s.Unsent()
		if t.unsent() || len(b) == 0 {
			return
		}
		n, err := t.tls.Write(b)
		if err != nil {
			w.lose(c, target.TLSFailure(err))
			return
		}
		if w.rec.InWindow(w.now) {
			w.rec.BytesOut += int64(n)
		}
		s.Sent(n)
	}
}

// lull takes what has come on a connection that nothing is expected on. What TLS
// says for itself is no matter; kindNone: there was nothing else.
func (w *Worker) lull(c *conn) load.Failure {
	switch _, p, k := w.pull(c); p {
	case pulledBytes:
		return load.FailureExtraBytes
	case pulledEnd:
		return load.FailureClosedEarly
	case pulledFailure:
		return k
	}
	return failureOf(w.push(c)) // TLS may have had to answer
}

// shake begins the handshake on a socket that has just connected.
func (w *Worker) shake(c *conn) {
	c.state, c.opened = connShaking, w.now
	at := c.place()
	c.secure = newSecure(c.pool.target.TLS, func() {
		w.post(func() {
			if at.current() && c.state == connShaking {
				w.shaking(c)
			}
		})
	})
	w.aides.Go(c.secure.run)
}

// shakeEvent moves the handshake's bytes.
func (w *Worker) shakeEvent(c *conn, readable bool) {
	if readable {
		w.overhear(c)
	}
	w.shaking(c)
}

// overhear gives the handshake what has arrived.
func (w *Worker) overhear(c *conn) {
	for {
		n, errno := sysRead(c.fd, w.buffer)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return
		case errno != 0:
			c.secure.give(nil, errno)
			return
		case n == 0:
			c.secure.give(nil, io.EOF)
			return
		}
		if c.secure.give(w.buffer[:n], nil); n < len(w.buffer) && !c.peerEnded {
			return
		}
	}
}

// shaking sends what the handshake says, and goes on when it is over.
func (w *Worker) shaking(c *conn) {
	s := c.secure
	over, err := s.hear()
	errno := w.push(c) // an alert that tells the server why, too
	switch {
	case over && err != nil:
		w.openFailed(c, target.TLSFailure(err))
	case over:
		w.shaken(c)
	case errno != 0:
		w.openFailed(c, failureOf(errno))
	}
}

// shaken goes on from a handshake to the protocol.
func (w *Worker) shaken(c *conn) {
	s := c.secure
	s.shaking = false
	w.rec.Handshaken(s.tls.ConnectionState(), w.now-c.opened)
	if c.session != nil {
		if s.tls.ConnectionState().NegotiatedProtocol != target.AlpnHTTP2 {
			w.openFailed(c, load.FailureALPN)
			return
		}
		w.greet(c)
		c.dry = true
		w.talk(c)
		return
	}
	c.dry = true // what has arrived is in s.in
	if k := w.lull(c); k != load.FailureNone {
		w.openFailed(c, k)
		return
	}
	w.usable(c)
}

// unsecure ends c's TLS before its socket is closed: politely where that is possible.
func (w *Worker) unsecure(c *conn) {
	s := c.secure
	c.secure = nil
	switch {
	case s.shaking:
		s.give(nil, net.ErrClosed) // its goroutine ends
	case !s.unsent() && s.end == nil && s.tls.CloseWrite() == nil:
		_, _ = sysWrite(c.fd, s.out)
	}
}
