package loadgen

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls of the hot path. Sockets are non-blocking, so read and write return
// at once and need not tell the scheduler (RawSyscall): 3 to 5 % of the CPU per
// request. Waiting goes through Syscall6, which gives the processor away.

func sysRead(fd int32, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), errno
}

func sysWrite(fd int32, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), errno
}

// poller waits for events on many connections, to the nanosecond: by
// epoll_pwait2 (Linux 5.11), or by a timer in the set where that is missing.
type poller struct {
	epfd    int
	timerfd int // -1: epoll_pwait2 works
	wakefd  int // an eventfd: another thread wants attention
	events  [128]unix.EpollEvent
}

// Keys of the poller's own descriptors, where connections have their index.
const (
	keyWake  = -1
	keyTimer = -2
)

func newPoller() (*poller, error) {
	p := &poller{timerfd: -1, wakefd: -1}
	var err error
	if p.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if p.wakefd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		p.close()
		return nil, err
	}
	if err = p.add(p.wakefd, unix.EPOLLIN, keyWake, 0); err != nil {
		p.close()
		return nil, err
	}
	if _, errno := p.pwait2(0); errno == unix.ENOSYS || errno == unix.EPERM {
		if err = p.useTimer(); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

// useTimer makes waits end by a timerfd instead of epoll_pwait2's time-out.
func (p *poller) useTimer() (err error) {
	if p.timerfd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return err
	}
	return p.add(p.timerfd, unix.EPOLLIN|unix.EPOLLET, keyTimer, 0)
}

func (p *poller) close() {
	for _, fd := range []int{p.timerfd, p.wakefd, p.epfd} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// add watches fd; events carry key and generation.
func (p *poller) add(fd int, events uint32, key, generation int32) error {
	return unix.EpollCtl(p.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: key, Pad: generation})
}

// wake ends the current wait, or the next. Any thread may call it.
func (p *poller) wake() {
	one := [8]byte{1}
	_, _ = unix.Write(p.wakefd, one[:])
}

// wait returns how many of p.events have happened, at the latest after d.
func (p *poller) wait(d time.Duration) (int, unix.Errno) {
	if d <= 0 {
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.epfd),
			uintptr(unsafe.Pointer(&p.events)), uintptr(len(p.events)), 0, 0, 0)
		return int(n), errno
	}
	if p.timerfd < 0 {
		return p.pwait2(d)
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(p.timerfd, 0, &spec, nil); err != nil {
		return 0, unix.EINVAL
	}
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.epfd),
		uintptr(unsafe.Pointer(&p.events)), uintptr(len(p.events)), ^uintptr(0), 0, 0)
	return int(n), errno
}

func (p *poller) pwait2(d time.Duration) (int, unix.Errno) {
	ts := unix.NsecToTimespec(int64(d))
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.epfd),
		uintptr(unsafe.Pointer(&p.events)), uintptr(len(p.events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
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

func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EIO
}

// socketError is why a connection failed, 0 if it did not.
func socketError(fd int32) unix.Errno {
	v, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return errnoOf(err)
	}
	return unix.Errno(v)
}

// kindOf names the error of a socket call.
func kindOf(errno unix.Errno) kind {
	switch errno {
	case 0:
		return kindNone
	case unix.ECONNREFUSED, unix.ENOENT: // a Unix socket that is not there is nobody listening
		return kindRefused
	case unix.ECONNRESET, unix.EPIPE, unix.ECONNABORTED:
		return kindReset
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS:
		return kindNoDescriptors
	case unix.EADDRNOTAVAIL:
		return kindNoPorts
	case unix.ETIMEDOUT:
		return kindTimeout
	case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES, unix.EPERM, unix.EINVAL:
		return kindUnreachable
	}
	return kindOther
}

// prepareThread makes the calling thread punctual (timer slack 1 ns instead of
// 50 µs) and pins it to cpu, if that is not negative. The caller has locked it.
func prepareThread(cpu int) error {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	if cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

func clockCPU(id int32) time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(id, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// threadCPU is the CPU time of the calling thread, processCPU of all threads,
// those that have ended included.
func threadCPU() time.Duration  { return clockCPU(unix.CLOCK_THREAD_CPUTIME_ID) }
func processCPU() time.Duration { return clockCPU(unix.CLOCK_PROCESS_CPUTIME_ID) }

// allowedCPUs is how many processors this process may run on.
func allowedCPUs() int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return 1
	}
	return set.Count()
}

// preempted counts how often the calling thread was taken off its processor
// while it had work: on a core of its own, hardly ever.
func preempted() int64 {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &ru) != nil {
		return 0
	}
	return ru.Nivcsw
}
