// Package meter reads what tasks have used. A [Meter] reads every task once,
// when it is told to: the runner owns the clock, since cost is the difference of
// cumulative counters at the two edges of the measure phase, each with the time
// of its own reading.
//
// A part that cannot be read is absent from a reading, never zero.
package meter

import (
	"context"
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// Depth says how much is read. Reading costs CPU on the machine that is
// measured, so only what a moment needs is read at it.
type Depth int

const (
	// Counters are CPU time and resident memory: the look once a second.
	Counters Depth = iota
	// Edge adds peak memory and context switches, which take a read per thread.
	Edge
	// Full adds the proportional set size, for which the kernel walks the page
	// tables of the task while it holds its memory map: only once the measure phase is over.
	Full
)

// Look is one look at every task.
type Look struct {
	Tasks map[string]result.Reading // by task ID; At carries a monotonic clock reading where the source has one
	// Missing says why a task is not among Tasks.
	Missing map[string]error
	// Node is the whole machine; nil where it cannot be read, and NodeErr says why.
	Node    *result.NodeReading
	NodeErr error
	// Nodes are the machines one by one, where there is a cluster of them.
	Nodes []Machine
	// NodeCPUs are the processors that Node is the total of; 0: those of this machine.
	NodeCPUs int
	// Gap is why nothing at all could be read just now, by a meter that expects to
	// read again: the counters count on. Nil: something was read.
	Gap error
	// Found are tasks that only the meter knows of: what the nodes burn beside
	// their pods. Their readings are among Tasks.
	Found []platform.Task
}

// Machine is one node of a cluster.
type Machine struct {
	Name              string
	CPUs              int
	AllocatableCPU    float64 // cores that pods may have
	AllocatableMemory int64   // bytes that pods may have
	Reading           result.NodeReading
}

// Meter reads what tasks have used so far.
type Meter interface {
	// Read reads every task, CPU time first. The error says that nothing can be
	// read here at all; it wraps errors.ErrUnsupported where that is so.
	Read(ctx context.Context, tasks []platform.Task, depth Depth) (Look, error)
}

// KubeletRefresh is the longest counter refresh interval of kubelets on most clusters. A plan counts with it:
// the plan must not need a cluster.
const KubeletRefresh = 16 * time.Second
