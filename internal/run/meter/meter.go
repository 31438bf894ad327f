// Package meter reads the usage of tasks. A [Meter] reads every task once when it is
// called. The runner chooses the times: cost is the difference of cumulative counters
// at the two edges of the measure phase, each with the time of its own reading.
//
// A value that cannot be read is absent, never zero.
package meter

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// Depth is the amount of data in a reading. Reading costs CPU on the measured machine, so each
// reading has only the necessary data.
type Depth int

const (
	// Clocks are CPU times alone, where the meter can read them apart: the reading at the edges of
	// slices.
	Clocks Depth = iota - 1
	// Counters are CPU time and resident memory: the reading once a second.
	Counters
	// Edge adds peak memory and context switches. They need a read per thread.
	Edge
	// Full adds the proportional set size. The kernel walks the task's page tables with
	// its memory map locked, so it is read only after the measure phase.
	Full
)

// Look is one reading of every task.
type Look struct {
	Tasks map[string]result.Reading // by task ID. At has a monotonic clock reading if the source has one
	// Missing has the reason for each task missing from Tasks.
	Missing map[string]error
	// Node is the whole machine; nil if it cannot be read, with the reason in NodeErr.
	Node    *result.NodeReading
	NodeErr error
	// Nodes are the machines of a cluster.
	Nodes []Machine
	// NodeCPUs is the number of processors in Node, or 0 for the processors of this machine.
	NodeCPUs int
	// Gap is the reason for a reading without data, from a meter whose later readings
	// may succeed. Counters are cumulative. nil: there are data.
	Gap error
	// Found are tasks that only the meter lists: the nodes' own work outside pods.
	// Their readings are in Tasks.
	Found []platform.Task
}

// NewLook returns a reading without any task.
func NewLook() Look {
	return Look{Tasks: map[string]result.Reading{}, Missing: map[string]error{}}
}

// AddNodeTask adds a task of a node outside its pods.
func (l *Look) AddNodeTask(node, name, role string, r result.Reading) {
	t := platform.Task{Task: mesh.Task{ID: node + "/" + name, Pod: node, Container: name, Plane: metric.Node, Role: role}}
	l.Found = append(l.Found, t)
	l.Tasks[t.ID] = r
}

// Container names a container of a cluster.
type Container struct{ Namespace, Pod, Name string }

// ContainerOf returns the container of a task. It has no namespace for the nodes' own tasks.
func ContainerOf(t platform.Task) Container { return Container{t.Namespace, t.Pod, t.Container} }

// Namespaces lists the namespaces with tasks.
func Namespaces(tasks []platform.Task) (all []string) {
	for _, t := range tasks {
		if t.Namespace != "" {
			all = lists.Add(all, t.Namespace)
		}
	}
	return all
}

// Machine is one node of a cluster.
type Machine struct {
	Name              string
	CPUs              int
	AllocatableCPU    float64 // cores for pods
	AllocatableMemory int64   // bytes for pods
	Reading           result.NodeReading
}

// Meter reads the usage of tasks since their start.
type Meter interface {
	// Read reads every task, CPU time first. An error means that no task can be read
	// here. If it never can, the error wraps errors.ErrUnsupported.
	Read(ctx context.Context, tasks []platform.Task, depth Depth) (Look, error)
	// Follower returns the plans of readings of these tasks, nil if the meter is read at each
	// instant. A meter that wraps another returns the other's plans.
	Follower() Follower
}

// Busy is a meter of this machine, which reads its total apart.
type Busy interface {
	// Busy is the CPU time of the machine since boot without idle time, ns.
	Busy() (int64, error)
}

// KubeletRefresh is the longest counter refresh interval of kubelets on most clusters. A plan counts with it:
// the plan must not need a cluster.
const KubeletRefresh = 16 * time.Second

// Kills counts the OOM kills of a container. The API server reports the last one only, so of
// several between two readings one is counted. The zero value is a container not seen before.
type Kills struct {
	known          bool
	restarts, seen int
}

// After returns the count after a reading of the container's state.
func (k Kills) After(restarts int, oomKilled bool) Kills {
	if oomKilled && (!k.known || restarts > k.restarts || k.seen == 0) {
		k.seen++
	}
	k.known, k.restarts = true, restarts
	return k
}

// Seen is the number of OOM kills.
func (k Kills) Seen() int { return k.seen }

