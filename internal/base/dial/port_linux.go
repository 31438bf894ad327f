package dial

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// portAtConnect leaves the choice of a port until the other end is known, so that
// a port can serve one connection to each: ip(7), IP_BIND_ADDRESS_NO_PORT.
func portAtConnect(_, _ string, c syscall.RawConn) error {
	var failed error
	if err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	}); err != nil {
		return err
	}
	return failed
}
