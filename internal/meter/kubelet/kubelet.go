// Package kubelet reads what the containers of a cluster have used from the
// kubelets of its nodes, through the API server's node proxy.
//
// It reads /metrics/resource: cumulative counters, each with the time of its own
// reading to the millisecond. /stats/summary has the same counters and rounds
// their times to the second, which is 3 % of a measure phase of 30 s. Where a
// kubelet knows its containers by cAdvisor it refreshes them every 10 to 16 seconds
// whoever asks, and a reading that is repeated says nothing new; where it asks the
// container runtime for them they are read as they are asked for. The node's own
// counters are always of the first kind. Native sidecars are containers like the others.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/meter"
	"github.com/tare-mesh/tare/internal/platform"
	"github.com/tare-mesh/tare/internal/result"
)

// Refresh is the longest time between two refreshes of a counter: cAdvisor's
// housekeeping every 10 s, up to 15 s where a container is idle, and a second of jitter.
const Refresh = 16 * time.Second

// Node is one node to read.
type Node struct {
	Name string
	CPUs int
}

// Meter reads containers by the namespace, pod and container of their tasks.
type Meter struct {
	nodes []Node
	// read asks a node's kubelet for /metrics/resource.
	read func(ctx context.Context, node string) ([]byte, error)
}

// New makes the meter of some nodes; read asks one for its /metrics/resource, as
// [cluster.Cluster.NodeMetrics] does.
func New(nodes []Node, read func(ctx context.Context, node string) ([]byte, error)) *Meter {
	return &Meter{nodes: nodes, read: read}
}

var errNotThere = fmt.Errorf("the kubelet does not know the container yet, or no longer: %w", fs.ErrNotExist)

// Read asks all nodes at the same time. Nodes that cannot be reached leave their
// containers unread; where none can be, the look is a gap. Depth changes nothing:
// a kubelet knows CPU and working set, and no more.
func (m *Meter) Read(ctx context.Context, tasks []platform.Task, _ meter.Depth) (meter.Look, error) {
	if len(m.nodes) == 0 {
		return meter.Look{}, fmt.Errorf("read kubelets: the cluster has no nodes: %w", errors.ErrUnsupported)
	}
	samples := make([]resources, len(m.nodes))
	failed := make([]error, len(m.nodes))
	var asking errgroup.Group
	for i, n := range m.nodes {
		asking.Go(func() error {
			body, err := m.read(ctx, n.Name)
			if err == nil {
				samples[i], err = parse(body)
			}
			failed[i] = err
			return nil
		})
	}
	_ = asking.Wait()
	if ctx.Err() != nil {
		return meter.Look{}, context.Cause(ctx)
	}
	look := meter.Look{Tasks: map[string]result.Reading{}, Missing: map[string]error{}, NodeErr: errors.Join(failed...)}
	containers := map[containerKey]result.Reading{}
	answered := 0
	for i, s := range samples {
		if failed[i] == nil {
			answered++
			maps.Copy(containers, s.containers)
		}
	}
	if answered == 0 {
		look.Gap = look.NodeErr
		return look, nil
	}
	for _, t := range tasks {
		r, ok := containers[containerKey{t.Namespace, t.Pod, t.Container}]
		if !ok {
			look.Missing[t.ID] = errors.Join(errNotThere, look.NodeErr)
			continue
		}
		look.Tasks[t.ID] = r
	}
	if look.NodeErr == nil {
		look.Node, look.NodeErr = m.total(samples)
	}
	for _, n := range m.nodes {
		look.NodeCPUs += n.CPUs
	}
	return look, nil
}

// total adds up the nodes; its time is the mean of theirs, so that a difference
// over a difference is the rate of them all.
func (m *Meter) total(samples []resources) (*result.NodeReading, error) {
	var sum result.NodeReading
	first := samples[0].node.At
	var offset time.Duration
	for i, s := range samples {
		if s.node.At.IsZero() {
			return nil, fmt.Errorf("the kubelet of node %s does not tell the node's CPU", m.nodes[i].Name)
		}
		sum.Busy += s.node.CPU
		offset += s.node.At.Sub(first) / time.Duration(len(samples))
	}
	sum.At = first.Add(offset)
	return &sum, nil
}