// AddTotal adds the sum of the nodes, if there are as many as wanted. Its time is the mean of theirs, so that a
// difference over a difference is the rate of all nodes.
func (l *Look) AddTotal(wanted int) {
	if len(l.Nodes) == 0 || len(l.Nodes) != wanted {
		return
	}
	first := l.Nodes[0].Reading.At
	var offset time.Duration
	l.Node = &result.NodeReading{}
	for _, n := range l.Nodes {
		l.Node.Busy += n.Reading.Busy
		l.Node.Memory += n.Reading.Memory
		offset += n.Reading.At.Sub(first) / time.Duration(len(l.Nodes))
	}
	l.Node.At = first.Add(offset)
}

// Follower reads CPU times by itself at planned instants, where the tasks are.
type Follower interface {
	// Follow plans readings of several groups of tasks, at instants in ascending order.
	Follow(ctx context.Context, groups [][]platform.Task, at []time.Time) (Following, error)
}

// Following is a plan in progress.
type Following interface {
	// Next returns the instants read since the last call, oldest first. It waits about a second if there
	// are none. done: no more follow.
	Next(ctx context.Context) (read []Instant, done bool, err error)
}

// Instant is one reading of all groups.
type Instant struct {
	At    time.Time // when it began
	Looks []Look    // of the groups
}

// Combine reads processes of this machine with local, and all other tasks with cluster. Totals are
// the sums over the cluster's machines.
func Combine(cluster, local Meter) Meter { return combined{cluster, local} }

type combined struct{ cluster, local Meter }

// Read implements [Meter]. This machine is first: its reading takes no time.
func (c combined) Read(ctx context.Context, tasks []platform.Task, depth Depth) (Look, error) {
	own, others := splitLocal(tasks)
	if own == nil {
		return c.cluster.Read(ctx, tasks, depth)
	}
	local, err := c.local.Read(ctx, own, depth)
	look, failed := c.cluster.Read(ctx, others, depth)
	if err := errors.Join(err, failed); err != nil {
		return Look{}, err
	}
	return look.merge(local), nil
}

// splitLocal separates the processes of this machine from other tasks.
func splitLocal(tasks []platform.Task) (own, others []platform.Task) {
	for _, t := range tasks {
		if t.PID != 0 {
			own = append(own, t)
		} else {
			others = append(others, t)
		}
	}
	return own, others
}

// merge adds the tasks of a reading of this machine.
func (l Look) merge(local Look) Look {
	l.Tasks, l.Missing = joined(local.Tasks, l.Tasks), joined(local.Missing, l.Missing)
	return l
}

func (c combined) Follower() Follower {
	if f := c.cluster.Follower(); f != nil {
		return combinedFollower{f, c.local}
	}
	return nil
}

type combinedFollower struct {
	cluster Follower
	local   Meter
}

// Follow implements [Follower]. It reads the processes of this machine at the same instants.
func (c combinedFollower) Follow(ctx context.Context, groups [][]platform.Task, at []time.Time) (Following, error) {
	own, others := make([][]platform.Task, len(groups)), make([][]platform.Task, len(groups))
	for i, tasks := range groups {
		own[i], others[i] = splitLocal(tasks)
	}
	cluster, err := c.cluster.Follow(ctx, others, at)
	if err != nil || !slices.ContainsFunc(own, func(tasks []platform.Task) bool { return len(tasks) > 0 }) {
		return cluster, err
	}
	f := &combinedFollowing{cluster: cluster, local: make(chan localReading, len(at))}
	go routine.Guarded(func() {
		for _, due := range at {
			if wait.For(ctx, time.Until(due)) != nil {
				return
			}
			var one localReading
			for _, tasks := range own {
				var look Look
				if len(tasks) > 0 {
					var err error
					look, err = c.local.Read(ctx, tasks, Clocks)
					one.err = errors.Join(one.err, err)
				}
				one.looks = append(one.looks, look)
			}
			f.local <- one
		}
	})()
	return f, nil
}

// localReading is a reading of all groups' processes of this machine.
type localReading struct {
	looks []Look
	err   error
}

// combinedFollowing joins the instants of both meters.
type combinedFollowing struct {
	cluster Following
	local   chan localReading
}

func (f *combinedFollowing) Next(ctx context.Context) (read []Instant, done bool, err error) {
	read, done, err = f.cluster.Next(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, one := range read {
		select {
		case local := <-f.local:
			if local.err != nil {
				return nil, false, local.err
			}
			for i := range one.Looks {
				one.Looks[i] = one.Looks[i].merge(local.looks[i])
			}
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
	return read, done, nil
}

func joined[V any](a, b map[string]V) map[string]V {
	all := make(map[string]V, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
