package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/load/host"
)

const (
	// MaxInstants of one [Plan]: an hour and a half of slices of 100 ms.
	MaxInstants = 1 << 16
	// maxReadings bounds instants times containers, of 8 bytes each.
	maxReadings = 1 << 22
	// maxAhead bounds the wait for the first instant.
	maxAhead = time.Hour
)

// Plan lists instants at which the agent reads CPU times by itself.
type Plan struct {
	// ID is the caller's name of the plan. A second start with the same ID has no effect.
	ID  string   `json:"id"`
	IDs []string `json:"ids"` // of containers
	// At are the instants, ascending, in ns since 1970 of the agent's clock.
	At []int64 `json:"at"`
}

// Instant is the reading of all containers of a plan.
type Instant struct {
	At int64 `json:"at"` // when it began, ns since 1970
	// Took is the time of the reading, ns.
	Took int64 `json:"took"`
	// CPU is in the order of the plan's containers, ns, [Unread] if it could not be read.
	CPU []int64 `json:"cpu"`
	// Node is in the order CPU, Pods, Daemons of [Node], ns, absent if unknown.
	Node []int64 `json:"node,omitempty"`
}

// Unread is the CPU time of a container that could not be read.
const Unread = -1

// Progress has the instants of a plan from an index on, as far as they were read.
type Progress struct {
	ID       string    `json:"id"`
	Instants []Instant `json:"instants"`
	Done     bool      `json:"done"` // no more follow
}

func (p Plan) validate(at time.Time) error {
	switch {
	case p.ID == "" || len(p.ID) > 64:
		return errors.New("the plan has no ID of at most 64 characters")
	case len(p.IDs) == 0 || len(p.IDs) > maxContainers:
		return fmt.Errorf("%d containers are not between 1 and %d", len(p.IDs), maxContainers)
	case len(p.At) == 0 || len(p.At) > MaxInstants:
		return fmt.Errorf("%d instants are not between 1 and %d", len(p.At), MaxInstants)
	case len(p.At)*len(p.IDs) > maxReadings:
		return fmt.Errorf("%d instants of %d containers are more than %d readings", len(p.At), len(p.IDs), maxReadings)
	case !slices.IsSorted(p.At):
		return errors.New("the instants are not ascending")
	case time.Unix(0, p.At[len(p.At)-1]).Before(at):
		return errors.New("all instants are in the past")
	case time.Unix(0, p.At[0]).After(at.Add(maxAhead)):
		return fmt.Errorf("the first instant is more than %v ahead", maxAhead)
	}
	return nil
}

// follower carries out one plan.
type follower struct {
	plan   Plan
	groups *groups
	open   []*os.File // nil: the group was not found

	mu   sync.Mutex
	read []Instant
	done bool
}

// follow opens the files of a plan and starts to read.
func follow(ctx context.Context, g *groups, p Plan) *follower {
	f := &follower{plan: p, groups: g, open: make([]*os.File, len(p.IDs))}
	paths, missing := g.find(p.IDs)
	for i, id := range p.IDs {
		if missing[id] != nil {
			continue
		}
		file, err := os.Open(g.files.cpuFile(paths[id]))
		if err != nil {
			continue // Unread in every instant
		}
		f.open[i] = file
	}
	go f.run(ctx)
	return f
}

// run is one thread that sleeps between the instants.
func (f *follower) run(ctx context.Context) {
	defer func() {
		for _, file := range f.open {
			if file != nil {
				_ = file.Close()
			}
		}
		f.mu.Lock()
		f.done = true
		f.mu.Unlock()
	}()
	host.LockPunctual()
	for _, at := range f.plan.At {
		if host.SleepUntil(ctx, time.Unix(0, at)) != nil {
			return
		}
		one := f.instant()
		f.mu.Lock()
		f.read = append(f.read, one)
		f.mu.Unlock()
	}
}

// instant reads all containers, then the node.
func (f *follower) instant() Instant {
	one := Instant{At: now(), CPU: make([]int64, len(f.open))}
	var buffer [4 << 10]byte
	for i, file := range f.open {
		one.CPU[i] = Unread
		if file == nil {
			continue
		}
		n, _ := file.ReadAt(buffer[:], 0) // io.EOF after a short file
		if ns, err := f.groups.files.parseCPU(buffer[:n]); err == nil && n > 0 {
			one.CPU[i] = ns
		}
	}
	one.Took = now() - one.At
	if n, err := f.groups.node(); err == nil {
		one.Node = []int64{n.CPU, n.Pods, n.Daemons}
	}
	return one
}

// maxPage bounds the instants of one response.
const maxPage = 2000

// progress returns the instants from an index on.
func (f *follower) progress(from int) Progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	from = min(max(from, 0), len(f.read))
	until := min(len(f.read), from+maxPage)
	return Progress{ID: f.plan.ID, Instants: slices.Clone(f.read[from:until]), Done: f.done && until == len(f.read)}
}
