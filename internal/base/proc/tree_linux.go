package proc

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// killMarked kills the processes of this user whose environment began with one of the marks, wherever they
// are in the process tree.
func killMarked(marks ...string) error {
	want := map[string]bool{}
	for _, mark := range marks {
		if mark != "" {
			want[mark] = true
		}
	}
	if len(want) == 0 {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	var killed []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid <= 1 || pid == os.Getpid() {
			continue
		}
		mark, err := markOf(pid)
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			return err
		}
		if mark != "" && want[mark] {
			group, err := syscall.Getpgid(pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
			if err == nil && group != syscall.Getpgrp() { // else another part of this program waits for it
				killed = append(killed, pid)
			}
		}
	}
	for deadline := time.Now().Add(pipeDelay); len(killed) > 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		killed = slices.DeleteFunc(killed, func(pid int) bool {
			reaped, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			return reaped == pid || err != nil // it has another parent
		})
	}
	return nil
}

// MarkOf returns the mark in the environment of a process, "" without one, or of an ended process.
func MarkOf(pid int) string {
	mark, _ := markOf(pid)
	return mark
}

func markOf(pid int) (string, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil { // of another user, or ended
		return "", err
	}
	mark := ""
	for variable := range bytes.SplitSeq(b, []byte{0}) {
		if value, ok := bytes.CutPrefix(variable, []byte(markVariable+"=")); ok {
			mark = string(value) // the last one is of the nearest ancestor
		}
	}
	return mark, nil
}

// ReapOrphans reaps ended descendants whose parents ended before them. Processes that tare started are left to their own wait.
func ReapOrphans() {
	starting.Lock()
	defer starting.Unlock()
	procs, err := procfs.AllProcs()
	if err != nil {
		return
	}
	self, group := os.Getpid(), syscall.Getpgrp()
	for _, p := range procs {
		stat, err := p.Stat()
		if err == nil && stat.PPID == self && stat.State == "Z" && stat.PGRP != group && !running[p.PID] {
			_, _ = syscall.Wait4(p.PID, nil, syscall.WNOHANG, nil)
		}
	}
}
