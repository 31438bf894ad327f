package cluster

import (
	"context"
	"net"
)

// Forward leads to one port of a pod through the API server, as kubectl port-forward does: the connection ends inside
// the pod's network namespace at 127.0.0.1, beside any mesh.
type Forward struct{}

// Forward prepares connections to a port of a pod. Nothing is opened yet.
func (c *Cluster) Forward(namespace, pod string, port int) *Forward { return &Forward{} }

// DialContext opens a connection; it fits http.Transport, network and address are not looked at. It tries again until
// ctx ends while the API server or the pod's container is away, and a connection that breaks is not mended: dial again.
func (f *Forward) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return nil, nil
}

// Listen accepts connections on a port of 127.0.0.1 that the kernel chooses, and forwards each; it ends with Close.
func (f *Forward) Listen() (address string, err error) { return "", nil }

// Close ends every connection.
func (f *Forward) Close() error { return nil }
