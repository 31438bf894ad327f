//go:build linux

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

// A leftover is removed. Links, others' names and a locked directory remain, with what they name.
func TestSweepFollowsNoLinks(t *testing.T) {
	tmp, mine := t.TempDir(), t.TempDir()
	old := time.Now().Add(-time.Hour)
	made := func(name string) string {
		dir := filepath.Join(tmp, name)
		must.OK(t, errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "key"), nil, 0o600), os.Chtimes(dir, old, old)))
		return dir
	}
	left, trap, used := made(runtimePrefix+"left"), made(runtimePrefix+"trap"), made(runtimePrefix+"used")
	outside := filepath.Join(mine, "file")
	kept := []string{made("other"), filepath.Join(tmp, "other", "key"), mine, outside, filepath.Join(tmp, runtimePrefix+"link"), used, trap}
	must.OK(t, errors.Join(os.WriteFile(outside, []byte("x"), 0o600), os.Symlink(mine, filepath.Join(tmp, runtimePrefix+"link")),
		os.Symlink(filepath.Join(tmp, "other"), filepath.Join(tmp, runtimePrefix+"near")), os.Symlink(outside, filepath.Join(trap, lockName))))
	lock := must.Get(lockNew(used))(t)
	defer lock.Close()
	must.Fail(t, sweepIn(tmp), lockName, "a lock that is a link out of its directory")
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the leftover remains: %v", err)
	}
	for _, path := range kept {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}

// In a directory where others could replace a leftover by another one, nothing is removed.
func TestSweepOfASharedDirectory(t *testing.T) {
	tmp := t.TempDir()
	left := filepath.Join(tmp, runtimePrefix+"left")
	must.OK(t, errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, lockName), nil, 0o600), os.WriteFile(filepath.Join(left, "key"), nil, 0o600)))
	for _, test := range []struct {
		mode fs.FileMode
		gone bool
	}{{0o777, false}, {0o770, false}, {0o777 | fs.ModeSticky, true}} {
		must.OK(t, os.Chmod(tmp, test.mode))
		err := sweepIn(tmp)
		if _, found := os.Lstat(left); (err == nil) != test.gone || errors.Is(found, fs.ErrNotExist) != test.gone {
			t.Errorf("mode %v: %v, %v", test.mode, err, found)
		}
	}
}

// A planted state directory is reported.
func TestFailedSweepIsAWarning(t *testing.T) {
	tmp := t.TempDir()
	planted := filepath.Join(tmp, fmt.Sprintf("tare-%d", os.Getuid()))
	must.OK(t, os.Symlink(t.TempDir(), planted))
	t.Setenv("TMPDIR", tmp)
	var lines []string
	Sweep(func(line string) { lines = append(lines, line) })
	if got := strings.Join(lines, "\n"); !strings.HasPrefix(got, "warning: ") || !strings.Contains(got, planted) || !strings.Contains(got, "remove it") {
		t.Errorf("reported %q", got)
	}
}
