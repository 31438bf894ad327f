package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// killMarked kills the processes of this user whose environment began with a mark, wherever they
// are in the process tree.
func killMarked(mark string) {
	if mark == "" {
		return
	}
	want := []byte(markVariable + "=" + mark)
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return
	}
	for _, path := range environs {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || pid <= 1 || pid == os.Getpid() {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil { // of another user, or ended
			continue
		}
		for _, variable := range bytes.Split(b, []byte{0}) {
			if bytes.Equal(variable, want) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				break
			}
		}
	}
}
