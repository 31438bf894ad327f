//go:build !linux

package proc

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

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
