package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/secret"
)

// held is a locked results directory. tare writes to it through its root only, and creates files exclusively: the
// directory can be another person's, with links to files of this user. Names have slashes.
type held struct {
	*os.Root
	lock *os.File
}

// acquire locks a results directory without waiting. The kernel releases the lock when the file is closed or the
// process ends.
func acquire(dir string) (*held, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, storage("lock results directory", dir, err)
	}
	h := &held{Root: root}
	if err := h.real(TrialsDir, fs.ModeDir); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	for h.lock == nil {
		f, err := h.openLock()
		if err != nil {
			return nil, errors.Join(err, root.Close())
		}
		if err := lock(dir, f); err != nil {
			return nil, errors.Join(err, f.Close(), root.Close())
		}
		if h.named(f) {
			h.lock = f
		} else if err := f.Close(); err != nil { // its holder removed it between
			return nil, errors.Join(err, root.Close())
		}
	}
	return h, nil
}

// named reports whether an open file is the lock's file.
func (h *held) named(f *os.File) bool {
	opened, err := f.Stat()
	now, lerr := h.Lstat(LockFile)
	return err == nil && lerr == nil && os.SameFile(opened, now)
}

// openLock opens the lock's file, and creates it if there is none. Its content is replaced, so that it must be a file
// with one name.
func (h *held) openLock() (*os.File, error) {
	if err := h.real(LockFile, 0); err != nil {
		return nil, err
	}
	f, err := h.OpenFile(LockFile, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, storage("lock results directory", h.Name(), err)
	}
	opened, err := f.Stat()
	if err == nil && links(opened) > 1 {
		err = &Error{Op: "lock", Path: h.path(LockFile), Hinted: hint.Hinted{Err: errors.New("the file has a second name elsewhere"), Text: "remove it"}}
	}
	if err == nil {
		err = h.real(LockFile, 0) // it was no link when it was opened
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// real returns an error if there is something of another type, such as a link, in the place of the file called name.
func (h *held) real(name string, want fs.FileMode) error {
	info, err := h.Lstat(name)
	if err == nil && info.Mode().Type() != want {
		return &Error{Op: "write to", Path: h.path(name), Hinted: hint.Hinted{Err: fmt.Errorf("it is a %v, and no results directory of tare has one", typeOf(info.Mode())), Text: "another person may have put it there: remove it, or take the results from their source again"}}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storage("read", h.path(name), err)
	}
	return nil
}

func typeOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	case m.IsDir():
		return "directory"
	case m.IsRegular():
		return "file"
	}
	return "special file"
}

// Writing reports whether a tare writes to a results directory below root. It follows no link out of root.
func Writing(root *os.Root, dir string) bool {
	name := path.Join(filepath.ToSlash(dir), LockFile)
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return locked(f)
}

// Close removes the lock and releases it.
func (h *held) Close() error {
	return errors.Join(h.remove(LockFile), h.lock.Close(), h.Root.Close())
}

func (h *held) writeJSON(name string, v any) error {
	b, err := encode(h.path(name), v)
	if err != nil {
		return err
	}
	return h.write(name, b)
}

// write replaces a file atomically.
func (h *held) write(name string, b []byte) error {
	return h.replace(name, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// errUnchanged of a function of replace leaves the file as it is.
var errUnchanged = errors.New("the file is as before")

// replace replaces a file atomically by what a function writes: after a crash it is either old or new. The steps are:
// temporary name, fsync, rename, fsync of the directory.
func (h *held) replace(name string, content func(io.Writer) error) error {
	tmp := temporary(name)
	if err := h.remove(tmp); err != nil { // of a killed program
		return err
	}
	f, err := h.exclusive(tmp)
	if err == nil {
		err = content(f)
		if err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = h.Rename(tmp, name)
	}
	if err != nil {
		_ = h.Remove(tmp)
		if errors.Is(err, errUnchanged) {
			return nil
		}
		return storage("write", h.path(name), err)
	}
	return h.sync(path.Dir(name))
}

// exclusive creates a file for writing. It fails if there is one.
func (h *held) exclusive(name string) (*os.File, error) {
	return h.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
}

// temporary is the name of a file before it is renamed.
func temporary(name string) string { return name + ".tmp" }

// remove removes a file, if there is one.
func (h *held) remove(name string) error {
	if err := h.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storage("remove", h.path(name), err)
	}
	return nil
}

// encode is the content of the JSON file at path, without known secrets.
func encode(path string, v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, &Error{Op: "write", Path: path, Hinted: hint.Hinted{Err: err}}
	}
	return append(secret.RedactJSON(b), '\n'), nil
}

// sync makes the content of a file or directory durable.
func (h *held) sync(name string) error {
	f, err := h.Open(name)
	if err != nil {
		return storage("write", h.path(name), err)
	}
	err = f.Sync()
	// Some file systems cannot sync a directory, so their error is ignored.
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return storage("write", h.path(name), err)
	}
	return nil
}

func (h *held) path(name string) string { return filepath.Join(h.Name(), filepath.FromSlash(name)) }

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
