package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// labelListed is the label of pods that the entry's Service selects. Without it a pod goes on serving, so that its answers
// show which proxies still use it.
const labelListed = "tare.dev/listed"

// changer takes endpoints out of the entry's Service, and puts them back.
type changer struct {
	*trial
	pods *trialPods

	mu  sync.Mutex
	out map[string]bool // pods that were taken out
}

// Endpoints implements [platform.Changer]. A pod's answers have its name.
func (c *changer) Endpoints() (all []string) {
	for _, pod := range c.pods.ofService(c.spec.Topology.EntryName()) {
		all = append(all, pod.Name)
	}
	slices.Sort(all)
	return all
}

// Change implements [platform.Changer].
func (c *changer) Change(ctx context.Context, change platform.Change) error {
	if change.Kind != metric.EndpointRemoved && change.Kind != metric.EndpointAdded {
		return fmt.Errorf("%s on a cluster: %w", change.Kind, errors.ErrUnsupported)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range c.Endpoints() {
		out := !slices.Contains(change.Endpoints, name)
		c.mu.Lock()
		is := c.out[name]
		c.mu.Unlock()
		if is != out {
			group.Go(routine.Guarded(func() error { return c.label(ctx, name, out) }))
		}
	}
	return group.Wait()
}

func (c *changer) label(ctx context.Context, pod string, out bool) error {
	value := `"true"`
	if out {
		value = "null"
	}
	_, err := c.cluster.Typed().CoreV1().Pods(c.namespace).Patch(ctx, pod, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, labelListed, value), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("change the label of pod %s: %w", pod, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out == nil {
		c.out = map[string]bool{}
	}
	c.out[pod] = out
	return nil
}
