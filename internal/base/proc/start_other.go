//go:build !linux

package proc

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// AllowedCPUs returns an error that wraps [errors.ErrUnsupported].
func AllowedCPUs() ([]int, error) {
	return nil, fmt.Errorf("list the allowed processors: %w on %s", errors.ErrUnsupported, runtime.GOOS)
}

func pinned(cpus []int, start func() error) error {
	if len(cpus) > 0 {
		return fmt.Errorf("pin to processors %v: %w on %s", cpus, errors.ErrUnsupported, runtime.GOOS)
	}
	return start()
}

const peakUnit = 1 // of Darwin

// waitExited cannot wait without reaping here: the group is left alone.
func waitExited(int) {}

func killGroup(int) {}

func adoptOrphans() {}

// MarkOf returns "": there are no marks on this system.
func MarkOf(int) string { return "" }

// ReapOrphans does nothing: orphans have another parent on this system.
func ReapOrphans() {}

func identify(int) (identity, error) {
	return identity{}, fmt.Errorf("%w on %s: process start times are read from /proc", errors.ErrUnsupported, runtime.GOOS)
}

// killMarked does nothing: the environment of processes cannot be read.
func killMarked(...string) error { return nil }

// marking starts without a mark: no other process could read it.
func marking(_ string, start func() error) error { return start() }
