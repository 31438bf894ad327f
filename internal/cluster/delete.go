package cluster

import "context"

// Delete deletes objects and waits until they are gone, what hangs on them included, at most until ctx's deadline
// (two minutes without one). What is not there is no error. report, unless nil, is told what is waited for. A
// namespace that does not go is explained: what is left in it, and whose finalizers hold it ([*NotReady]). In a dry
// run it records kubectl's command.
func (c *Cluster) Delete(ctx context.Context, report func(string), refs ...Ref) error { return nil }
