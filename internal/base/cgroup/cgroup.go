// Package cgroup limits CPU and memory of processes by control groups (versions 1 and 2), and counts what the limits did.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/wait"
)

// Limits of a group. 0 means none.
type Limits struct {
	CPU    float64 `json:"cpu,omitempty"`    // cores
	Memory int64   `json:"memory,omitempty"` // bytes
}

// Counts are what the limits of a group did since it was made.
type Counts struct {
	Periods   int64 // of 100 ms, in which the group wanted CPU
	Throttled int64 // of these, in which it reached its limit
	Time      int64 // throttled, ns
	OOMKills  int   // processes killed at the memory limit
}

// prefix of the names of tare's groups.
const prefix = "tare-limits-"

// root is where control groups are mounted.
const root = "/sys/fs/cgroup"

// Group is a control group with limits. Its directories are by controller; in version 2 all are the same.
type Group struct{ dirs map[string]string }

// controllers that limits need.
var controllers = []string{"cpu", "memory"}

// files have the names in version 1 and 2.
var files = map[bool]struct{ memory, oom, throttled, unit string }{
	false: {"memory.limit_in_bytes", "memory.oom_control", "throttled_time", "ns"},
	true:  {"memory.max", "memory.events", "throttled_usec", "us"},
}

const (
	period   = 100 * time.Millisecond // the default of the kernel and of Kubernetes
	minQuota = time.Millisecond       // the kernel takes no less
)

// Make makes a group with limits, whose name is unique in this process, in the group of this process, or above it. The error has a hint.
func Make(name string, l Limits) (*Group, error) {
	g := &Group{dirs: map[string]string{}}
	for _, controller := range controllers {
		dir, err := makeDir(fmt.Sprintf("%s%d-%s", prefix, os.Getpid(), name), controller)
		if err != nil {
			return nil, hint.Wrap(errors.Join(fmt.Errorf("make a control group for %s limits: %w", controller, err), g.Remove()),
				"run tare as root, or in a delegated control group: systemd-run --user --scope tare run …")
		}
		g.dirs[controller] = dir
	}
	if err := g.limit(l); err != nil {
		return nil, errors.Join(fmt.Errorf("limit a control group: %w", err), g.Remove())
	}
	return g, nil
}

// makeDir makes the directory of a controller in the first group, from this process's upwards, that can have it.
func makeDir(name, controller string) (string, error) {
	listed, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	top, own, err := find(string(listed), controller)
	if err != nil {
		return "", err
	}
	for at := filepath.Join(top, own); ; at = filepath.Dir(at) {
		if err = offers(at, top, controller); err == nil {
			dir := filepath.Join(at, name)
			if err = os.Mkdir(dir, 0o755); err == nil || errors.Is(err, fs.ErrExist) {
				return dir, nil
			}
		}
		if at == top || !strings.HasPrefix(at, root) {
			return "", err
		}
	}
}

// find returns where a controller is mounted, and the path of this process's group below. listed is /proc/self/cgroup.
func find(listed, controller string) (top, own string, err error) {
	for line := range strings.Lines(listed) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) < 3:
		case slices.Contains(strings.Split(fields[1], ","), controller):
			return filepath.Join(root, controller), fields[2], nil
		case fields[1] == "":
			top, own = root, fields[2]
		}
	}
	if top == "" {
		return "", "", errors.New("this system has no control groups")
	}
	return top, own, nil
}

// offers returns an error if groups in a directory do not have a controller.
func offers(at, top, controller string) error {
	if top != root { // version 1
		_, err := os.Stat(at)
		return err
	}
	offered, err := os.ReadFile(filepath.Join(at, "cgroup.subtree_control"))
	if err == nil && !slices.Contains(strings.Fields(string(offered)), controller) {
		err = fmt.Errorf("%s does not delegate controller %s", at, controller)
	}
	return err
}

