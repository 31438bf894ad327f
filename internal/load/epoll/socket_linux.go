package epoll

import (
	"errors"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
)

// socket is a connection's end, plain or with TLS. It comes and goes; the conn stays.
type socket struct {
	fd        int32
	peerEnded bool    // the peer will send no more
	drained   bool    // the last read took all that had arrived
	secure    *secure // nil: plaintext, or no socket
}

// buffers are shared by a worker's sockets: what arrives is parsed and never kept.
type buffers struct {
	raw   []byte
	plain []byte // content of one TLS record; nil without TLS
}

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
func (c *socket) receive(b *buffers) ([]byte, pulled, load.Failure) {
	if c.secure != nil {
		return c.receiveTLS(b)
	}
	if c.drained {
		return nil, pulledNothing, load.FailureNone
	}
	for {
		n, errno := sysRead(c.fd, b.raw)
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
		c.drained = n < len(b.raw) && !c.peerEnded
		return b.raw[:n], pulledBytes, load.FailureNone
	}
}

func (c *socket) receiveTLS(b *buffers) ([]byte, pulled, load.Failure) {
	s := c.secure
	for {
		if s.ready() == 0 && s.end == nil {
			if c.drained || !c.fillTLS(b) {
				s.keep()
				return nil, pulledNothing, load.FailureNone
			}
			continue
		}
		n, err := s.tls.Read(b.plain)
		switch {
		case n > 0:
			return b.plain[:n], pulledBytes, load.FailureNone
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
func (c *socket) fillTLS(b *buffers) bool {
	s := c.secure
	left := copy(b.raw, s.in)
	s.in = b.raw[:left]
	for {
		n, errno := sysRead(c.fd, b.raw[left:])
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
			s.in = b.raw[:left+n]
			c.drained = n < len(b.raw)-left && !c.peerEnded
		}
		return true
	}
}

// push sends the records that are ready, as far as the socket takes them.
func (c *socket) flushTLS() unix.Errno {
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

// lull takes what has come on a connection that nothing is expected on. What TLS
// says for itself is no matter; kindNone: there was nothing else.
func (c *socket) checkIdle(b *buffers) load.Failure {
	switch _, p, k := c.receive(b); p {
	case pulledBytes:
		return load.FailureExtraBytes
	case pulledEnd:
		return load.FailureClosedEarly
	case pulledFailure:
		return k
	}
	return failureOf(c.flushTLS()) // TLS may have had to answer
}

// overhear gives the handshake what has arrived.
func (c *socket) feedHandshake(b *buffers) {
	for {
		n, errno := sysRead(c.fd, b.raw)
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
		if c.secure.give(b.raw[:n], nil); n < len(b.raw) && !c.peerEnded {
			return
		}
	}
}

// unsecure ends c's TLS before its socket is closed: politely where that is possible.
func (c *socket) endTLS() {
	s := c.secure
	c.secure = nil
	switch {
	case s.shaking:
		s.give(nil, net.ErrClosed) // its goroutine ends
	case !s.unsent() && s.end == nil && s.tls.CloseWrite() == nil:
		_, _ = sysWrite(c.fd, s.out)
	}
}
