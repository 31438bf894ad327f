package probe

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Allowed lists the processors that this process may use, in ascending order.
func Allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("list the allowed processors: %w", err)
	}
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// workOn does the work on one processor. Its thread ends with the goroutine, which
// does not unlock it, so that no other goroutine is left pinned.
func workOn(ctx context.Context, p *Processor, begin <-chan struct{}) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(p.CPU)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("probe: pin a thread to processor %d: %w", p.CPU, err)
	}
	w, err := connect()
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	defer w.close()
	<-begin
	if err := w.do(warming); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	deadline := time.Now().Add(longest)
	before, err := threadTime()
	if err != nil {
		return err
	}
	for p.Pieces < pieces && (p.Pieces == 0 || time.Now().Before(deadline)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := w.do(batch); err != nil {
			return fmt.Errorf("probe: %w", err)
		}
		p.Pieces += batch
	}
	after, err := threadTime()
	p.NS = after - before
	return err
}

// threadTime is the CPU time of this thread, ns.
func threadTime() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0, fmt.Errorf("probe: read the thread's CPU clock: %w", err)
	}
	return ts.Nano(), nil
}

// work is both ends of one connection, blocking, outside of Go's poller: data
// is sent before it is received, and no thread waits for another.
type work struct {
	ends   [2]int
	buffer [1024]byte
}

func connect() (*work, error) {
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	defer unix.Close(listener)
	if err := errors.Join(unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(listener, 1)); err != nil {
		return nil, fmt.Errorf("listen on the loopback interface: %w", err)
	}
	at, err := unix.Getsockname(listener)
	if err != nil {
		return nil, fmt.Errorf("listen on the loopback interface: %w", err)
	}
	w := &work{ends: [2]int{-1, -1}}
	if w.ends[0], err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
		err = unix.Connect(w.ends[0], at)
	}
	if err == nil {
		w.ends[1], _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
	}
	for _, end := range w.ends {
		if err == nil {
			err = errors.Join(unix.SetsockoptInt(end, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
				// A missing message ends the probe instead of blocking it.
				unix.SetsockoptTimeval(end, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}))
		}
	}
	if err != nil {
		w.close()
		return nil, fmt.Errorf("connect over the loopback interface: %w", err)
	}
	return w, nil
}

func (w *work) close() {
	for _, end := range w.ends {
		if end >= 0 {
			_ = unix.Close(end)
		}
	}
}

func (w *work) do(n int) error {
	for range n {
		for i := range w.ends {
			if err := w.pass(w.ends[i], w.ends[1-i]); err != nil {
				return fmt.Errorf("send bytes over the loopback interface: %w", err)
			}
			sum := sha256.Sum256(w.buffer[:])
			copy(w.buffer[:], sum[:])
		}
	}
	return nil
}

func (w *work) pass(from, to int) error {
	if n, err := again(func() (int, error) { return unix.Write(from, w.buffer[:]) }); err != nil || n < len(w.buffer) {
		return errors.Join(err, short(n))
	}
	for got := 0; got < len(w.buffer); {
		n, err := again(func() (int, error) { return unix.Read(to, w.buffer[got:]) })
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		got += n
	}
	return nil
}

func short(n int) error {
	if n < 1024 {
		return io.ErrShortWrite
	}
	return nil
}

// again repeats a call that a signal interrupted: Go's scheduler sends some.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
