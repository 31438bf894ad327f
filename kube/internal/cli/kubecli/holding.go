package kubecli

import (
	"context"
	"errors"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
)

// holding changes the cluster while no run measures there: it holds the cluster's Lease. Without permission for Leases
// it changes the cluster without one, as runs do.
func holding(ctx context.Context, c *cli.CommandLine, k *cluster.Cluster, as string, change func() error) error {
	defer c.WhileInterrupted(nil, cli.Undoing)()
	lease := guard.NewLease(k, as, "")
	if err := lease.Acquire(ctx); err != nil && !cluster.IsForbidden(err) {
		return err
	}
	err := change()
	return errors.Join(err, lease.Release(context.WithoutCancel(ctx)))
}
