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
		lock, err := lockDir(path)
		if err != nil {
			return nil, fmt.Errorf("make the runtime directory: %w", errors.Join(err, os.RemoveAll(path)))
		}
		return &runtimeDir{path, lock}, nil
	}
	return nil, hint.Wrap(fmt.Errorf("make the runtime directory: %w", errors.Join(failed...)), "set TMPDIR to a short path that is writable")
}

// errLocked: a running tare has the directory.
var errLocked = errors.New("locked by a living run")

func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o600)
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
	for _, parent := range runtimeParents() {
		entries, err := os.ReadDir(parent)
		if err != nil {
			continue // a directory without access has no leftovers of tare
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), runtimePrefix) || !e.IsDir() {
				continue
			}
			if err := sweepRuntimeDir(filepath.Join(parent, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed = append(failed, err)
			}
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("remove what earlier runs left: %w", errors.Join(failed...))
	}
	return nil
}

func sweepRuntimeDir(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Getuid() {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(path, lockName)); errors.Is(err, fs.ErrNotExist) && time.Since(info.ModTime()) < settled {
		return nil // being made
	}
	lock, err := lockDir(path)
	if errors.Is(err, errLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	return os.RemoveAll(path)
}
