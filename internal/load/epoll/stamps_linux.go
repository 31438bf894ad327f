package epoll

import (
	"bytes"
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// A worker that shares a processor with what it measures reads late, and all at once what came one by one. Of answers with messages
// the kernel tells when each came, by SO_TIMESTAMP of socket(7). Bytes are peeked, and then taken one message at a time.

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
