package local

import (
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
)

// deployed are the deployments of this process, of all its platforms: their processes are its descendants.
var deployed neighbours

// neighbours are the deployments that exist at the same time. Each lists only its own processes.
type neighbours struct {
	mu  sync.Mutex
	all map[*processes]bool
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

func (n *neighbours) enter(ps *processes) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all == nil {
		n.all = map[*processes]bool{}
	}
	n.all[ps] = true
}

// leave is for a removed deployment. It may be called more than once.
func (n *neighbours) leave(ps *processes) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.all, ps)
}

// pids adds the processes of all other deployments, and of no deployment, to a set.
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
	for ps := range n.all {
		if ps == of {
			continue
		}
		ps.mu.Lock()
		for _, p := range ps.started {
			all[p.PID] = true
		}
		ps.mu.Unlock()
	}
}
