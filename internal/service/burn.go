package service

import (
	"runtime"
	"sync"
	"time"
)

// The processor time to burn is measured by the clock of the burning thread, so
// that it is right however the thread is scheduled. Reading that clock is a
// system call, so work is done in rounds between readings, and the last rounds
// are counted out by what this processor was seen to do in a nanosecond.

// rounds that are made between two readings of the clock, at most, as time.
const burnSlice = 20 * time.Microsecond

// speed of this processor, found once.
type speed struct {
	rounds  float64       // a nanosecond
	reading time.Duration // what the burning costs beside its rounds
}

var calibrated = sync.OnceValue(calibrate)

// work is so many rounds of arithmetic that depend on one another.
//
//go:noinline
func work(rounds int) uint64 {
	x := uint64(88172645463325252)
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// calibrate takes the fastest of several looks: the others were disturbed.
func calibrate() speed {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const rounds = 20_000
	best, reading := time.Duration(1<<62), time.Duration(1<<62)
	for range 50 {
		start := threadTime()
		work(rounds)
		end := threadTime()
		best, reading = min(best, end-start), min(reading, threadTime()-end)
	}
	if best <= reading { // a clock too coarse to calibrate by
		best, reading = reading+1, 0
	}
	return speed{rounds: rounds / float64(best-reading), reading: reading}
}

// burn uses d of processor time on the calling thread.
func burn(d time.Duration) {
	s := calibrated()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	end := start + d - 2*s.reading // the first reading and the last are part of the cost
	for now := start; now < end; now = threadTime() {
		work(int(s.rounds * float64(min(end-now, burnSlice))))
	}
}
