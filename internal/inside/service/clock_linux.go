package service

import (
	"container/heap"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Go's runtime timers use epoll_wait, whose timeout has a resolution of 1 ms:
// they fire up to 1 ms late. Here all waits share one timerfd, which has
// microsecond resolution and which epoll reports at once.

type waiter struct {
	due  time.Duration // since the clock's start
	done chan struct{}
	at   int // index in the heap, -1 if removed
}

type waiters []*waiter

func (w waiters) Len() int { return len(w) }

func (w waiters) Less(i, j int) bool { return w[i].due < w[j].due }

func (w waiters) Swap(i, j int) { w[i], w[j] = w[j], w[i]; w[i].at, w[j].at = i, j }

// clock wakes waiters when they are due.
type clock struct {
	start time.Time
	fd    int
	file  *os.File

	mu      sync.Mutex
	waiting waiters
	// late is the moving mean of the wake-up delay. The timer is set earlier by this
	// time.
	late time.Duration
}

// maxLate limits the correction: longer delays have other causes.
const maxLate = 200 * time.Microsecond

var theClock = sync.OnceValues(newClock)

func newClock() (*clock, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	c := &clock{start: time.Now(), fd: fd, file: os.NewFile(uintptr(fd), "timerfd")}
	go c.run()
	return c, nil
}

// run waits for the timer and wakes the due waiters. It runs until the process
// ends.
func (c *clock) run() {
	var fired [8]byte
	for {
		if _, err := c.file.Read(fired[:]); err != nil {
			return
		}
		c.mu.Lock()
		now := time.Since(c.start)
		for len(c.waiting) > 0 && c.waiting[0].due-c.late <= now {
			close(heap.Pop(&c.waiting).(*waiter).done)
		}
		c.arm(now)
		c.mu.Unlock()
	}
}

func (w *waiters) Pop() any {
	old := *w
	n := old[len(old)-1]
	old[len(old)-1] = nil
	*w, n.at = old[:len(old)-1], -1
	return n
}

// sleep waits for d, exact to some microseconds in the mean.
func sleep(ctx context.Context, d time.Duration) error {
	c, err := theClock()
	if err != nil {
		return err
	}
	w := &waiter{due: time.Since(c.start) + d, done: make(chan struct{})}
	c.mu.Lock()
	heap.Push(&c.waiting, w)
	if w.at == 0 {
		c.arm(time.Since(c.start))
	}
	c.mu.Unlock()
	select {
	case <-w.done:
		c.woken(w.due)
		return nil
	case <-ctx.Done():
		c.mu.Lock()
		if w.at >= 0 {
			heap.Remove(&c.waiting, w.at)
		}
		c.mu.Unlock()
		return context.Cause(ctx)
	}
}

func (w *waiters) Push(x any) { n := x.(*waiter); n.at = len(*w); *w = append(*w, n) }

// arm sets the timer for the first waiter. The caller holds c.mu.
func (c *clock) arm(now time.Duration) {
	if len(c.waiting) == 0 {
		return
	}
	left := max(c.waiting[0].due-c.late-now, 1) // 0 would disarm it
	_ = unix.TimerfdSettime(c.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}, nil)
}

// woken adds the delay of a waiter to the mean.
func (c *clock) woken(due time.Duration) {
	late := time.Since(c.start) - due
	c.mu.Lock()
	c.late = min(max(c.late+min(late, maxLate)/64, 0), maxLate)
	c.mu.Unlock()
}

func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return time.Since(processStart) // impossible: every Linux has this clock
	}
	return time.Duration(t.Nano())
}
