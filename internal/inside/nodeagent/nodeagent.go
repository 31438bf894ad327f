// Package nodeagent reads the control groups of a node's containers for tare. The
// [Server] runs in a pod on each node and listens on the loopback address only. It
// has a read-only view of the control-group file system, requires a token, and runs
// no command. The [Client] calls it through a forwarded connection.
package nodeagent

import "github.com/tare-mesh/tare/internal/base/clock"

// Bounds of requests.
const (
	// maxContainers of one request. A node has 110 pods by default.
	maxContainers = 2000
	// maxRequest bounds the body of a request, bytes.
	maxRequest = 2 << 20
)

// Counters of one container. Cumulative values begin with the container.
type Counters struct {
	At  int64 `json:"at"`  // ns since 1970, of the agent's clock
	CPU int64 `json:"cpu"` // ns
	// Memory is the working set, as the kubelet computes it: usage without the inactive page cache, in
	// bytes.
	Memory int64 `json:"memory,omitempty"`
	// Peak is the maximum memory, page cache included, in bytes, 0 if unknown.
	Peak int64 `json:"peak,omitempty"`
	// Throttled is the time of CPU throttling, ns, absent if unknown.
	Throttled *int64 `json:"throttled,omitempty"`
	// Periods are the periods of the CPU limit in which it wanted CPU, and Reached those in which it reached the limit.
	Periods *int64 `json:"periods,omitempty"`
	Reached *int64 `json:"reached,omitempty"`
}

// Node is the CPU time of the whole node, divided by control group.
type Node struct {
	At  int64 `json:"at"`  // ns since 1970, of the agent's clock
	CPU int64 `json:"cpu"` // of everything, ns
	// Pods is the CPU of all pods, ended ones included.
	Pods int64 `json:"pods"`
	// Daemons is the CPU of the control groups beside the pods: kubelet, container runtime, sshd.
	Daemons int64 `json:"daemons"`
	// DaemonMemory is their working set, bytes.
	DaemonMemory int64 `json:"daemonMemory,omitempty"`
	// Memory is the working set of everything, bytes, 0 if unknown.
	Memory int64 `json:"memory,omitempty"`
	// Inotify is how many inotify instances a user may have (fs.inotify.max_user_instances), 0 if unknown.
	Inotify int64 `json:"inotify,omitempty"`
}

// Kernel is the CPU outside all control groups: kernel threads, and processes without a group.
func (n Node) Kernel() int64 { return n.CPU - n.Pods - n.Daemons }

// Query names the containers to read, by the container runtime's ID.
type Query struct {
	IDs []string `json:"ids"`
	// Memory adds memory, its peak and throttling to CPU time.
	Memory bool `json:"memory,omitempty"`
}

// Reading is the response to a [Query].
type Reading struct {
	// Clock are the times of the request and of the response.
	Clock      clock.Stamps        `json:"clock"`
	Containers map[string]Counters `json:"containers"`
	// Missing has the reason for each container without counters.
	Missing map[string]string `json:"missing,omitempty"`
	Node    *Node             `json:"node,omitempty"` // absent: unknown, with the reason in NodeError
	NodeErr string            `json:"nodeError,omitempty"`
}
