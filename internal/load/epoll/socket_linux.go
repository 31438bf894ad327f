package epoll

import (
	"errors"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
)

// socket is a connection's end, plain or with TLS. It comes and goes, but the conn stays.
type socket struct {
	fd        int32
	peerEnded bool    // the peer will send no more
	deaf      bool    // the peer takes no more
	drained   bool    // the last read took all that had arrived
	stamped   bool    // what is received is only peeked, and then taken with its instant
	secure    *secure // nil: plaintext, or no socket
}

// buffers are shared by a worker's sockets: what arrives is parsed and never kept.
type buffers struct {
	raw   []byte
	plain []byte // content of one TLS record, nil without TLS
}

// secureChunk is how many bytes of a request are made into records at once: more
// only when those are on their way.
const secureChunk = 64 << 10

// plainBuffer holds the content of any one record.
const plainBuffer = 32 << 10

// received is the result of a read.
type received uint8

const (
	receivedNothing received = iota // for now, and an event follows when more arrives
	receivedBytes
	receivedEnd     // the peer will send no more
	receivedFailure // neither will it take any more
)

// receive reads from c, but not more than maxReads times in a turn, after reads of them. It counts the bytes, and keeps the
// reason of a failure.
func (w *Worker) receive(c *conn, reads int) (b []byte, p received, k load.Failure) {
	if reads == maxReads {
		w.readLater(c)
		return nil, receivedNothing, load.FailureNone
	}
	if b, p, k = c.receive(&w.io); p == receivedNothing {
		return b, p, k
	}
	w.tick()
	switch {
	case p == receivedBytes && w.rec.InWindow(w.now):
		w.rec.BytesIn += int64(len(b))
	case p == receivedFailure && c.secure != nil:
		w.rec.Because(k, c.secure.failed)
	}
	return b, p, k
}

// checkIdle reads from a connection without a request under way. TLS messages
// are ignored. FailureNone: there was nothing else.
func (c *socket) checkIdle(b *buffers) load.Failure {
	switch _, p, k := c.receive(b); p {
	case receivedBytes:
		return load.FailureExtraBytes
	case receivedEnd:
		return load.FailureClosedEarly
	case receivedFailure:
		return k
	}
	return failureOf(c.flushTLS()) // TLS may have had to answer
}

// receive reads at most a buffer's worth of what has arrived on c. After a short read
// it does not read again, unless the peer will send no more: then no event would
// announce the end. Of a connection with TLS it must be called until it returns
// something else than bytes: the rest is in a buffer that the worker's connections share.
func (c *socket) receive(b *buffers) ([]byte, received, load.Failure) {
	if c.secure != nil {
		return c.receiveTLS(b)
	}
	if c.drained {
		return nil, receivedNothing, load.FailureNone
	}
	for {
		n, errno := c.read(b.raw)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return nil, receivedNothing, load.FailureNone
		case errno != 0:
			return nil, receivedFailure, failureOf(errno)
		case n == 0:
			return nil, receivedEnd, load.FailureNone
		}
		c.drained = n < len(b.raw) && !c.peerEnded
		return b.raw[:n], receivedBytes, load.FailureNone
	}
}

func (c *socket) read(b []byte) (int, unix.Errno) {
	if c.stamped {
		return sysPeek(c.fd, b)
	}
	return sysRead(c.fd, b)
}

func (c *socket) receiveTLS(b *buffers) ([]byte, received, load.Failure) {
	s := c.secure
	for {
		if s.ready() == 0 && s.end == nil {
			if c.drained || !c.fillTLS(b) {
				s.keep()
				return nil, receivedNothing, load.FailureNone
			}
			continue
		}
		n, err := s.tls.Read(b.plain)
		switch {
		case n > 0:
			return b.plain[:n], receivedBytes, load.FailureNone
		case err == errNoData: // no application data, e.g. a session ticket
		case errors.Is(err, io.EOF):
			return nil, receivedEnd, load.FailureNone
		case err != nil:
			s.failed = err
			return nil, receivedFailure, target.TLSFailure(err)
		}
	}
}

// fillTLS reads once from the socket, after the rest of the last record, and
// returns false if there is nothing.
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

// outgoing has the bytes that a connection sends.
type outgoing interface {
	Unsent() []byte
	Sent(n int)
}

// flush sends the bytes of from, as far as the socket takes them. The rest follows when the socket has room. The failure is
// of a socket that takes no more.
func (c *conn) flush(w *Worker, from outgoing) (k load.Failure) {
	if c.deaf { // it has failed, and its caller reads the rest
		return load.FailureNone
	}
	defer func() { c.deaf = k != load.FailureNone }()
	for {
		if c.secure != nil {
			if errno := c.flushTLS(); errno != 0 {
				return failureOf(errno)
			}
			if c.secure.unsent() {
				return load.FailureNone
			}
		}
		b := from.Unsent()
		if len(b) == 0 {
			return load.FailureNone
		}
		n, errno, err := c.write(b)
		switch {
		case err != nil:
			return target.TLSFailure(err)
		case errno == 0:
			from.Sent(n)
			if w.rec.InWindow(w.now) {
				w.rec.BytesOut += int64(n)
			}
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			return load.FailureNone
		default:
			return failureOf(errno)
		}
	}
}

// write writes to the socket or, with TLS, makes bytes into records. err is an error of TLS.
func (c *socket) write(b []byte) (n int, errno unix.Errno, err error) {
	if c.secure == nil {
		n, errno = sysWrite(c.fd, b)
		return n, errno, nil
	}
	n, err = c.secure.tls.Write(b[:min(len(b), secureChunk)])
	return n, 0, err
}

// flushTLS sends the records that are ready, as far as the socket takes them.
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

// feedHandshake gives the handshake what has arrived.
func (c *socket) feedHandshake(b *buffers) {
	for {
		n, errno := sysRead(c.fd, b.raw)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return
		case errno != 0:
			c.secure.feed(nil, errno)
			return
		case n == 0:
			c.secure.feed(nil, io.EOF)
			return
		}
		if more := c.secure.feed(b.raw[:n], nil); !more || n < len(b.raw) && !c.peerEnded {
			return
		}
	}
}

// endTLS ends c's TLS before its socket is closed, with a close_notify alert if possible.
func (c *socket) endTLS() {
	s := c.secure
	c.secure = nil
	switch {
	case s.shaking:
		s.feed(nil, net.ErrClosed) // its goroutine ends
	case !s.unsent() && s.end == nil && s.tls.CloseWrite() == nil:
		_, _ = sysWrite(c.fd, s.out)
	}
}
