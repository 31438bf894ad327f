//go:build unix

package result

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// acquire locks a results directory without waiting. The kernel releases the
// lock when the file is closed or the process ends.
func acquire(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, storage("lock results directory", dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := "another tare"
		if b, rerr := io.ReadAll(io.LimitReader(f, 32)); rerr == nil && len(b) > 0 {
			holder += " (pid " + strings.TrimSpace(string(b)) + ")"
		}
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &Error{Op: "lock results directory", Path: dir, Hinted: hint.Hinted{Err: fmt.Errorf("%s is writing to it", holder), Text: "wait until it is done, or choose another directory with --out"}}
		}
		return nil, storage("lock results directory", dir, err)
	}
	// The PID is for the message above. A full disk must not prevent the lock.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return f, nil
}