func (g *Group) version2() bool { return g.dirs["cpu"] == g.dirs["memory"] }

func (g *Group) limit(l Limits) error {
	set := func(controller, name, value string) error {
		return os.WriteFile(filepath.Join(g.dirs[controller], name), []byte(value), 0)
	}
	var failed []error
	if l.CPU > 0 {
		quota := max(minQuota, time.Duration(l.CPU*float64(period))).Microseconds()
		if g.version2() {
			failed = append(failed, set("cpu", "cpu.max", fmt.Sprintf("%d %d", quota, period.Microseconds())))
		} else {
			failed = append(failed, set("cpu", "cpu.cfs_period_us", fmt.Sprint(period.Microseconds())), set("cpu", "cpu.cfs_quota_us", fmt.Sprint(quota)))
		}
	}
	if l.Memory > 0 {
		failed = append(failed, set("memory", files[g.version2()].memory, strconv.FormatInt(l.Memory, 10)))
		if g.version2() { // or pages would be swapped out
			if err := set("memory", "memory.swap.max", "0"); !errors.Is(err, fs.ErrNotExist) {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

// Add moves a process with all its threads into the group. Processes that it starts later are in it too.
func (g *Group) Add(pid int) error {
	for _, dir := range g.unique() {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("limit process %d: %w", pid, err)
		}
	}
	return nil
}

// Counts reads the group's counters.
func (g *Group) Counts() (c Counts, err error) {
	names := files[g.version2()]
	cpu, err := fields(filepath.Join(g.dirs["cpu"], "cpu.stat"))
	if err != nil {
		return c, err
	}
	memory, err := fields(filepath.Join(g.dirs["memory"], names.oom))
	if err != nil {
		return c, err
	}
	c = Counts{Periods: cpu["nr_periods"], Throttled: cpu["nr_throttled"], Time: cpu[names.throttled], OOMKills: int(memory["oom_kill"])}
	if names.unit == "us" {
		c.Time *= int64(time.Microsecond)
	}
	return c, nil
}

// Of returns the group of a process if tare made it, or nil.
func Of(pid int) *Group {
	listed, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil
	}
	g := &Group{dirs: map[string]string{}}
	for _, controller := range controllers {
		top, own, err := find(string(listed), controller)
		if err != nil || !strings.HasPrefix(filepath.Base(own), prefix) {
			return nil
		}
		g.dirs[controller] = filepath.Join(top, own)
	}
	return g
}

// Sweep removes the groups of runs of tare that were killed.
func Sweep() {
	listed, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return // no control groups
	}
	for _, controller := range controllers {
		top, own, err := find(string(listed), controller)
		if err != nil {
			continue
		}
		for at := filepath.Join(top, own); strings.HasPrefix(at, top); at = filepath.Dir(at) {
			left, _ := filepath.Glob(filepath.Join(at, prefix+"*"))
			for _, dir := range left {
				pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
				if _, err := os.Stat(filepath.Join("/proc", pid)); errors.Is(err, fs.ErrNotExist) {
					_ = os.Remove(dir) // refused while it has processes
				}
			}
		}
	}
}

// removing bounds the time in which the kernel forgets ended processes.
const removing = 2 * time.Second

// Remove removes the group, whose processes have ended. It may be removed already.
func (g *Group) Remove() error {
	var failed []error
	for _, dir := range g.unique() {
		err := wait.Within(context.Background(), removing, time.Millisecond, func(context.Context) error {
			err := os.Remove(dir)
			if err != nil && !errors.Is(err, syscall.EBUSY) {
				return wait.Stop(err)
			}
			return err
		})
		if !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// unique are the group's directories, each once.
func (g *Group) unique() []string { return slices.Compact(slices.Sorted(maps.Values(g.dirs))) }

// fields are the numbers of a file with lines of "NAME NUMBER".
func fields(path string) (map[string]int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			all[name] = n
		}
	}
	return all, nil
}
