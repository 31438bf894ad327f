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

const (
	// burnSlice is the max time between two readings of the clock.
	burnSlice = 20 * time.Microsecond
	// burnLast is the time of the last rounds, without another reading.
	burnLast = 2 * time.Microsecond
)

// speed of this processor, found once.
type speed struct {
	rounds float64       // a nanosecond
	beside time.Duration // cost outside its own readings
}

var calibrated = sync.OnceValue(calibrate)

// work does n rounds of dependent arithmetic.
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

// calibrate takes the fastest of several attempts: the others were disturbed.
func calibrate() speed {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const rounds = 20_000
	best, reading := time.Duration(1<<62), time.Duration(1<<62)
	for range 50 {
		start := threadTime()
		_ = work(rounds)
		end := threadTime()
		best, reading = min(best, end-start), min(reading, threadTime()-end)
	}
	if best <= reading { // a clock too coarse to calibrate by
		best, reading = reading+1, 0
	}
	// The first reading and the last are each half outside of what they see.
	return speed{rounds: rounds / float64(best-reading), beside: 2 * reading}
}

// burn uses d of CPU time on the calling thread. It works for three quarters of
// the remaining time and reads the clock again, because a CPU that shares its
// core can be slower than at calibration. Only the last microseconds rely on it.
func burn(d time.Duration) { calibrated().burn(d) }

func (s speed) burn(d time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	end := start + d - s.beside
	for left := end - start; left > 0; left = end - threadTime() {
		if left > burnLast {
			left = min(left*3/4, burnSlice)
		}
		_ = work(int(s.rounds * float64(left)))
	}
}
