package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// A mark is the soft limit of file locks (RLIMIT_LOCKS), which the kernel has ignored since version 2.4.25. All descendants
// inherit it: after setsid, after a second fork, and with an empty environment. Where that limit cannot be set, the
// environment has the mark.

// marking calls start while this process has a mark, so that the started process inherits it.
func marking(mark string, start func() error) error {
	soft, err := strconv.ParseUint(mark, 10, 64)
	if err != nil { // none
		return start()
	}
	var before unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_LOCKS, nil, &before) != nil || before.Max < soft {
		return start()
	}
	if unix.Prlimit(0, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: soft, Max: before.Max}, nil) == nil {
		defer func() { _ = unix.Prlimit(0, unix.RLIMIT_LOCKS, &before, nil) }()
	}
	return start()
}

// sweeps bounds the scans for processes that start while others are killed.
const sweeps = 20

// killMarked kills the processes of this user with one of the marks, wherever they are in the process tree. It scans until it
// finds none.
func killMarked(marks ...string) error {
	want := map[string]bool{}
	for _, mark := range marks {
		if mark != "" {
			want[mark] = true
		}
	}
	for range sweeps {
		if len(want) == 0 {
			return nil
		}
		if more, err := killOnce(want); err != nil || !more {
			return err
		}
	}
	return fmt.Errorf("after %d scans there are still new processes", sweeps)
}

// killOnce reports whether it killed a process.
func killOnce(want map[string]bool) (any bool, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false, err
	}
	var killed []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid <= 1 || pid == os.Getpid() {
			continue
		}
		mark, err := markOf(pid)
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			return any, err
		}
		if !want[mark] {
			continue
		}
		if _, err := identify(pid); err != nil { // it has ended, and waits for its parent
			continue
		}
		group, err := syscall.Getpgid(pid)
		if syscall.Kill(pid, syscall.SIGKILL) != nil {
			continue // of another user, or ended
		}
		any = true
		if err == nil && group != syscall.Getpgrp() { // else another part of this program waits for it
			killed = append(killed, pid)
		}
	}
	for deadline := time.Now().Add(pipeDelay); len(killed) > 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		killed = slices.DeleteFunc(killed, func(pid int) bool {
			reaped, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			return reaped == pid || err != nil // it has another parent
		})
	}
	return any, nil
}

// MarkOf returns the mark of a process, "" without one, or of an ended process.
func MarkOf(pid int) string {
	mark, _ := markOf(pid)
	return mark
}

func markOf(pid int) (string, error) {
	if mark, err := markInLimits(pid); mark != "" || err != nil {
		return mark, err
	}
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

// markInLimits returns the soft limit of file locks if it is a mark.
func markInLimits(pid int) (string, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "limits"))
	if err != nil {
		return "", err
	}
	_, rest, ok := bytes.Cut(b, []byte("\nMax file locks "))
	fields := bytes.Fields(rest[:min(len(rest), 64)])
	if !ok || len(fields) == 0 {
		return "", nil
	}
	if n, err := strconv.ParseUint(string(fields[0]), 10, 64); err != nil || n < leastMark {
		return "", nil
	}
	return string(fields[0]), nil
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
