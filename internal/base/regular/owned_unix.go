//go:build unix

package regular

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrForeign is the reason why a file that this user should have written is not trusted.
var ErrForeign = errors.New("another user could have changed it")

// Owned returns an error wrapping [ErrForeign] if another user than this one and root owns a path, or every user may
// write to it. Paths that do not exist are errors as well.
func Owned(paths ...string) error {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if ok && st.Uid != 0 && int(st.Uid) != os.Getuid() {
			return fmt.Errorf("%s belongs to user %d: %w", path, st.Uid, ErrForeign)
		}
		if info.Mode().Perm()&0o002 != 0 {
			return fmt.Errorf("%s is writable for every user: %w", path, ErrForeign)
		}
	}
	return nil
}
