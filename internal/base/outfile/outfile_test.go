//go:build unix

package outfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	inDir := func(name string) string { return filepath.Join(dir, name) }
	put := func(name, text string, perm fs.FileMode) {
		t.Helper()
		must.OK(t, errors.Join(os.WriteFile(inDir(name), []byte(text), perm), os.Chmod(inDir(name), perm)))
	}
	put("old", "before", 0o640)
	put("linked", "before", 0o600)
	for link, to := range map[string]string{"link": "linked", "chain": "link", "dangling": "absent", "sub": "elsewhere/below"} {
		must.OK(t, os.Symlink(to, inDir(link)))
	}
	must.OK(t, os.MkdirAll(inDir("elsewhere/below"), 0o700))
	if err := os.Symlink("../up", inDir("elsewhere/below/up")); err != nil { // from below a link: elsewhere/up
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		perm       fs.FileMode
	}{
		{"new", "new", 0o600}, {"old", "old", 0o640}, {"link", "linked", 0o600}, {"chain", "linked", 0o600}, {"dangling", "absent", 0o600},
		{"sub/up", "elsewhere/up", 0o600},
	} {
		before, _ := os.Lstat(inDir(c.name))
		if err := errors.Join(Check(inDir(c.name)), WriteFile(inDir(c.name), []byte(c.name), 0o600)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		after, err := os.Lstat(inDir(c.name))
		if before != nil && (err != nil || before.Mode() != after.Mode()) {
			t.Errorf("%s is no longer what it was: %v", c.name, err)
		}
		text, err := os.ReadFile(inDir(c.file))
		if info, e := os.Lstat(inDir(c.file)); e != nil || err != nil {
			t.Errorf("%s: %s has %q with %v, %v, %v", c.name, c.file, text, info, err, e)
		} else if d := difftest.Of("string(text)", string(text), c.name, "info.Mode()", info.Mode(), c.perm); d != "" {
			t.Errorf("%s: %s: %s has %q with %v, %v, %v", d, c.name, c.file, text, info, err, e)
		}
	}
	failed := errors.New("failed")
	if err := Write(inDir("old"), 0o644, func(w io.Writer) error { _, _ = io.WriteString(w, "half"); return failed }); !errors.Is(err, failed) {
		t.Errorf("a failed write returns %v", err)
	}
	if text, _ := os.ReadFile(inDir("old")); string(text) != "old" {
		t.Errorf("after a failed write the file has %q", text)
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s is left, %v", e.Name(), err)
		}
	}
}

// What is not a file stays what it is: a FIFO, a link to one, a device, an open file without a name.
func TestWriteToOthers(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	must.OK(t, errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink("fifo", link)))
	for _, name := range []string{fifo, link} {
		read := make(chan string, 1)
		go func() {
			text, _ := os.ReadFile(fifo)
			read <- string(text)
		}()
		must.OK(t, errors.Join(Check(name), WriteFile(name, []byte("text"), 0o644)))
		if info, err := os.Lstat(fifo); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
			t.Fatalf("%s: the FIFO has become %v, %v", name, info, err) // its reader waits forever
		}
		if text := <-read; text != "text" {
			t.Errorf("%s: %q arrived", name, text)
		}
	}
	if os.Geteuid() == 0 { // a copy of /dev/null
		null := filepath.Join(dir, "null")
		if err := syscall.Mknod(null, syscall.S_IFCHR|0o666, 1<<8|3); err == nil {
			if err := errors.Join(Check(null), WriteFile(null, []byte("text"), 0o644)); err != nil && !errors.Is(err, fs.ErrPermission) {
				t.Error(err) // a file system can be mounted without devices
			}
			if info, err := os.Lstat(null); err != nil || info.Mode()&fs.ModeCharDevice == 0 {
				t.Errorf("the device has become %v, %v", info, err)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{
		"": "", "new": "", ".": "is a directory", "new/": "is a directory", "absent/new": "no such file",
	} {
		path := name
		if name != "" {
			path = dir + "/" + name
		}
		err := Check(path)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("a check left %v, %v", entries, err)
	}
}
