package local

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/prometheus/procfs"

	"github.com/tare-mesh/tare/internal/run/platform"
)

// descendant is an unlisted process, with the task of its nearest listed ancestor.
type descendant struct {
	task platform.Task // PID is the descendant's own
	name string
}

// descendants finds the descendants of the known processes, without others and their descendants.
// The function add puts these others into a set: processes from before the listing, and
// processes that started meanwhile.
func descendants(known []platform.Task, add func(others map[int]bool)) ([]descendant, error) {
	others := map[int]bool{}
	add(others)
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	type node struct {
		parent int
		name   string
	}
	tree := map[int]node{}
	for _, p := range all {
		stat, err := p.Stat()
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return nil, fmt.Errorf("read process %d: %w", p.PID, err)
		}
		if stat.State != "Z" {
			tree[p.PID] = node{stat.PPID, stat.Comm}
		}
	}
	add(others)
	tasks := map[int]platform.Task{}
	for _, t := range known {
		tasks[t.PID] = t
	}
	var found []descendant
	for _, p := range all {
		n, alive := tree[p.PID]
		if _, listed := tasks[p.PID]; listed || !alive || others[p.PID] {
			continue
		}
		// At most as many steps as processes: the tree is read while it changes.
		for at, steps := n.parent, 0; at > 1 && !others[at] && steps < len(tree); at, steps = tree[at].parent, steps+1 {
			if ancestor, ok := tasks[at]; ok {
				found = append(found, descendant{platform.Task{Task: ancestor.Task, PID: p.PID, Parent: ancestor.Parent}, n.name})
				break
			}
		}
	}
	return found, nil
}
