// Package regular reads untrusted files. It opens regular files only, so
// that a FIFO cannot block and a device cannot be read without end, and it reads
// no more than a given number of bytes.
package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/tare-mesh/tare/internal/base/hint"
)

var (
	// ErrNotRegular is the cause of the error for a directory, FIFO, socket or device.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge is the cause of the error for a file of more bytes than the caller accepts.
	ErrTooLarge = errors.New("the file is too large")
)

// File is an open regular file. Reading beyond its limit is [ErrTooLarge].
type File struct {
	*os.File
	left, max int64 // bytes
	size      int64
}

// Open opens the regular file at path, of at most max bytes. It follows links.
func Open(path string, max int64) (*File, error) { return open(path, max, false) }

// Read reads the file up to its limit: it may grow after it was opened.
func (f *File) Read(b []byte) (int, error) {
	if int64(len(b)) > f.left+1 {
		b = b[:f.left+1]
	}
	n, err := f.File.Read(b)
	if f.left -= int64(n); f.left < 0 {
		return n, tooLarge(f.Name(), f.max)
	}
	return n, err
}

// WriteTo hides [os.File]'s WriteTo, which has no limit.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{f})
}

// ReadFile reads the whole regular file at path, of at most max bytes.
func ReadFile(path string, max int64) ([]byte, error) {
	var b bytes.Buffer
	if err := ReadInto(&b, path, max); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// ReadInput is [ReadFile] for a file that the user names. It also reads a pipe, as
// a shell makes it for <(command). A FIFO without a writer is empty.
func ReadInput(path string, max int64) ([]byte, error) {
	f, err := open(path, max, true)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func open(path string, max int64, pipes bool) (*File, error) {
	// Opening a FIFO waits for a writer unless it is opened without blocking.
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	return checked(f, path, max, pipes)
}

// ReadInside reads the whole regular file called name in the directory dir. Neither the name nor a link leads out of it.
func ReadInside(dir, name string, max int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	opened, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f, err := checked(opened, name, max, false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// checked refuses an open file of another type or size, and closes it.
func checked(f *os.File, path string, max int64, pipes bool) (*File, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = refused(path, fmt.Errorf("%w but a directory", ErrNotRegular), "")
	case pipes && info.Mode()&fs.ModeNamedPipe != 0:
	case !info.Mode().IsRegular():
		err = refused(path, fmt.Errorf("%w but %s", ErrNotRegular, kind(info.Mode())), "copy its content to a file")
	case info.Size() > max:
		err = tooLarge(path, max)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &File{File: f, left: max, max: max, size: info.Size()}, nil
}

// ReadInto appends the whole regular file at path, of at most max bytes, to a buffer.
func ReadInto(b *bytes.Buffer, path string, max int64) error {
	f, err := Open(path, max)
	if err != nil {
		return err
	}
	defer f.Close()
	b.Grow(int(f.size) + bytes.MinRead)
	_, err = b.ReadFrom(f)
	return err
}

func tooLarge(path string, max int64) error {
	return refused(path, fmt.Errorf("%w: more than %s", ErrTooLarge, bytesOf(max)), "is this the right file?")
}

func refused(path string, err error, text string) error {
	return hint.Wrap(&os.PathError{Op: "read", Path: path, Err: err}, text)
}

// bytesOf prints a limit in its largest whole unit.
func bytesOf(n int64) string {
	for _, u := range []struct {
		shift uint
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n >= 1<<u.shift && n%(1<<u.shift) == 0 {
			return fmt.Sprintf("%d %s", n>>u.shift, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// kind is the name of an irregular file's type.
func kind(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}
