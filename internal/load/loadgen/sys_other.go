//go:build !linux

package loadgen

import (
	"errors"
	"runtime"
	"time"
)

// nativeEngine of a system without epoll is the portable one.
const nativeEngine = enginePortable

func (e *engine) nativeLanes() ([]lane, error) { return e.portableLanes() }

func prepareThread(cpu int) error {
	if cpu >= 0 {
		return errors.ErrUnsupported
	}
	return nil
}

func threadCPU() time.Duration { return 0 }

func allowedCPUs() int { return runtime.NumCPU() }
