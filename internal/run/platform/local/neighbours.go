package local

import (
	"slices"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
)

// deployed are the deployments of this process, of all its platforms: their processes are its descendants.
var deployed neighbours

// neighbours are the deployments that exist at the same time. Each has a slot, for addresses of its
// own, and lists only its own processes.
type neighbours struct {
	mu    sync.Mutex
	slots []*processes // nil: free
	// commands are processes that end by themselves while a deployment is made, such as the bootstrap of a sidecar:
	// tasks of none. A deployment beside it may have listed one that ended since, so each stays for forgotten.
	commands map[*proc.Process]time.Time
}

const forgotten = time.Minute

// start starts a process that ends by itself.
func (n *neighbours) start(start func() (*proc.Process, error)) (*proc.Process, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, err := start()
	if err != nil {
		return nil, err
	}
	if n.commands == nil {
		n.commands = map[*proc.Process]time.Time{}
	}
	n.commands[p] = time.Now()
	return p, nil
}

// enter returns the slot of a new deployment.
func (n *neighbours) enter(ps *processes) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.slots, nil); i >= 0 {
		n.slots[i] = ps
		return i
	}
	n.slots = append(n.slots, ps)
	return len(n.slots) - 1
}

// leave frees the slot of a removed deployment. It may be called more than once.
func (n *neighbours) leave(ps *processes) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.slots, ps); i >= 0 {
		n.slots[i] = nil
	}
}

// pids adds the processes of all other deployments to a set, and those of no deployment.
func (n *neighbours) pids(of *processes, all map[int]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p, started := range n.commands {
		all[p.PID] = true
		select {
		case <-p.Done():
			if time.Since(started) > forgotten {
				delete(n.commands, p)
			}
		default:
		}
	}
	for _, ps := range n.slots {
		if ps == nil || ps == of {
			continue
		}
		ps.mu.Lock()
		for _, p := range ps.started {
			all[p.PID] = true
		}
		ps.mu.Unlock()
	}
}
