package main

import (
	"flag"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// serveCommand runs benchdesign as the program that is measured: a server with planted work.
const serveCommand = "serve"

// work is the planted CPU of a server. All times are in seconds, rates in cores.
type work struct {
	request      float64 // CPU of a request, at once
	deferred     float64 // CPU of a request, on another thread
	delay, flush float64 // of deferred work: after its request, or all of it at once with this period
	steady       float64 // rate with and without requests
	burst, every float64 // CPU of a burst, and its period
	idle, after  float64 // rate while no request has arrived for that time
	garbage      int     // KiB allocated by a request
	requests     atomic.Int64
	last         atomic.Int64 // arrival of a request, Unix ns
	waiting      chan time.Time
	kept         [64][]byte
	listen       string
}

// serve runs the server.
func serve(args []string) error {
	f := flag.NewFlagSet(serveCommand, flag.ContinueOnError)
	w := &work{waiting: make(chan time.Time, 1<<20)}
	for name, value := range map[string]*float64{"request": &w.request, "deferred": &w.deferred, "delay": &w.delay, "flush": &w.flush,
		"steady": &w.steady, "burst": &w.burst, "every": &w.every, "idle": &w.idle, "after": &w.after} {
		f.Float64Var(value, name, 0, "planted work, in seconds or cores")
	}
	f.IntVar(&w.garbage, "garbage", 0, "KiB that a request allocates")
	f.StringVar(&w.listen, "listen", "", "address")
	if err := f.Parse(args); err != nil {
		return err
	}
	for _, run := range []func(){w.steadily, w.inBursts, w.whileIdle, w.later} {
		go func() {
			runtime.LockOSThread() // burn reads the clock of one thread
			run()
		}()
	}
	return http.ListenAndServe(w.listen, http.HandlerFunc(w.answer)) //nolint:gosec // loopback, for a minute
}

func (w *work) answer(to http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	w.last.Store(now.UnixNano())
	n := w.requests.Add(1)
	if w.request > 0 {
		runtime.LockOSThread()
		burn(w.request)
		runtime.UnlockOSThread()
	}
	if w.garbage > 0 {
		for i := range w.garbage {
			b := make([]byte, 1<<10)
			b[0] = byte(i)
			w.kept[(int(n)+i)%len(w.kept)] = b
		}
	}
	if w.deferred > 0 {
		w.waiting <- now
	}
	_, _ = to.Write([]byte("ok\n"))
}

// step is the period of work at a rate.
const step = 0.01

func (w *work) steadily() {
	for w.steady > 0 {
		burn(w.steady * step)
		time.Sleep(duration(step * (1 - w.steady)))
	}
}

func (w *work) inBursts() {
	if w.every <= 0 {
		return
	}
	for at := time.Now().Add(duration(rand.Float64() * w.every)); ; at = at.Add(duration(w.every)) {
		time.Sleep(time.Until(at))
		burn(w.burst)
	}
}

// whileIdle wakes up once after a request, as a timer does, since polling costs CPU under load.
func (w *work) whileIdle() {
	for w.idle > 0 {
		if wait := time.Until(time.Unix(0, w.last.Load()).Add(duration(w.after))); wait > 0 {
			time.Sleep(wait)
			continue
		}
		burn(w.idle * step)
		time.Sleep(duration(step * (1 - w.idle)))
	}
}

func (w *work) later() {
	if w.flush > 0 {
		for range time.Tick(duration(w.flush)) {
			burn(w.deferred * float64(len(w.waiting)))
			for n := len(w.waiting); n > 0; n-- {
				<-w.waiting
			}
		}
	}
	for at := range w.waiting {
		time.Sleep(time.Until(at.Add(duration(w.delay))))
		burn(w.deferred)
	}
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// burn uses CPU of its thread.
func burn(seconds float64) {
	for until := cpuOf(unix.CLOCK_THREAD_CPUTIME_ID) + duration(seconds); cpuOf(unix.CLOCK_THREAD_CPUTIME_ID) < until; {
	}
}

func cpuOf(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
