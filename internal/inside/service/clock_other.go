//go:build !linux

package service

import "github.com/tare-mesh/tare/internal/base/wait"

// sleep waits for a time.
var sleep = wait.For
