package kubelet

import (
	"context"
	"errors"

	"github.com/tare-mesh/tare/internal/cluster"
)

// Node is one node to read.
type Node struct {
	Name string
	CPUs int
}

// New makes a meter that knows no more than a function that asks a node for its
// /metrics/resource: CPU and working set. [Open] has all there is.
func New(nodes []Node, read func(ctx context.Context, node string) ([]byte, error)) *Meter {
	machines := make([]cluster.Machine, len(nodes))
	for i, n := range nodes {
		machines[i] = cluster.Machine{Name: n.Name, CPUs: n.CPUs}
	}
	return Of(plain(read), machines)
}

type plain func(ctx context.Context, node string) ([]byte, error)

func (p plain) NodeRead(ctx context.Context, node, path string) ([]byte, error) {
	if path != resourcePath {
		return nil, errors.ErrUnsupported
	}
	return p(ctx, node)
}

func (plain) Containers(context.Context, string) ([]cluster.Container, error) {
	return nil, errors.ErrUnsupported
}
