package host

import (
	"golang.org/x/sys/unix"
)

// Arrived reports whether the peer's system acknowledged any of the last written bytes of a
// connection. A server that had closed the connection before has certainly not read them.
// It is true where that is unknown, as on a Unix socket.
func Arrived(fd int32, written int) bool {
	if written == 0 {
		return false
	}
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || info.Bytes_sent == 0 { // before Linux 4.19
		return true
	}
	const syn = 1 // counts as acknowledged
	return int64(info.Bytes_sent-info.Bytes_retrans)-int64(info.Bytes_acked)+syn < int64(written)
}
