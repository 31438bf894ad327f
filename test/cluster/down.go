package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// downLimit is the time for processes to end after SIGKILL.
const downLimit = 30 * time.Second

// Down takes the cluster down whole, however far an Up came. It is not an error if there is
// none. The logs stay.
func Down(ctx context.Context, l Layout) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: it takes root", ErrUnsupported)
	}
	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.down(ctx); err != nil {
		return fmt.Errorf("take down cluster %s: %w", l.Name, err)
	}
	return nil
}

// down ends every process of the control group, which ends the namespaces with all that is mounted in them, and
// then removes what has a name on this machine.
func (l Layout) down(ctx context.Context) error {
	group, err := l.cgroup()
	if err != nil {
		return err
	}
	gone := func(context.Context) error { return group.Kill() }
	if err := await(ctx, downLimit, "the cluster's processes to end", gone); err != nil {
		return err
	}
	if err := (link{l}).disconnect(); err != nil {
		return err
	}
	removed := func(context.Context) error { return group.Remove() }
	if err := await(ctx, downLimit, "the cluster's control groups to empty", removed); err != nil {
		return err
	}
	if err := l.removeDir(); err != nil {
		return err
	}
	return l.restoreInotify(ctx)
}

// removeDir removes the state, but never reaches through a mount into other files.
func (l Layout) removeDir() error {
	mounts, err := l.Mounts()
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("remove %s: something is mounted in it: %v", l.Dir(), mounts)
	}
	if err := os.RemoveAll(l.Dir()); err != nil {
		return fmt.Errorf("remove the cluster's state: %w", err)
	}
	return nil
}

// Mounts lists the mounts below the cluster's directory, as this process sees them: none, unless something
// is wrong.
func (l Layout) Mounts() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], l.Dir()+"/") {
			found = append(found, fields[4])
		}
	}
	return found, nil
}

// running reports whether the first process lives. It is searched in the control group, so that a process id
// that another program has by now does not count.
func (l Layout) running() bool {
	group, err := l.nodes()[0].group()
	if err != nil {
		return false
	}
	return slices.Contains(group.Daemons(), l.Init)
}

// lastWords are the ends of the daemons' logs, for the error of a cluster that did not come up.
func (l Layout) lastWords() string {
	files, err := filepath.Glob(filepath.Join(l.Logs(), "*.log"))
	if err != nil {
		return ""
	}
	var all strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || len(data) == 0 {
			continue
		}
		lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
		lines = lines[max(0, len(lines)-4):]
		fmt.Fprintf(&all, "\n%s:\n    %s", file, bytes.Join(lines, []byte("\n    ")))
	}
	return all.String()
}

// Owner identifies a process by its id and its start time: ids are reused.
type Owner struct {
	PID   int    `json:"pid,omitempty"`
	Began string `json:"began,omitempty"` // clock ticks since boot, as in /proc
}

func self() Owner { return Owner{PID: os.Getpid(), Began: began(os.Getpid())} }

func (o Owner) dead() bool { return o.PID != 0 && began(o.PID) != o.Began }

// began is field 22 of proc_pid_stat(5). The name in field 2 may hold anything, so that fields are counted from
// the parenthesis after it.
func began(pid int) string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// lock is held while a process brings the cluster up or down. A second process is refused.
func (l Layout) lock() (unlock func(), err error) {
	unlock, err = lockFile(context.Background(), filepath.Join(l.Root, l.Name+".lock"), false)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("cluster %s is being brought up or taken down by another process", l.Name)
	}
	return unlock, err
}

// lockNetwork is held while what the clusters of a root share is changed: networks, and the limit of inotify instances.
func (l Layout) lockNetwork(ctx context.Context) (unlock func(), err error) {
	return lockFile(ctx, filepath.Join(l.Root, "network.lock"), true)
}

// lockFile takes an advisory lock that ends with this process.
func lockFile(ctx context.Context, path string, wait bool) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	take := func(context.Context) error { return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
	if wait {
		err = await(ctx, time.Hour, "the lock "+path, take)
	} else {
		err = take(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
