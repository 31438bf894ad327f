package epoll

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"
	"unsafe"

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
	stamped   bool    // received bytes are only peeked, and then taken with their instant
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

// A worker that shares a processor with what it measures reads late, and all at once what came one by one. So the kernel
// stamps each message on its arrival, by SO_TIMESTAMP of socket(7). Bytes are peeked, and then taken one message at a time.

// stamp asks the kernel for the instants of what comes on c. With TLS a message is no piece of what comes.
func (c *socket) stamp() {
	if !c.stamped && c.secure == nil {
		c.stamped = unix.SetsockoptInt(int(c.fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) == nil
	}
}

// piece is the length of what to take at once from b, bytes that came on a stamped socket: the header, or a line, with which a
// message may end.
func piece(b []byte, started bool) int {
	end := []byte("\r\n\r\n")
	if started {
		end = end[1:2]
	}
	if i := bytes.Index(b, end); i >= 0 {
		return i + len(end)
	}
	return len(b)
}

// take takes bytes that were peeked, and returns how long ago the last of them came, in ns, 0 if that is unknown.
func (c *socket) take(b []byte) (age int64) {
	var control [64]byte // a header, and a time of 16 bytes
	for len(b) > 0 {
		n, length, _, _, err := unix.Recvmsg(int(c.fd), b, control[:], unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n <= 0:
			return 0
		}
		b = b[n:]
		age = ageOf(control[:length], time.Now())
	}
	return age
}

// ageOf reads the first message of the kernel beside the bytes.
func ageOf(control []byte, now time.Time) int64 {
	header := unix.CmsgSpace(0)
	if len(control) < header+16 || binary.NativeEndian.Uint32(control[header-4:]) != unix.SCM_TIMESTAMPNS {
		return 0
	}
	stamp := control[header:]
	return max(0, now.Sub(time.Unix(int64(binary.NativeEndian.Uint64(stamp)), int64(binary.NativeEndian.Uint64(stamp[8:])))).Nanoseconds())
}

// The calls of the hot path. Sockets are non-blocking, so read and write return
// at once and need not inform the scheduler (RawSyscall): 3 to 5 % of the CPU per
// request. Waiting goes through Syscall6, which gives the processor away.

func sysRead(fd int32, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), errno
}

func sysPeek(fd int32, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_PEEK, 0, 0)
	return int(n), errno
}

func sysWrite(fd int32, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), errno
}

// watched is asked for once per connection: edge-triggered, so that a request
// costs one write and one read and no change of interest.
const watched = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

// dial begins to connect, to a Unix socket if one is named. The result arrives as an event.
func dial(socket string, addr netip.AddrPort) (fd int, errno unix.Errno) {
	sa, family := sockaddr(socket, addr)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, errnoOf(err)
	}
	// Small requests must not wait for the peer's acknowledgement (Nagle).
	if family != unix.AF_UNIX {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err := unix.Connect(fd, sa); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		_ = unix.Close(fd)
		return -1, errnoOf(err)
	}
	return fd, 0
}

func sockaddr(socket string, addr netip.AddrPort) (unix.Sockaddr, int) {
	if socket != "" {
		return &unix.SockaddrUnix{Name: socket}, unix.AF_UNIX
	}
	if ip := addr.Addr(); ip.Is4() {
		return &unix.SockaddrInet4{Port: int(addr.Port()), Addr: ip.As4()}, unix.AF_INET
	}
	return &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16(), ZoneId: zone(addr.Addr().Zone())}, unix.AF_INET6
}

// zone is the number of the interface that a link-local address is on.
func zone(name string) uint32 {
	if name == "" {
		return 0
	}
	if i, err := net.InterfaceByName(name); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(name, 10, 32)
	return uint32(n)
}

// socketError is why a connection failed, 0 if it did not.
func socketError(fd int32) unix.Errno {
	v, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return errnoOf(err)
	}
	return unix.Errno(v)
}

func errnoOf(err error) unix.Errno {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	return unix.EIO
}

func failureOf(errno unix.Errno) load.Failure {
	switch errno {
	case 0:
		return load.FailureNone
	case unix.ECONNREFUSED, unix.ENOENT: // ENOENT: the Unix socket does not exist
		return load.FailureRefused
	case unix.ECONNRESET, unix.EPIPE, unix.ECONNABORTED:
		return load.FailureReset
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS:
		return load.FailureNoDescriptors
	case unix.EADDRNOTAVAIL:
		return load.FailureNoPorts
	case unix.ETIMEDOUT:
		return load.FailureTimeout
	case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES, unix.EPERM, unix.EINVAL:
		return load.FailureUnreachable
	}
	return load.FailureOther
}

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
