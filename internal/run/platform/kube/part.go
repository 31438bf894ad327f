package kube

import (
	"context"
	"fmt"
	"math"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/kube/meshes"
	"github.com/tare-mesh/tare/internal/load/loadgen"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// parts says of each service that a request at the entry reaches, and of the load, what goes in and out of it. Calls
// that may not be made are left out: nothing can be demanded of them. A gateway that the load comes through is of the mesh.
func parts(s platform.Spec, loadInside, gateway bool) map[string]meshes.PodTraffic {
	all := map[string]meshes.PodTraffic{}
	var reach func(name string, from meshes.Traffic)
	reach = func(name string, in meshes.Traffic) {
		p, before := all[name]
		of, ok := s.Topology.Service(name)
		if !ok {
			return
		}
		p.In = meshes.Traffic{Some: true, Inside: p.In.Inside || in.Inside, HTTP: in.HTTP}
		all[name] = p
		if before {
			return
		}
		for _, c := range of.Calls {
			callee, ok := s.Topology.Service(c.Service)
			if !ok || c.Probability != nil && *c.Probability < 1 {
				continue
			}
			out := meshes.Traffic{Some: true, Inside: true, HTTP: s.Protocol(callee) != app.TCP}
			reach(c.Service, out)
			p := all[name]
			p.Out = meshes.Traffic{Some: true, Inside: true, HTTP: p.Out.HTTP || out.HTTP}
			all[name] = p
		}
	}
	entry := s.Entry()
	load := meshes.Traffic{Some: true, Inside: loadInside || gateway, HTTP: s.Protocol(entry) != app.TCP}
	reach(entry.Name, load)
	if loadInside {
		all[loadService] = meshes.PodTraffic{Out: load}
	}
	return all
}

// part is that of one pod.
func (d *deployment) part(pod *corev1.Pod) meshes.PodTraffic {
	return parts(d.spec, d.enrolment.loadInside, d.enrolment.front != nil)[d.serviceOf(pod)]
}

// widest is the number of pods of the service that has most, or of a waypoint or gateway.
func (d *deployment) widest() int {
	count, most := map[string]int{}, max(1, d.enrolment.Replicas)
	for _, pod := range d.own() {
		if service := d.serviceOf(pod); service != "" && service != loadService {
			count[service]++
			most = max(most, count[service])
		}
	}
	return most
}

// reaching is a number of requests, or of connections, that leaves out one of n replicas with a probability below a
// thousandth where each goes to one of them at random: n (ln n + 7), after Erdős and Rényi's law of the coupon collector.
func reaching(n int) int {
	return int(math.Ceil(float64(n) * (math.Log(float64(n)) + 7)))
}

// mostConnections that the probes open, and mostReaching requests that each worker sends of them.
const (
	mostConnections = 256
	mostReaching    = 5000
)

// answered sends probes from every load worker, so many that each replica is reached, and says how many were answered.
func (d *deployment) answered(ctx context.Context) (int, error) {
	n := min(max(probes, reaching(d.widest())), mostReaching)
	if d.platform.options.Outside {
		return all(d.probeBy(ctx, n, func(cmd proc.Command) (platform.Process, error) { return d.StartLoad(ctx, cmd) }))
	}
	reports := make([]loadgen.Report, len(d.workers))
	var sending errgroup.Group
	for i := range d.workers {
		sending.Go(func() (err error) {
			reports[i], err = d.probesOf(ctx, i, n)
			return err
		})
	}
	if err := sending.Wait(); err != nil {
		return 0, err
	}
	sum := 0
	for i, r := range reports {
		answered, err := all(r, nil)
		if err != nil {
			return sum, fmt.Errorf("load worker %d: %w", i, err)
		}
		sum += answered
	}
	return sum, nil
}

// all is how many were answered, where all were.
func all(r loadgen.Report, err error) (int, error) {
	if err == nil && r.Classes[loadgen.OK] < r.Requests {
		err = fmt.Errorf("of %d probes %d were answered; the others: %s", r.Requests, r.Classes[loadgen.OK], others(r))
	}
	return int(r.Classes[loadgen.OK]), err
}
