//go:build unix

package regular_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/test/must"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := must.File(t, dir, "file", "12345")
	if b, err := regular.ReadFile(path, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := regular.ReadFile(path, 4); !errors.Is(err, regular.ErrTooLarge) || !strings.Contains(err.Error(), "more than 4 bytes") {
		t.Errorf("limit of 4 bytes: %v", err)
	}
	must.OK(t, os.Symlink(path, filepath.Join(dir, "link")))
	if b, err := regular.ReadFile(filepath.Join(dir, "link"), 5); err != nil || len(b) != 5 {
		t.Errorf("link: %q, %v", b, err)
	}
	if _, err := regular.ReadFile(filepath.Join(dir, "absent"), 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
}

// Without the check a FIFO blocks this test, and the others fill the memory.
func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	fifo, sparse := filepath.Join(dir, "fifo"), filepath.Join(dir, "sparse")
	must.OK(t, syscall.Mkfifo(fifo, 0o600))
	must.OK(t, os.WriteFile(sparse, nil, 0o600))
	must.OK(t, os.Truncate(sparse, 50<<30))
	for path, want := range map[string]error{fifo: regular.ErrNotRegular, "/dev/zero": regular.ErrNotRegular, dir: regular.ErrNotRegular, sparse: regular.ErrTooLarge} {
		_, err := regular.ReadFile(path, 1<<20)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if path != dir && hint.Of(err) == "" {
			t.Errorf("%s: %v has no hint", path, err)
		}
	}
}

// A file may grow between its size check and its reading.
func TestGrowingFile(t *testing.T) {
	path := must.File(t, t.TempDir(), "growing", "1234")
	f := must.Get(regular.Open(path, 8))(t)
	defer f.Close()
	must.OK(t, os.WriteFile(path, make([]byte, 100), 0o600))
	for name, read := range map[string]func() error{
		"ReadAll": func() error { _, err := io.ReadAll(f); return err },
		"Copy":    func() error { _, err := io.Copy(io.Discard, f); return err },
	} {
		must.Get(f.Seek(0, io.SeekStart))(t)
		if err := read(); !errors.Is(err, regular.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A shell's <(command) is a pipe. A FIFO without a writer must not block.
func TestPipes(t *testing.T) {
	r, w, err := os.Pipe()
	must.OK(t, err)
	defer r.Close()
	go func() {
		_, _ = w.WriteString("from a command")
		_ = w.Close()
	}()
	if b, err := regular.ReadInput(fmt.Sprintf("/dev/fd/%d", r.Fd()), 100); err != nil || string(b) != "from a command" {
		t.Errorf("pipe: %q, %v", b, err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	must.OK(t, syscall.Mkfifo(fifo, 0o600))
	if b, err := regular.ReadInput(fifo, 100); err != nil || len(b) != 0 {
		t.Errorf("FIFO without a writer: %q, %v", b, err)
	}
	if _, err := regular.ReadInput("/dev/zero", 100); !errors.Is(err, regular.ErrNotRegular) {
		t.Errorf("/dev/zero: %v", err)
	}
}
