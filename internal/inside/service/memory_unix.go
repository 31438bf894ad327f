//go:build unix

package service

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memory is held memory. It is mapped outside the Go heap, where it would make
// garbage collection rarer and change the measurement.
type memory struct{ mapped []byte }

func (m *memory) hold(bytes int64) error {
	if bytes == int64(len(m.mapped)) {
		return nil
	}
	var fresh []byte
	if bytes > 0 {
		var err error
		if fresh, err = unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
			return fmt.Errorf("map memory: %w", err)
		}
		for i, page := 0, os.Getpagesize(); i < len(fresh); i += page {
			fresh[i] = 1
		}
	}
	old := m.mapped
	m.mapped = fresh
	if old == nil {
		return nil
	}
	if err := unix.Munmap(old); err != nil {
		return fmt.Errorf("unmap memory: %w", err)
	}
	return nil
}
