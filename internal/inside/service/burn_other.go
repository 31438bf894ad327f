//go:build !linux

package service

import "time"

// threadTime stands in for the thread's own clock, which only Linux is asked
// for: a burning thread that waits for a processor burns too little here.
func threadTime() time.Duration { return time.Since(processStart) }
