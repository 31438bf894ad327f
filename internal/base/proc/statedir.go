package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// statePlace is where a directory of state files may be: the directories names, one in the other, below base.
//
// A state file lists processes to kill, so only the user may write one. The base may be reached through
// links and may be shared, as /tmp is. Each directory in names is opened without following links and must
// belong to the user, with mode 0700.
type statePlace struct {
	base  string
	home  string // must belong to the user, as base must, empty for a shared base
	names []string
	user  int
}

// statePlaces lists the places of this user, preferred first: the user's state directory, then the directory
// for temporary files.
func statePlaces() []statePlace {
	user := os.Getuid()
	var places []statePlace
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		places = append(places, statePlace{base: dir, home: dir, names: []string{"tare", "processes"}, user: user})
	} else if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		places = append(places, statePlace{
			base: filepath.Join(home, ".local", "state"), home: home, names: []string{"tare", "processes"}, user: user,
		})
	}
	return append(places, statePlace{base: os.TempDir(), names: []string{fmt.Sprintf("tare-%d", user), "processes"}, user: user})
}

// errUnusable is wrapped by errors about a home directory that the user does not own or cannot enter.
// Such a place holds no state of this user, and the next place is used.
var errUnusable = errors.New("not usable by this user")

// stateDir is an open directory of state files. Its methods resolve names relative to the open directory.
type stateDir struct {
	*os.File
	user int
}

// create opens the place's directory and creates missing parts.
func (p statePlace) create() (stateDir, error) {
	if err := p.checkHome(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return stateDir{}, err
	}
	if err := os.MkdirAll(p.base, 0o700); err != nil {
		return stateDir{}, err
	}
	return p.walk(func(parent int, name string) error {
		if err := unix.Mkdirat(parent, name, 0o700); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
}

// open opens the place's directory. The error wraps [fs.ErrNotExist] if there is none, or [errUnusable].
func (p statePlace) open() (stateDir, error) {
	if err := p.checkHome(); err != nil {
		return stateDir{}, err
	}
	return p.walk(func(int, string) error { return nil })
}

func (p statePlace) checkHome() error {
	if p.home == "" {
		return nil
	}
	info, err := os.Stat(p.home)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: %w", err, errUnusable)
	}
	if err != nil {
		return err
	}
	if owner(info) != p.user {
		return fmt.Errorf("%s belongs to user %d: %w", p.home, owner(info), errUnusable)
	}
	return nil
}

// walk opens the directories of the place from the base down. before is called ahead of each.
func (p statePlace) walk(before func(parent int, name string) error) (stateDir, error) {
	dir, err := os.Open(p.base)
	if err != nil {
		return stateDir{}, err
	}
	path := p.base
	for _, name := range p.names {
		path = filepath.Join(path, name)
		next, err := openOwn(int(dir.Fd()), name, path, p.user, before)
		dir.Close()
		if err != nil {
			return stateDir{}, err
		}
		dir = next
	}
	return stateDir{dir, p.user}, nil
}

// openOwn opens the directory name in parent. It refuses a link, and a directory that others own or may enter.
func openOwn(parent int, name, path string, user int, before func(int, string) error) (*os.File, error) {
	if err := before(parent, name); err != nil {
		return nil, &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return nil, refused("%s is a symbolic link or not a directory", path)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(fd), path)
	info, err := dir.Stat()
	switch {
	case err != nil:
	case owner(info) != user:
		err = refused("%s belongs to user %d", path, owner(info))
	case info.Mode().Perm()&0o077 != 0:
		err = refused("%s is open to other users (mode %04o, not 0700)", path, info.Mode().Perm())
	default:
		return dir, nil
	}
	dir.Close()
	return nil, err
}

// openFile opens a state file: a regular file of the user, reached without following a link.
func (d stateDir) openFile(name string, flags int) (*os.File, error) {
	path := filepath.Join(d.Name(), name)
	fd, err := unix.Openat(int(d.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = refused("%s is not a regular file", path)
	case owner(info) != d.user:
		err = refused("%s belongs to user %d", path, owner(info))
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

func refused(format string, args ...any) error {
	return hint.New("remove it, or set XDG_STATE_HOME to a directory of your own", format, args...)
}

func (d stateDir) remove(name string) error {
	if err := unix.Unlinkat(int(d.Fd()), name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "remove", Path: filepath.Join(d.Name(), name), Err: err}
	}
	return nil
}

// owner returns the user ID that owns a file, or -1 if the system does not report one.
func owner(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}
