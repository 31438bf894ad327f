//go:build !linux

package service

import "time"

// threadTime returns the wall time since the process start. Only Linux has a
// thread CPU clock here: elsewhere a thread that waits for a CPU burns too
// little.
func threadTime() time.Duration { return time.Since(processStart) }
