package result

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// lockPause is the time before a second attempt to lock a directory.
const lockPause = 20 * time.Millisecond

// lock locks the file of a results directory.
func lock(dir string, f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) { // perhaps by [Writing], which has it for microseconds
		time.Sleep(lockPause)
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
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

// locked reports whether another process has the lock of a file.
func locked(f *os.File) bool {
	err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	}
	return errors.Is(err, unix.EWOULDBLOCK)
}

// links is the number of names of a file.
func links(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}
