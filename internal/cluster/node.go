package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// NodeRead asks a node's kubelet for path ("stats/summary", "metrics/resource") through the API server's node proxy,
// once: whoever meters has a clock of its own and marks a reading that failed as a gap. [IsTransient] tells such a
// gap from a missing right (get on nodes/proxy).
func (c *Cluster) NodeRead(ctx context.Context, node, path string) ([]byte, error) {
	op := fmt.Sprintf("read %s of node %s", path, node)
	if c.DryRun() {
		return nil, fmt.Errorf("%s: %w: nothing is asked in a dry run", op, errors.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	body, err := c.typed.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").
		Suffix(strings.Split(path, "/")...).Do(ctx).Raw()
	return body, c.explained(op, err)
}

// NodeStats is a kubelet's /stats/summary as it came: counters of every container, each with the time it was taken.
func (c *Cluster) NodeStats(ctx context.Context, node string) ([]byte, error) {
	return c.NodeRead(ctx, node, "stats/summary")
}

// NodeMetrics is a kubelet's /metrics/resource as it came, in Prometheus' text format.
func (c *Cluster) NodeMetrics(ctx context.Context, node string) ([]byte, error) {
	return c.NodeRead(ctx, node, "metrics/resource")
}
