package cluster

import "context"

// Leftover is what one run has in the cluster.
type Leftover struct {
	Run     string
	Owner   Owner
	Objects []Ref // namespaces first, then what has no namespace, then what lies in a namespace that is not tare's
}

// Leftovers lists what runs have in the cluster, living ones included; see [Leftover.State].
func (c *Cluster) Leftovers(ctx context.Context) ([]Leftover, error) { return nil, nil }

// SweepDead removes what runs left behind whose process on this machine is dead, and returns what it removed. Runs
// that live, and those of other machines, are left alone. In a dry run it does nothing.
func (c *Cluster) SweepDead(ctx context.Context, report func(string)) ([]Leftover, error) {
	return nil, nil
}
