// Package cgroup gives a cluster a control group of its own on every hierarchy of the machine (version 1,
// hybrid or version 2). The group is also the cluster's identity: every process in it belongs to the cluster,
// even if the program that started it is gone.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Hierarchy is one mounted cgroup file system.
type Hierarchy struct {
	Mount   string
	Version int    // 1 or 2
	Options string // of the file system; names the controllers of a version 1 hierarchy
}

// controllers are the ones that kubelet and runc use on version 2.
const controllers = "+cpuset +cpu +io +memory +pids"

// Hierarchies lists the mounted control group hierarchies, from /proc/self/mountinfo (proc_pid_mountinfo(5)).
func Hierarchies() ([]Hierarchy, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list cgroup hierarchies: %w", err)
	}
	return parse(string(data)), nil
}

func parse(mountinfo string) []Hierarchy {
	var found []Hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		place, source := strings.Fields(before), strings.Fields(after)
		if len(place) < 5 || len(source) < 3 {
			continue
		}
		switch source[0] {
		case "cgroup":
			found = append(found, Hierarchy{Mount: place[4], Version: 1, Options: source[2]})
		case "cgroup2":
			found = append(found, Hierarchy{Mount: place[4], Version: 2, Options: source[2]})
		}
	}
	return found
}

// Group is a cluster's control group: the same relative path on every hierarchy.
type Group struct {
	name        string
	hierarchies []Hierarchy
}

// Find is the group of this name, whether or not it exists.
func Find(name string) (Group, error) {
	hierarchies, err := Hierarchies()
	if err == nil && len(hierarchies) == 0 {
		err = errors.New("no cgroup hierarchy is mounted")
	}
	return Group{name: name, hierarchies: hierarchies}, err
}

// daemons is the child that holds the cluster's own programs. Kubelet makes the children for pods beside it.
const daemons = "system"

// Create makes the group and its child for the daemons.
func (g Group) Create() error {
	for _, h := range g.controlled() {
		top := filepath.Join(h.Mount, g.name)
		for _, dir := range []string{top, filepath.Join(top, daemons)} {
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("create cgroup: %w", err)
			}
			if err := h.prepare(dir); err != nil {
				return fmt.Errorf("prepare cgroup %s: %w", dir, err)
			}
		}
	}
	return nil
}

// SetShares gives the group the CPU weight of this number of shares. A thread outside all groups has 1024. On version 2,
// whose default weight is 100, it is the same proportion.
func (g Group) SetShares(shares int) error {
	for _, h := range g.controlled() {
		file, value := "cpu.shares", shares
		switch {
		case h.Version == 2:
			file, value = "cpu.weight", min(max(1, shares*100/1024), 10000)
		case !slices.Contains(strings.Split(h.Options, ","), "cpu"):
			continue
		}
		if err := os.WriteFile(filepath.Join(h.Mount, g.name, file), []byte(strconv.Itoa(value)), 0o644); err != nil {
			return fmt.Errorf("set the CPU weight of the cgroup: %w", err)
		}
	}
	return nil
}

// prepare makes a new version 1 group usable (a cpuset is born empty) and hands a version 2 group's parent the
// controllers.
func (h Hierarchy) prepare(dir string) error {
	if h.Version == 2 {
		return os.WriteFile(filepath.Join(filepath.Dir(dir), "cgroup.subtree_control"), []byte(controllers), 0)
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), value, 0); err != nil {
			return err
		}
	}
	return nil
}

// controlled leaves out the version 2 hierarchy of a hybrid system, which has no controllers.
func (g Group) controlled() []Hierarchy {
	hybrid := slices.ContainsFunc(g.hierarchies, func(h Hierarchy) bool { return h.Version == 1 })
	return slices.DeleteFunc(slices.Clone(g.hierarchies), func(h Hierarchy) bool { return hybrid && h.Version == 2 })
}

// Version1 reports whether the machine has hierarchies of version 1.
func Version1() bool {
	all, err := Hierarchies()
	return err == nil && slices.ContainsFunc(all, func(h Hierarchy) bool { return h.Version == 1 })
}

// Remount shows the hierarchies of version 1 as the control group namespace of this process.
func Remount() error {
	all, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		if h.Version != 1 {
			continue
		}
		options := strings.TrimPrefix(h.Options, "rw,")
		if strings.HasPrefix(options, "name=") {
			options = "none," + options
		}
		if err := unix.Unmount(h.Mount, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", h.Mount, err)
		}
		if err := unix.Mount("cgroup", h.Mount, "cgroup", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
			return fmt.Errorf("mount %s: %w", h.Mount, err)
		}
	}
	return nil
}

// Add moves a process into the daemons' child, on every hierarchy.
func (g Group) Add(pid int) error { return g.add(pid, daemons) }

// AddTop moves a process into the group itself.
func (g Group) AddTop(pid int) error { return g.add(pid, "") }

func (g Group) add(pid int, child string) error {
	for _, h := range g.controlled() {
		file := filepath.Join(h.Mount, g.name, child, "cgroup.procs")
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("move process %d into cgroup: %w", pid, err)
		}
	}
	return nil
}

// Processes lists the host's process ids of all that is in the group, pods included.
func (g Group) Processes() []int { return g.processes("") }

// Kill sends SIGKILL to all processes of the group. It is an error while any is left.
func (g Group) Kill() error {
	left := g.Processes()
	for _, pid := range left {
		_ = unix.Kill(pid, unix.SIGKILL) // it may have ended by itself
	}
	if len(left) > 0 {
		return fmt.Errorf("%d processes are left", len(left))
	}
	return nil
}

// Daemons lists the processes of the cluster's own programs.
func (g Group) Daemons() []int { return g.processes(daemons) }

func (g Group) processes(under string) []int {
	seen := map[int]bool{}
	g.walk(under, func(dir string) {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return // the group was removed during the check
		}
		for _, field := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				seen[pid] = true
			}
		}
	})
	return slices.Sorted(maps.Keys(seen))
}

// Dirs lists the group's directories that exist, children before parents.
func (g Group) Dirs() []string {
	var dirs []string
	g.walk("", func(dir string) { dirs = append(dirs, dir) })
	slices.Reverse(dirs)
	return dirs
}

func (g Group) walk(under string, visit func(dir string)) {
	for _, h := range g.hierarchies {
		_ = filepath.WalkDir(filepath.Join(h.Mount, g.name, under), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // gone, or never there
			}
			if d.IsDir() {
				visit(path)
			}
			return nil
		})
	}
}

// Remove removes the group with its children once no process is left in it. It is an error while one is.
func (g Group) Remove() error {
	var errs []error
	for _, dir := range g.Dirs() {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
