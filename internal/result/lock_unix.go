//go:build unix

package result

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// lock locks the file of a results directory.
func lock(dir string, f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := "another tare"
		if b, rerr := io.ReadAll(io.LimitReader(f, 32)); rerr == nil && len(b) > 0 {
			holder += " (pid " + strings.TrimSpace(string(b)) + ")"
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			return &Error{Op: "lock results directory", Path: dir, Hinted: hint.Hinted{Err: fmt.Errorf("%s is writing to it", holder), Text: "wait until it is done, or choose another directory with --out"}}
		}
		return storage("lock results directory", dir, err)
	}
	// The PID is for the message above. A full disk must not prevent the lock.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return nil
}

// links is the number of names of a file.
func links(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}
