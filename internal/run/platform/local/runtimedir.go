package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
)

const (
	runtimePrefix = "tare-run-"
	lockName      = "lock"
	// The path of a socket has at most 104 bytes, including its name.
	maxRuntimeDir = 60
	// settled is the age after which a directory without a lock is a leftover.
	settled = time.Minute
)

// runtimeDir has keys and sockets, which tare must delete. The deployment locks it, so that a
// later run can identify a leftover.
type runtimeDir struct {
	path string
	lock *os.File
}

// runtimeParents are the possible parent directories, preferred first. $TMPDIR is too long on some
// systems.
func runtimeParents() []string {
	parents := []string{os.TempDir()}
	if os.TempDir() != "/tmp" {
		parents = append(parents, "/tmp")
	}
	return parents
}

func newRuntimeDir() (*runtimeDir, error) {
	var failed []error
	for _, parent := range runtimeParents() {
		if len(parent)+len(runtimePrefix)+11 > maxRuntimeDir {
			failed = append(failed, fmt.Errorf("the path %s is too long for sockets", parent))
			continue
		}
		path, err := os.MkdirTemp(parent, runtimePrefix) // 0700
		if err != nil {
			failed = append(failed, err)
			continue
		}
		lock, err := lockNew(path)
		if err != nil {
			return nil, fmt.Errorf("make the runtime directory: %w", errors.Join(err, os.RemoveAll(path)))
		}
		return &runtimeDir{path, lock}, nil
	}
	return nil, hint.Wrap(fmt.Errorf("make the runtime directory: %w", errors.Join(failed...)), "set TMPDIR to a short path that is writable")
}

// errLocked: a running tare has the directory.
var errLocked = errors.New("locked by a living run")

func lockNew(path string) (*os.File, error) {
	dir, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return lockDir(dir)
}

func lockDir(dir *os.Root) (*os.File, error) {
	f, err := dir.OpenFile(lockName, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

func (r *runtimeDir) file(name string) string { return filepath.Join(r.path, name) }

// remove may be called more than once.
func (r *runtimeDir) remove() error {
	err := os.RemoveAll(r.path)
	r.lock.Close()
	if err != nil {
		return fmt.Errorf("remove the runtime directory: %w", err)
	}
	return nil
}

// sweepRuntimeDirs removes leftovers of this user's killed runs.
func sweepRuntimeDirs() error {
	var failed []error
	for _, path := range runtimeParents() {
		parent, err := os.OpenRoot(path)
		if err != nil {
			continue // a directory without access has no leftovers of tare
		}
		failed = append(failed, sweepIn(parent))
		parent.Close()
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("remove what earlier runs left: %w", err)
	}
	return nil
}

// sweepIn removes the leftovers in a directory, which other users may write to.
func sweepIn(parent *os.Root) error {
	entries, err := fs.ReadDir(parent.FS(), ".")
	if err != nil {
		return nil // as without access
	}
	var failed []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), runtimePrefix) {
			continue
		}
		if err := sweepRuntimeDir(parent, e.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// sweepRuntimeDir removes a leftover. It follows no links: a directory of this user that a link
// names is no leftover.
func sweepRuntimeDir(parent *os.Root, name string) error {
	info, err := parent.Lstat(name)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Getuid() || !info.IsDir() {
		return nil
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	opened, err := dir.Stat(".")
	if err != nil {
		return err
	}
	if !os.SameFile(info, opened) { // replaced meanwhile
		return nil
	}
	if _, err := dir.Lstat(lockName); errors.Is(err, fs.ErrNotExist) && time.Since(info.ModTime()) < settled {
		return nil // being made
	}
	lock, err := lockDir(dir)
	if errors.Is(err, errLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	return parent.RemoveAll(name)
}
