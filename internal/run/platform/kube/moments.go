package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/meshes"
)

// moments implements [platform.Moments] of proxies, by the pages in the mesh's definition. Their clocks are those of the nodes, which
// node agents compare with this machine's.
type moments struct {
	*trial
	pods *trialPods
}

// known reports whether proxies have pages of their updates, and the clocks of nodes are compared.
func (m moments) known() bool {
	k := m.spec.Mesh.Kubernetes
	return k != nil && m.options.Agents != nil && slices.ContainsFunc(k.Proxies, func(x mesh.Proxy) bool { return x.In == mesh.InPod && len(x.Updates) > 0 })
}

// ControlMoments implements [platform.Moments]: the histograms of [controlTimes] have no instants.
func (moments) ControlMoments(context.Context) ([]mesh.ControlMoment, error) { return nil, nil }

// ProxyUpdates implements [platform.Moments]: of the proxies that requests of the load pass in the direction of each page.
func (m moments) ProxyUpdates(ctx context.Context) (map[string][]time.Time, error) {
	var mu sync.Mutex
	all := map[string][]time.Time{}
	group, ctx := errgroup.WithContext(ctx)
	for _, x := range m.spec.Mesh.Kubernetes.Proxies {
		if x.In != mesh.InPod {
			continue
		}
		for _, u := range x.Updates {
			service := loadService
			if u.Direction == mesh.WayIn {
				service = m.spec.Topology.EntryName()
			}
			for _, pod := range m.pods.ofService(service) {
				if !slices.ContainsFunc(containerNames(pod), func(name string) bool { return mesh.Match(x.Container, name) }) {
					continue
				}
				group.Go(routine.Guarded(func() error {
					ahead, _, has := m.options.Agents.Clock(pod.Spec.NodeName)
					if !has {
						return fmt.Errorf("the clock of node %s is not compared", pod.Spec.NodeName)
					}
					times, err := meshes.UpdateTimes(ctx, m.cluster, u, pod)
					mu.Lock()
					defer mu.Unlock()
					for _, at := range times {
						all[m.pods.name(pod)] = append(all[m.pods.name(pod)], at.Add(-ahead))
					}
					return err
				}))
			}
		}
	}
	return all, group.Wait()
}
