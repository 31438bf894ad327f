//go:build !linux

package meter

import (
	"context"
	"time"
)

// Examine says that this system cannot be examined.
func Examine(context.Context, time.Duration) (Fitness, error) { return Fitness{}, unsupported() }
