package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// moments implements [platform.Moments] of proxies, by the pages in the mesh's definition. A proxy has the clock of its node, which the
// node agent compares with this machine's.
type moments struct {
	*trial
	pods  *trialPods
	clock func(node string) (ahead, unsure time.Duration, ok bool)                                // [agents.Agents.Clock], nil without agents
	read  func(context.Context, *cluster.Cluster, mesh.Updates, *corev1.Pod) ([]time.Time, error) // [meshes.UpdateTimes]
}

func newMoments(t *trial, pods *trialPods) moments {
	m := moments{trial: t, pods: pods, read: meshes.UpdateTimes}
	if t.options.Agents != nil {
		m.clock = t.options.Agents.Clock
	}
	return m
}

// known reports whether proxies have pages of their updates, and the clocks of nodes are compared.
func (m moments) known() bool {
	k := m.spec.Mesh.Kubernetes
	return k != nil && m.clock != nil && slices.ContainsFunc(k.Proxies, func(x mesh.Proxy) bool { return x.In == mesh.InPod && len(x.Updates) > 0 })
}

// ControlMoments implements [platform.Moments]: the histograms of [trial.ControlTimes] have no instants.
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
					ahead, _, has := m.clock(pod.Spec.NodeName)
					if !has {
						return fmt.Errorf("the clock of node %s is not compared", pod.Spec.NodeName)
					}
					times, err := m.read(ctx, m.cluster, u, pod)
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
