package meshes

import (
	"context"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/scrape"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// ControlTimes reads what the pods of a control plane count of their stages. A histogram that a pod lacks is absent.
func ControlTimes(ctx context.Context, c *cluster.Cluster, k mesh.Kubernetes) (all []mesh.CountedTime, err error) {
	r := podReader{c}
	pods, err := r.list(ctx, k.Namespace)
	if err != nil {
		return nil, err
	}
	for _, p := range pods {
		pages := map[string][]scrape.Sample{}
		for _, t := range k.ControlTimes {
			if !t.Selects(p.Labels) {
				continue
			}
			page, err := r.page(ctx, pages, t.Port, t.Path, p)
			if err != nil {
				return nil, err
			}
			if counted, has := histogram(page, t.Metric, t.Scale()); has {
				counted.Stage, counted.Instance = t.Stage, string(p.UID)+restarts(p)
				all = append(all, counted)
			}
		}
	}
	return all, nil
}

// restarts distinguishes the processes of a pod.
func restarts(p *corev1.Pod) (all string) {
	for _, s := range p.Status.ContainerStatuses {
		all += "." + strconv.Itoa(int(s.RestartCount))
	}
	return all
}

// histogram returns the histogram of a family, over all of its labels. scale is its unit in seconds.
func histogram(page []scrape.Sample, name string, scale float64) (t mesh.CountedTime, has bool) {
	t.Within = map[float64]int64{}
	for _, s := range page {
		switch s.Name {
		case name + "_count":
			t.Count += int64(s.Value)
			has = true
		case name + "_sum":
			t.Seconds += scale * s.Value
		case name + "_bucket":
			if bound, err := strconv.ParseFloat(s.Labels["le"], 64); err == nil && !math.IsInf(bound, 0) {
				t.Within[scale*bound] += int64(s.Value)
			}
		}
	}
	return t, has
}
