//go:build !linux

package meter

import (
	"context"
	"time"
)

// Examine returns ErrUnsupported.
func Examine(context.Context, time.Duration) (Fitness, error) { return Fitness{}, unsupported() }
