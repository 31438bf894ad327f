package nodeagent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tare-mesh/tare/internal/base/hint"
)

const (
	// maxDepth bounds the search for containers: nested clusters (kind) have seven levels.
	maxDepth = 10
	// maxDirs bounds the directories of one search.
	maxDirs = 50_000
	// podsName is in the name of the group of all pods: kubepods, kubepods.slice, kubelet-kubepods.slice.
	podsName = "kubepods"
)

var (
	errNoGroup  = errors.New("no control group of the container on this node")
	errBadID    = errors.New("no ID of a container")
	errNoPods   = errors.New("the control group of the pods is unknown: no container was found yet")
	errTooMany  = fmt.Errorf("more than %d control groups", maxDirs)
	errNoCgroup = errors.New("neither cgroup.controllers (version 2) nor cpuacct (version 1)")
)

// groups are the control groups below the mount point of their file system.
type groups struct {
	files files

	mu    sync.Mutex
	paths map[string]string // of containers, by ID, relative to a hierarchy
	pods  string            // relative path of the group of all pods, empty if unknown
	// daemons are the last counters of the groups beside the pods. Those of removed groups stay, so
	// that their sum never decreases.
	daemons map[string]int64
}

// openGroups finds the version of the control groups below root, such as /sys/fs/cgroup.
func openGroups(root string) (*groups, error) {
	f, err := filesOf(root)
	return &groups{files: f, paths: map[string]string{}, daemons: map[string]int64{}}, hint.Prefix(err, "find the control groups in %s", root)
}

// find returns the path of each container's group. A search of the whole tree happens only if one
// is unknown.
func (g *groups) find(ids []string) (paths map[string]string, missing map[string]error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	paths, missing = map[string]string{}, map[string]error{}
	wanted := map[string]bool{}
	for _, id := range ids {
		switch known, ok := g.paths[id]; {
		case !validID(id):
			missing[id] = errBadID
		case ok && g.files.exists(known):
			paths[id] = known
		default:
			delete(g.paths, id)
			wanted[id] = true
		}
	}
	if len(wanted) == 0 {
		return paths, missing
	}
	err := g.search(wanted)
	for id := range wanted {
		if path, ok := g.paths[id]; ok {
			paths[id] = path
		} else {
			missing[id] = errors.Join(errNoGroup, err)
		}
	}
	return paths, missing
}

// validID reports whether a text can be a container's ID. IDs are parts of names of directories.
func validID(id string) bool {
	return len(id) >= 8 && len(id) <= 128 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// search walks the tree of the CPU hierarchy. Links are not followed.
func (g *groups) search(wanted map[string]bool) error {
	top := g.files.cpu
	dirs := 0
	return filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == top {
			if errors.Is(err, fs.ErrNotExist) || path != top {
				return nil // a group that ends meanwhile, or that may not be read
			}
			return err
		}
		if dirs++; dirs > maxDirs {
			return errTooMany
		}
		relative := strings.TrimPrefix(path, top+string(filepath.Separator))
		if id := containerOf(d.Name()); wanted[id] {
			g.paths[id] = relative
			g.pods = podsOf(relative, g.pods)
			return fs.SkipDir
		}
		if strings.Count(relative, string(filepath.Separator)) >= maxDepth {
			return fs.SkipDir
		}
		return nil
	})
}

// containerOf is the ID in the name of a container's group: "<id>" where the kubelet makes the
// groups, "cri-containerd-<id>.scope" where systemd does.
func containerOf(name string) string {
	name = strings.TrimSuffix(name, ".scope")
	if strings.Contains(name, "-conmon-") { // CRI-O's own process beside the container
		return ""
	}
	return name[strings.LastIndexByte(name, '-')+1:]
}

// podsOf is the path up to the group of all pods, or otherwise.
func podsOf(path, otherwise string) string {
	parts := strings.Split(path, string(filepath.Separator))
	if i := slices.IndexFunc(parts, func(p string) bool { return strings.Contains(p, podsName) }); i >= 0 {
		return filepath.Join(parts[:i+1]...)
	}
	return otherwise
}

// node reads the CPU of the whole node.
func (g *groups) node() (*Node, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pods == "" {
		return nil, errNoPods
	}
	// The parts first: the remainder never decreases because of the order.
	n := &Node{}
	var err error
	if n.Pods, err = g.files.cpuTime(g.pods); err != nil {
		return nil, err
	}
	if n.DaemonMemory, err = g.readDaemons(); err != nil {
		return nil, err
	}
	for _, ns := range g.daemons {
		n.Daemons += ns
	}
	if n.CPU, err = g.files.cpuTime("."); err != nil {
		return nil, err
	}
	n.At = now()
	n.Memory, _ = g.files.workingSet(".")
	return n, nil
}

// inotifyFile is the same in every container of a node.
const inotifyFile = "/proc/sys/fs/inotify/max_user_instances"

// maxDaemons bounds the groups beside the pods. Further ones are part of the remainder.
const maxDaemons = 256

// readDaemons reads the groups beside the path from the root to the pods, at each level.
func (g *groups) readDaemons() (memory int64, err error) {
	at := "."
	for part := range strings.SplitSeq(g.pods, string(filepath.Separator)) {
		entries, err := os.ReadDir(filepath.Join(g.files.cpu, at))
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			if !e.IsDir() || e.Name() == part {
				continue
			}
			path := filepath.Join(at, e.Name())
			if _, known := g.daemons[path]; !known && len(g.daemons) >= maxDaemons {
				continue
			}
			if ns, err := g.files.cpuTime(path); err == nil {
				g.daemons[path] = max(ns, g.daemons[path]) // a new group may have the name of a removed one
				held, _ := g.files.workingSet(path)
				memory += held
			}
		}
		at = filepath.Join(at, part)
	}
	return memory, nil
}
