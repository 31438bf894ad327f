//go:build !linux

package service

import (
	"time"

	"github.com/tare-mesh/tare/internal/base/wait"
)

var sleep = wait.For

// threadTime returns the wall time since the process start. Only Linux has a
// thread CPU clock here: elsewhere a thread that waits for a CPU burns too
// little.
func threadTime() time.Duration { return time.Since(processStart) }
