package local

import (
	"context"
	"slices"

	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/metric"
)

// prober implements [platform.Deployment.Probe].
type prober struct{ cpus map[string]string } // pinned, by plane

// Probe implements [platform.Deployment.Probe] in this process. It runs on the processors of application and
// data plane, or on all if one of them is not pinned.
func (p prober) Probe(ctx context.Context) (probe.Reading, error) {
	cpus, err := probedCPUs(p.cpus)
	if err != nil {
		return probe.Reading{}, err
	}
	return probe.Local{CPUs: cpus}.Probe(ctx)
}

func probedCPUs(pinned map[string]string) ([]int, error) {
	var all []int
	for _, plane := range []metric.Plane{metric.App, metric.Data} {
		list := pinned[string(plane)]
		if list == "" {
			return nil, nil
		}
		cpus, err := proc.ParseCPUs(list)
		if err != nil {
			return nil, err
		}
		all = append(all, cpus...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
