package epoll

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller waits for events on many connections, to the nanosecond: by
// epoll_pwait2 (Linux 5.11), or by a timer in the set where that is missing.
type poller struct {
	epfd    int
	timerfd int // -1: epoll_pwait2 works
	wakefd  int // an eventfd: another thread has posted something
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

// useTimer makes waits end by a timerfd instead of epoll_pwait2's timeout.
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

// add watches fd, whose events carry key and generation.
func (p *poller) add(fd int, events uint32, key, generation int32) error {
	return unix.EpollCtl(p.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: key, Pad: generation})
}

// move makes the events of fd, which is watched already, carry another key and generation.
func (p *poller) move(fd int, events uint32, key, generation int32) error {
	return unix.EpollCtl(p.epfd, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: events, Fd: key, Pad: generation})
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
