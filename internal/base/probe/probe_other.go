//go:build !linux

package probe

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// Allowed lists the processors that this process may use, in ascending order.
func Allowed() ([]int, error) { return nil, unsupported() }

func workOn(context.Context, *Processor, <-chan struct{}) error { return unsupported() }

func unsupported() error {
	return fmt.Errorf("probe processors on %s: %w: pinned threads and their CPU clocks are Linux's", runtime.GOOS, errors.ErrUnsupported)
}
