//go:build !linux

package meter

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// Local reads processes of this machine, on Linux.
type Local struct{}

// NewLocal returns ErrUnsupported.
func NewLocal() (*Local, error) { return nil, unsupported() }

// Follower implements [Meter].
func (*Local) Follower() Follower { return nil }

// Read returns ErrUnsupported.
func (*Local) Read(context.Context, []platform.Task, Depth) (Look, error) {
	return Look{}, unsupported()
}

// Host describes this machine as far as the Go runtime does.
func Host() result.Environment {
	return result.Environment{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()}
}

// AvailableMemory is 0: unknown.
func AvailableMemory() int64 { return 0 }

func unsupported() error {
	return fmt.Errorf("meter processes on %s: %w: process CPU clocks and /proc are Linux's", runtime.GOOS, errors.ErrUnsupported)
}

// Examine returns ErrUnsupported.
func Examine(context.Context, time.Duration) (Fitness, error) { return Fitness{}, unsupported() }
