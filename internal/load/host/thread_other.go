//go:build !linux

package host

import (
	"errors"
	"runtime"
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
