package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// NodeRead asks a node's kubelet for path ("stats/summary?only_cpu_and_memory=true", "metrics/resource") through the API
// server's node proxy, once: whoever meters has a clock of its own and marks a reading that failed as a gap.
// [IsTransient] tells such a gap from a missing right (get on nodes/proxy).
func (c *Cluster) NodeRead(ctx context.Context, node, path string) ([]byte, error) {
	op := fmt.Sprintf("read %s of node %s", path, node)
	if c.DryRun() {
		return nil, fmt.Errorf("%s: %w: nothing is asked in a dry run", op, errors.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	path, query, _ := strings.Cut(path, "?")
	request := c.typed.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix(strings.Split(path, "/")...)
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	for name, values := range parameters {
		for _, v := range values {
			request = request.Param(name, v)
		}
	}
	body, err := request.Do(ctx).Raw()
	return body, c.explained(op, err)
}

// Raw asks the API server for an absolute path once, as [Cluster.NodeRead] asks a kubelet:
// "/apis/metrics.k8s.io/v1beta1/nodes", say.
func (c *Cluster) Raw(ctx context.Context, path string) ([]byte, error) {
	op := "read " + path
	if c.DryRun() {
		return nil, fmt.Errorf("%s: %w: nothing is asked in a dry run", op, errors.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	body, err := c.typed.CoreV1().RESTClient().Get().AbsPath(path).Do(ctx).Raw()
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
