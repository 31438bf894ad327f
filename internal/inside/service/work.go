package service

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// processStart is where threadTime counts from on systems without a clock of a thread's CPU time.
var processStart = time.Now()

// CPU time is measured with the CPU clock of the burning thread, so scheduling
// does not affect it. Reading this clock is a system call. Work therefore runs
// in rounds between readings. The number of the last rounds is computed from the
// calibrated speed of this CPU.

const (
	// burnSlice is the max time between two clock readings.
	burnSlice = 20 * time.Microsecond
	// burnLast is the time of the last rounds, without another reading.
	burnLast = 2 * time.Microsecond
)

// speed is the speed of this CPU, calibrated once.
type speed struct {
	rounds float64       // per nanosecond
	beside time.Duration // cost outside its own readings
}

var calibrated = sync.OnceValue(calibrate)

// calibrate returns the fastest of several attempts: the others were disturbed.
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
	if best <= reading { // the clock is too coarse for calibration
		best, reading = reading+1, 0
	}
	// The first and the last reading each lie half outside the measured interval.
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

// memory is held memory. It is mapped outside the Go heap, where it would make
// garbage collection rarer and change the measurement.
type memory struct{ mapped []byte }

func (m *memory) hold(bytes int64) error {
	if bytes == int64(len(m.mapped)) {
		return nil
	}
	var fresh []byte
	if bytes > 0 {
		var err error
		if fresh, err = unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
			return fmt.Errorf("map memory: %w", err)
		}
		for i, page := 0, os.Getpagesize(); i < len(fresh); i += page {
			fresh[i] = 1
		}
	}
	old := m.mapped
	m.mapped = fresh
	if old == nil {
		return nil
	}
	return hint.Prefix(unix.Munmap(old), "unmap memory")
}
