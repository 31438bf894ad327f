package epoll

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// secure is the TLS of one connection (RFC 8446, RFC 5246): crypto/tls between two
// buffers. The worker moves bytes between them and the socket, so that nothing here
// waits for the network but the handshake. That runs on a goroutine of its own:
// crypto/tls cannot leave one half done, and its arithmetic takes longer than a send
// may be late.
type secure struct {
	tls *tls.Conn

	// The worker's own, and crypto/tls's once the handshake is over.
	in      []byte // records from the server, yet to be taken by crypto/tls
	rest    int    // bytes at the front of in of a record that crypto/tls has begun to take
	end     error  // what follows in: io.EOF, or why the socket failed, nil if more may come
	out     []byte // records for the server
	written int    // bytes of out
	stash   []byte // holds the rest of in while nothing is read
	failed  error  // of a read

	shaking bool
	shake   handshake
}

// handshake is shared by its goroutine and the worker while it lasts.
type handshake struct {
	wake func() // wakes the worker: there is something to send, or an end

	mu      sync.Mutex
	arrived sync.Cond // in or end of the connection has changed
	output  []byte    // for the server
	over    bool
	err     error // why it failed
}

// noData is crypto/tls's error while nothing has arrived. As it is temporary, crypto/tls
// keeps its state and can read again.
type noData struct{}

func (noData) Error() string { return "nothing has arrived" }

func (noData) Timeout() bool { return true }

func (noData) Temporary() bool { return true }

var errNoData net.Error = noData{}

// newSecure makes the TLS of a connection, and run does its handshake.
func newSecure(config *tls.Config, wake func()) *secure {
	s := &secure{shaking: true, shake: handshake{wake: wake}}
	s.shake.arrived.L = &s.shake.mu
	s.tls = tls.Client(pipe{s}, config)
	return s
}

func (s *secure) run() {
	err := s.tls.Handshake()
	s.shake.mu.Lock()
	s.shake.over, s.shake.err = true, err
	s.shake.mu.Unlock()
	s.shake.wake()
}

// maxHandshake bounds the bytes that wait for the handshake, which takes longer than to
// receive them. crypto/tls bounds its messages itself.
const maxHandshake = 1 << 20

var errHandshakeTooLong = errors.New("tls: more than 1 MiB of handshake")

// feed passes arrived bytes to the handshake, and the end of the stream if known. It
// reports whether more may be read.
func (s *secure) feed(b []byte, end error) (more bool) {
	s.shake.mu.Lock()
	defer s.shake.mu.Unlock()
	if s.end == nil && len(s.in)+len(b) > maxHandshake {
		end = errHandshakeTooLong
	}
	if s.end == nil {
		s.in, s.end = append(s.in, b...), end
	}
	s.shake.arrived.Signal()
	return s.end == nil
}

// takeOutput takes over the bytes that the handshake has to send, and reports whether
// it is over and with which error.
func (s *secure) takeOutput() (over bool, err error) {
	s.shake.mu.Lock()
	defer s.shake.mu.Unlock()
	s.out, s.shake.output = append(s.out, s.shake.output...), s.shake.output[:0]
	return s.shake.over, s.shake.err
}

// keep copies the rest of in out of the shared buffer.
func (s *secure) keep() {
	s.stash = append(s.stash[:0], s.in...)
	s.in = s.stash
}

func (s *secure) unsent() bool { return s.written < len(s.out) }

// pipe is the net.Conn of crypto/tls, without a network.
type pipe struct{ *secure }

func (p pipe) Read(b []byte) (int, error) {
	s := p.secure
	if s.shaking {
		s.shake.mu.Lock()
		defer s.shake.mu.Unlock()
		for s.end == nil && s.ready() == 0 {
			s.shake.arrived.Wait()
		}
	}
	n := s.ready()
	switch {
	case n > 0:
		n = copy(b, s.in[:n])
		s.in, s.rest = s.in[n:], s.rest-n
		return n, nil
	case s.end != nil:
		return 0, s.end
	}
	return 0, errNoData
}

// ready returns the number of bytes that crypto/tls may take now: a whole record, or
// all before the end. So it never has part of a record, and all it has not taken is in s.in.
func (s *secure) ready() int {
	if s.rest == 0 {
		if n := recordSize(s.in); n <= len(s.in) || s.end != nil {
			s.rest = min(n, len(s.in))
		}
	}
	return s.rest
}

// Records (RFC 8446 section 5.1).
const (
	recordHeader = 5             // bytes
	maxRecord    = 1<<14 + 1<<11 // bytes of payload, with what TLS 1.2 may add
	firstRecord  = 20            // the lowest type, change_cipher_spec
	lastRecord   = 24            // the highest, heartbeat
)

// recordSize is the length of the record that b begins with, or more than len(b)
// where that is not known yet. crypto/tls refuses other bytes at once.
func recordSize(b []byte) int {
	switch {
	case len(b) > 0 && (b[0] < firstRecord || b[0] > lastRecord), len(b) > 1 && b[1] != 3:
		return len(b)
	case len(b) < recordHeader:
		return recordHeader
	}
	size := int(b[3])<<8 | int(b[4])
	if size > maxRecord {
		return len(b)
	}
	return recordHeader + size
}

func (p pipe) Write(b []byte) (int, error) {
	s := p.secure
	if !s.shaking {
		s.out = append(s.out, b...)
		return len(b), nil
	}
	s.shake.mu.Lock()
	s.shake.output = append(s.shake.output, b...)
	s.shake.mu.Unlock()
	s.shake.wake()
	return len(b), nil
}

func (pipe) Close() error { return nil }

func (pipe) LocalAddr() net.Addr { return nil }

func (pipe) RemoteAddr() net.Addr { return nil }

func (pipe) SetDeadline(time.Time) error { return nil }

func (pipe) SetReadDeadline(time.Time) error { return nil }

func (pipe) SetWriteDeadline(time.Time) error { return nil }
