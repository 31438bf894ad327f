package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/wait"
)

// A closed loop is measured from outside, alike for every client. The figures are the kernel's
// clock of the process's CPU time and the server's own counter, at both ends of
// a window in which the client is up to speed. What a client needs to start, and
// what it believes of itself, is in no figure.
const (
	settle = 300 * time.Millisecond
	window = time.Second
	// grace is the time for a client to end by itself after the window.
	grace = 300 * time.Millisecond
	// length is the duration given to a client. It is stopped earlier.
	length = settle + window + 4*time.Second
)

// pace is one client in one window.
type pace struct {
	cpuUS    float64 // of the client per request, µs
	rate     float64 // requests/s
	busy     float64 // share of a core the client used
	requests int64
	taken    float64 // share of one core that others took of the two
}

// processCPU is the CPU time of all threads of a running process, by its CPU
// clock (clock_getcpuclockid(3)), to the nanosecond.
func processCPU(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED of the kernel's posix-timers.h
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|scheduled, &ts); err != nil {
		return 0, fmt.Errorf("read cpu clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

type reading struct {
	at    time.Time
	cpu   time.Duration
	n     int64
	taken time.Duration // of both processors, by processes that are neither client nor server
}

// disturbed is the share of the client's or server's CPU that other processes may
// take in a window before it is measured again. The rule does not depend on the
// measured value. Other processes' time is counted in ticks, so it is accurate to 1 % at best.
const disturbed = 0.05

// others is the busy time of all processors, less the CPU time of pids.
func others(pids ...int) (time.Duration, error) {
	pfs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	stat, err := pfs.Stat()
	if err != nil {
		return 0, err
	}
	var seconds float64
	for _, c := range []procfs.CPUStat{stat.CPU[serverCPU], stat.CPU[clientCPU]} {
		seconds += c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
	}
	busy := time.Duration(seconds * float64(time.Second))
	for _, pid := range pids {
		own, err := processCPU(pid)
		if err != nil {
			return 0, err
		}
		busy -= own
	}
	return busy, nil
}

// read takes the client's CPU time on both sides of the counter and the mean of
// the two: the server takes its time to answer while it is under load.
func read(ctx context.Context, pid int, s *subject) (r reading, err error) {
	first, err := processCPU(pid)
	if err != nil {
		return r, err
	}
	began := time.Now()
	if r.n, err = s.count(ctx); err != nil {
		return r, err
	}
	took := time.Since(began)
	last, err := processCPU(pid)
	if err != nil {
		return r, err
	}
	r.cpu, r.at = (first+last)/2, began.Add(took/2)
	r.taken, err = others(pid, s.process.PID)
	return r, err
}

// closedLoop runs c against s and measures it in one window.
func closedLoop(ctx context.Context, c proc.Command, s *subject) (p pace, err error) {
	var out bytes.Buffer
	c.Stdout = &out
	before, err := s.count(ctx)
	if err != nil {
		return p, err
	}
	client, err := proc.Start(ctx, c)
	if err != nil {
		return p, err
	}
	defer func() {
		err = errors.Join(err, client.Stop(ctx, grace))
	}()
	if err := underWay(ctx, client, s, before); err != nil {
		return p, err
	}
	if err := wait.For(ctx, settle); err != nil {
		return p, err
	}
	from, err := read(ctx, client.PID, s)
	if err != nil {
		return p, err
	}
	if err := wait.For(ctx, window); err != nil {
		return p, err
	}
	to, err := read(ctx, client.PID, s)
	if err != nil {
		return p, err
	}
	wall := to.at.Sub(from.at).Seconds()
	p.requests = to.n - from.n - 1 // one request read the counter itself
	if p.requests <= 0 {
		return p, fmt.Errorf("%s sent nothing in %v", c, window)
	}
	p.cpuUS = 1e6 * (to.cpu - from.cpu).Seconds() / float64(p.requests)
	p.rate = float64(p.requests) / wall
	p.busy = (to.cpu - from.cpu).Seconds() / wall
	p.taken = max(0, (to.taken-from.taken).Seconds()/wall)
	return p, nil
}

// underWay waits until the client's load has begun.
func underWay(ctx context.Context, client *proc.Process, s *subject, before int64) error {
	const begun = 100 // requests
	return wait.Within(ctx, startTimeout, 5*time.Millisecond, func(ctx context.Context) error {
		n, err := s.count(ctx)
		switch {
		case err != nil:
			return wait.Stop(err)
		case n-before > begun:
			return nil
		}
		select {
		case <-client.Done():
			return wait.Stop(fmt.Errorf("the client ended before it sent anything: %w", client.Wait()))
		default:
			return fmt.Errorf("%s has sent %d requests", client.Command(), n-before)
		}
	})
}
