//go:build unix && !linux

package host

import (
	"syscall"
	"time"
)

// ProcessCPU is the CPU time of all threads, ended ones included.
func ProcessCPU() time.Duration {
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
