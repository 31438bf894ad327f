// Package outfile writes the files that users name, such as the files of -o.
package outfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// File is a flag that names a file to write. A wrong name is refused before the command begins.
type File string

// Set implements pflag.Value.
func (f *File) Set(name string) error {
	*f = File(name)
	return Check(name)
}

func (f *File) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *File) Type() string { return "file" }

// Check refuses a name that cannot be written: a directory, or a file where none can be created.
func Check(name string) error {
	if name == "" {
		return nil
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir(), os.IsPathSeparator(name[len(name)-1]):
		return fmt.Errorf("%s is a directory: name a file in it", name)
	case err == nil && !info.Mode().IsRegular(): // opening a FIFO waits for its reader
		return nil
	case err == nil:
		return writing(name, inPlace(name, os.O_APPEND, func(io.Writer) error { return nil }))
	}
	f, err := beside(target(name), 0o600)
	if err != nil {
		return writing(name, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// WriteFile is [Write] of b.
func WriteFile(name string, b []byte, perm fs.FileMode) error {
	return Write(name, perm, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// Write writes a file as a shell's redirection does: it follows links, writes to devices and FIFOs, and keeps
// the permissions of a file. A regular file is replaced in one step where its directory allows that: readers see the
// old content or the new, also after a failure. A new file has the permissions perm, less the umask.
func Write(name string, perm fs.FileMode, write func(io.Writer) error) error {
	path := target(name)
	info, err := os.Stat(name)
	if err == nil {
		at, e := os.Lstat(path)
		if !info.Mode().IsRegular() || e != nil || !os.SameFile(info, at) { // the link of an open file has no path
			return writing(name, inPlace(name, os.O_TRUNC, write))
		}
	}
	f, e := beside(path, perm)
	if e != nil && err == nil {
		return writing(name, inPlace(name, os.O_TRUNC, write))
	}
	if e != nil {
		return writing(name, e)
	}
	defer os.Remove(f.Name()) // fails after the rename
	if err == nil {
		e = f.Chmod(info.Mode().Perm())
	}
	if e == nil {
		e = write(f)
	}
	if e = errors.Join(e, f.Close()); e != nil {
		return writing(name, e)
	}
	if e = os.Rename(f.Name(), path); e != nil && err == nil { // the file is a mount
		e = inPlace(name, os.O_TRUNC, func(w io.Writer) error { return copyFrom(f.Name(), w) })
	}
	return writing(name, e)
}

// target returns the path of what name is after links. Its last element need not exist.
func target(name string) string {
	for range 40 { // as many links as Linux follows
		to, err := os.Readlink(name)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Dir(name) + string(filepath.Separator) + to // unclean: the directory can be a link, too
		}
		name = to
	}
	return name
}

// beside creates a file in the directory of path.
func beside(path string, perm fs.FileMode) (*os.File, error) {
	name := ".tare-" + strconv.FormatUint(rand.Uint64(), 36)
	return os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
}

// inPlace writes to what name is, and creates nothing.
func inPlace(name string, flag int, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|flag, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func copyFrom(name string, w io.Writer) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// writing names the file in an error, in place of the names that the user does not know.
func writing(name string, err error) error {
	if err == nil {
		return nil
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	} else if link, ok := errors.AsType[*os.LinkError](err); ok {
		err = link.Err
	}
	return fmt.Errorf("write %s: %w", cmp.Or(name, "output"), err)
}
