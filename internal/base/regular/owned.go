package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrForeign is the reason why a file that this user should have written is not trusted.
var ErrForeign = errors.New("another user could have changed it")

// Owned returns an error wrapping [ErrForeign] if another user than this one and root could replace or change a path.
// That is the owner of the path or of a directory above it, and every user with write permission, such as a group.
// A directory above can have the sticky bit, as /tmp has. Paths that do not exist are errors as well.
func Owned(paths ...string) error {
	for _, path := range paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		for _, at := range []string{path, target} { // who can change a link can change what it leads to
			if err := ownedUpwards(at); err != nil {
				return err
			}
		}
	}
	return nil
}

func ownedUpwards(path string) error {
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		switch {
		case ok && st.Uid != 0 && int(st.Uid) != os.Getuid():
			return fmt.Errorf("%s belongs to user %d: %w", at, st.Uid, ErrForeign)
		case info.Mode().Perm()&0o022 != 0 && (at == path || info.Mode()&fs.ModeSticky == 0):
			return fmt.Errorf("%s can be written by others (mode %04o): %w", at, info.Mode().Perm(), ErrForeign)
		case at == filepath.Dir(at):
			return nil
		}
	}
}
