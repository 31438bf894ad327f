package proc

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// killMarked kills the processes of this user whose environment began with one of the marks, wherever they
// are in the process tree.
func killMarked(marks ...string) error {
	want := map[string]bool{}
	for _, mark := range marks {
		if mark != "" {
			want[markVariable+"="+mark] = true
		}
	}
	if len(want) == 0 {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid <= 1 || pid == os.Getpid() {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			return err
		}
		if err != nil { // of another user, or ended
			continue
		}
		for _, variable := range bytes.Split(b, []byte{0}) {
			if want[string(variable)] {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				break
			}
		}
	}
	return nil
}
