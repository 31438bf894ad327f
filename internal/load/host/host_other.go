//go:build !linux

package host

import (
	"errors"
	"runtime"
	"syscall"
	"time"
)

// PrepareThread refuses to pin: this system has no call for it.
func PrepareThread(cpu int) error {
	if cpu >= 0 {
		return errors.ErrUnsupported
	}
	return nil
}

// prioritise has no effect here.
func prioritise() {}

// Sleep blocks for d.
func Sleep(d time.Duration) { time.Sleep(d) }

// ThreadCPU is unknown here and zero.
func ThreadCPU() time.Duration { return 0 }

// AllowedCPUs is the number of CPUs that this process may use.
func AllowedCPUs() int { return runtime.NumCPU() }

// Arrived reports whether the peer's system acknowledged any of the last written bytes of a
// connection: unknown on this system.
func Arrived(int32, int) bool { return true }

// reading is empty where nothing is known of the machine.
type reading struct{ steal, all, pressure float64 }

func read() reading { return reading{} }

// ProcessCPU is the CPU time of all threads, ended ones included.
func ProcessCPU() time.Duration {
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
