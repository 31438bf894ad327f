package cluster

import "context"

// WaitReady waits until every object is ready, in order, at most until ctx's deadline (five minutes without one).
// Ready is: a workload with all its replicas updated and available; a pod Ready or succeeded; a Job with all its pods
// ready or done; a namespace active with its default service account; a CustomResourceDefinition established; a
// LoadBalancer with an address; another kind that exists, and whose condition Ready or Available, if it has one, is true.
// report, unless nil, is told what is waited for whenever that changes. The error of a wait that ends in vain is a
// [*NotReady]. In a dry run it records kubectl's command.
func (c *Cluster) WaitReady(ctx context.Context, report func(string), refs ...Ref) error { return nil }

// NotReady says what did not become ready, and why.
type NotReady struct {
	What    string   // "deployment shop/cart: 1 of 3 replicas ready"
	Reasons []string // "pod cart-…: container app: ImagePullBackOff: …", most telling first
	err     error
	hint    string
}

func (e *NotReady) Error() string { return "wait for " + e.What }
func (e *NotReady) Unwrap() error { return e.err }

// Hint says what the user can do.
func (e *NotReady) Hint() string { return e.hint }
