package kubecli

import (
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
	// counters; 0: they are read whenever they are asked for.
	refresh func(context.Context) (time.Duration, error)
	// usual is the refresh interval to expect until it is measured.
	usual time.Duration
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
	return clusterMeter{Meter: m, usual: kubelet.Refresh, refresh: func(ctx context.Context) (time.Duration, error) {
		pace, err := m.Probe(ctx)
		return pace.Containers, err
	}}, nil
}

func openMetricsAPI(ctx context.Context, k *cluster.Cluster, _ experiment.Platform) (clusterMeter, error) {
	m, err := metricsapi.Open(ctx, k)
	if err != nil {
		return clusterMeter{}, err
	}
	return clusterMeter{Meter: m, usual: metricsapi.Refresh, refresh: m.Probe}, nil
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
	return clusterMeter{Meter: m, usual: prometheus.Refresh, refresh: m.Probe}, nil
}
