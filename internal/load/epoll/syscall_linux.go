package epoll

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
)

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

// failureOf names the error of a socket call.
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
