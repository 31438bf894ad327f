package epoll

import (
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/host"
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

// inbox holds functions that other goroutines leave for a worker's own thread.
type inbox struct {
	poll *poller

	mu     sync.Mutex
	posted []func()
	stop   bool
	taken  []func()
}

// post has the worker run do soon. Any goroutine may call it.
func (m *inbox) post(do func()) {
	m.mu.Lock()
	m.posted = append(m.posted, do)
	m.mu.Unlock()
	m.poll.wake()
}

// postStop makes collect report stop. Any goroutine may call it.
func (m *inbox) postStop() {
	m.mu.Lock()
	m.stop = true
	m.mu.Unlock()
	m.poll.wake()
}

// collect runs the posted functions, and reports whether the worker must stop.
func (m *inbox) collect() (stop bool) {
	m.mu.Lock()
	m.taken, m.posted = m.posted, m.taken[:0]
	stop = m.stop
	m.mu.Unlock()
	for i, do := range m.taken {
		m.taken[i] = nil
		do()
	}
	return stop
}

// sleeper decides how long a worker sleeps, and when it polls instead. All in ns.
type sleeper struct {
	spin     int64 // the window before a send in which the worker polls
	wakeLate int64 // lateness of the ends of sleeps, see woke
	wakeMost int64 // bound of wakeLate
	reply    int64 // median response time, see answered
	lastSend int64 // instant of the last send
	// replyRoom is how long after a send the worker may poll for answers.
	replyRoom int64
	taken     int64 // involuntary context switches at the last tick
}

func newSleeper(p *load.Profile, spin time.Duration) sleeper {
	s := sleeper{spin: int64(spin)}
	if p.Rate > 0 {
		s.wakeMost, s.replyRoom = wakeMost(p), replyRoom(p, spin)
	}
	return s
}

// polls reports whether an answer is due so soon that sleeping is not worth it.
func (s *sleeper) polls(now int64) bool {
	return s.reply < s.replyRoom && now-s.lastSend < min(2*s.reply, s.replyRoom)
}

// early is how long before a send the worker stops sleeping.
func (s *sleeper) early() int64 { return max(s.spin, s.wakeLate) }

// wakeStep is the step in ns by which the estimate of wake-up lateness moves.
const wakeStep = 250

// wakeShare is the share of a core that polling at the end of shortened sleeps
// may take, however high the rate.
const wakeShare = 0.05

// wakeMost bounds the cut of a sleep by the CPU it may cost at the profile's rate.
func wakeMost(p *load.Profile) int64 {
	return min(int64(load.DefaultSpin), int64(wakeShare*1e9*float64(p.Workers)/p.Rate))
}

// woke tracks the 90th percentile of the wake-up lateness: up by nine steps for a
// later wake-up, down by one for an earlier. Sleeps are shortened by this estimate.
// It makes sends punctual to microseconds at little cost. Polling for the whole spin
// window would take a core from the system under test.
func (s *sleeper) woke(late int64) {
	if late > s.wakeLate {
		s.wakeLate = min(s.wakeLate+9*wakeStep, s.wakeMost)
	} else {
		s.wakeLate = max(s.wakeLate-wakeStep, 0)
	}
}

// replyMost is the longest response time, in ns, for which a worker with a spin
// window polls. A wake-up takes some 20 µs on a virtual machine and would count as
// the server's time. For slower responses it matters less.
const replyMost = int64(300 * time.Microsecond)

// pollShare is the share of a core that polling before sends and for responses may
// take together. The kernel throttles a real-time thread that takes the whole core:
// it stops for tens of milliseconds in every second.
const pollShare = 0.75

// replyStep is the step in ns by which the estimate of the answers' median moves.
const replyStep = 500

// replyRoom is for how long after a send an answer may be polled for, with a spin
// window before every send.
func replyRoom(p *load.Profile, spin time.Duration) int64 {
	if spin == 0 {
		return 0
	}
	peak := p.Rate
	for _, g := range p.Segments {
		peak = max(peak, g.From, g.To)
	}
	gap := 1e9 * float64(p.Workers*max(1, p.Parts)) / peak
	return min(replyMost, max(0, int64(pollShare*gap)-int64(spin)))
}

// answered follows the median of how long answers take.
func (s *sleeper) answered(took int64) {
	if took > s.reply {
		s.reply = min(s.reply+replyStep, 2*replyMost)
	} else {
		s.reply = max(s.reply-replyStep, 0)
	}
}

// stolenSpin is how many times a second a spinning worker may be taken off its
// processor before it concludes that the core is not free, and stops spinning.
const stolenSpin = 100

// adaptSpin stops spinning if another process needs the core.
func (s *sleeper) adaptSpin() {
	taken := host.Preempted()
	if s.spin > 0 && taken-s.taken > stolenSpin {
		s.spin = 0
	}
	s.taken = taken
}
