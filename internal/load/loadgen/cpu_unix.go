//go:build unix && !linux

package loadgen

import (
	"syscall"
	"time"
)

// processCPU is the CPU time of all threads, those that have ended included.
func processCPU() time.Duration {
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
