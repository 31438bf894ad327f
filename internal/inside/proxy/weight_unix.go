//go:build unix

package proxy

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// hold maps memory and touches every page. It is outside the Go heap, where it
// would make garbage collection rarer and the proxy cheaper.
func hold(mib int) ([]byte, error) {
	if mib == 0 {
		return nil, nil
	}
	b, err := unix.Mmap(-1, 0, mib<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("hold %d MiB: %w", mib, err)
	}
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	return b, nil
}

func release(b []byte) {
	if b != nil {
		_ = unix.Munmap(b)
	}
}
