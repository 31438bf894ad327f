//go:build !linux && !darwin

package console

import (
	"context"
	"io"
)

// Keys does nothing on this system.
func Keys(context.Context, io.Reader, func(byte)) (wait func()) { return nil }
