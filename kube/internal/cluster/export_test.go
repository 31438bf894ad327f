package cluster

import (
	"k8s.io/client-go/rest"
)

// New connects by a configuration, such as another user's.
func New(config *rest.Config, name string) (*Cluster, error) { return newCluster(config, name) }

// Explained adds the operation and a hint to an error.
func (c *Cluster) Explained(op string, err error) error { return c.requests.explained(op, err) }
