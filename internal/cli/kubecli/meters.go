package kubecli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/meter/kubelet"
	"github.com/tare-mesh/tare/internal/run/meter/metricsapi"
	"github.com/tare-mesh/tare/internal/run/meter/prometheus"
)

// openers open each meter of a cluster, by its name.
var openers = map[string]func(context.Context, *cluster.Cluster, experiment.Platform) (clusterMeter, error){
	cli.MeterKubelet:    openKubelets,
	cli.MeterMetricsAPI: openMetricsAPI,
	cli.MeterPrometheus: openPrometheus,
}

// clusterMeter is a meter, with its refresh interval.
type clusterMeter struct {
	meter.Meter
	name string
	// refresh measures the longest time between two refreshes of a container's
	// counters, 0 if they are current, and of the nodes' own, 0 if there are none.
	refresh func(context.Context) (containers, nodes time.Duration, err error)
	// usual is the refresh interval to expect until it is measured, usualNode that of the nodes' own counters.
	usual, usualNode time.Duration
	// note is the reason why this is not the preferred meter; empty: it is, or the experiment names it.
	note string
}

// openMeter opens the meter that the experiment names. Where it names none it is
// the kubelets, unless they may not be asked.
func openMeter(ctx context.Context, k *cluster.Cluster, p experiment.Platform) (clusterMeter, error) {
	if open, ok := openers[p.Meter]; ok {
		m, err := open(ctx, k, p)
		m.name = p.Meter
		return m, err
	}
	m, err := openKubelets(ctx, k, p)
	m.name = cli.MeterKubelet
	if !cluster.IsForbidden(err) {
		return m, err
	}
	refused := err
	if m, err = openMetricsAPI(ctx, k, p); err != nil {
		return m, fmt.Errorf("%w; and instead of the kubelets: %w", refused, err)
	}
	m.name = cli.MeterMetricsAPI
	m.note = fmt.Sprintf("CPU and memory come from the averages of the Metrics API: the kubelets may not be asked (%v)", refused)
	return m, nil
}

func openKubelets(ctx context.Context, k *cluster.Cluster, _ experiment.Platform) (clusterMeter, error) {
	m, err := kubelet.Open(ctx, k)
	if err != nil {
		return clusterMeter{}, err
	}
	if err := m.Check(ctx); err != nil {
		return clusterMeter{}, err
	}
	return clusterMeter{Meter: m, usual: kubelet.Refresh, usualNode: kubelet.Refresh, refresh: func(ctx context.Context) (containers, nodes time.Duration, err error) {
		pace, err := m.Probe(ctx)
		// A probe of current counters takes five seconds, in which those of a node may not be refreshed.
		return pace.Containers, cmp.Or(pace.Node, kubelet.Refresh), err
	}}, nil
}

// podsOnly is the probe of a meter that reads pods, and nothing of nodes outside them.
func podsOnly(probe func(context.Context) (time.Duration, error)) func(context.Context) (containers, nodes time.Duration, err error) {
	return func(ctx context.Context) (containers, nodes time.Duration, err error) {
		containers, err = probe(ctx)
		return containers, 0, err
	}
}

func openMetricsAPI(ctx context.Context, k *cluster.Cluster, _ experiment.Platform) (clusterMeter, error) {
	m, err := metricsapi.Open(ctx, k)
	if err != nil {
		return clusterMeter{}, err
	}
	return clusterMeter{Meter: m, usual: metricsapi.Refresh, refresh: podsOnly(m.Probe)}, nil
}

func openPrometheus(ctx context.Context, k *cluster.Cluster, p experiment.Platform) (clusterMeter, error) {
	nodes, err := k.Nodes(ctx)
	if err != nil && !cluster.IsForbidden(err) {
		return clusterMeter{}, err
	}
	m, err := prometheus.New(p.Prometheus, nodes)
	if err != nil {
		return clusterMeter{}, err
	}
	return clusterMeter{Meter: m, usual: prometheus.Refresh, refresh: podsOnly(m.Probe)}, nil
}
