//go:build !linux

package proc

import (
	"errors"
	"fmt"
	"runtime"
)

func identify(int) (identity, error) {
	return identity{}, fmt.Errorf("%w on %s: process start times are read from /proc", errors.ErrUnsupported, runtime.GOOS)
}
