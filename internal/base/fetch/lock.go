package fetch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/wait"
)

// lock takes a file lock. The kernel releases it when the process ends.
// waiting is called once if another process holds it.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	reported := false
	// A blocking flock could not be interrupted, hence the attempts.
	err = wait.Until(ctx, 100*time.Millisecond, func(context.Context) error {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err != nil && !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return wait.Stop(err)
		case err != nil && !reported:
			waiting()
			reported = true
		}
		return err
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
