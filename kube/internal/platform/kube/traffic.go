package kube

import (
	"math"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// trafficByService is the traffic of every service that a request at the entry reaches, and of the load. Calls with a
// probability below 1 are left out: they may not happen. A gateway in front of the entry is part of the mesh.
func trafficByService(s platform.Spec, loadInside, gateway bool) map[string]meshes.PodTraffic {
	all := map[string]meshes.PodTraffic{}
	var visit func(name string, in meshes.Traffic)
	visit = func(name string, in meshes.Traffic) {
		t, visited := all[name]
		service, ok := s.Topology.Service(name)
		if !ok {
			return
		}
		t.In = meshes.Traffic{Some: true, Inside: t.In.Inside || in.Inside, HTTP: in.HTTP}
		all[name] = t
		if visited {
			return
		}
		for _, c := range service.Calls {
			callee, ok := s.Topology.Service(c.Service)
			if !ok || c.Probability != nil && *c.Probability < 1 {
				continue
			}
			out := meshes.Traffic{Some: true, Inside: true, HTTP: s.Protocol(callee) != app.TCP}
			visit(c.Service, out)
			t := all[name]
			t.Out = meshes.Traffic{Some: true, Inside: true, HTTP: t.Out.HTTP || out.HTTP}
			all[name] = t
		}
	}
	entry := s.Entry()
	load := meshes.Traffic{Some: true, Inside: loadInside || gateway, HTTP: s.Protocol(entry) != app.TCP}
	visit(entry.Name, load)
	if loadInside {
		all[loadService] = meshes.PodTraffic{Out: load}
	}
	return all
}

// requestsToReach is the number of requests or connections to random replicas that reach all n of them with a probability
// above 0.999. It is n (ln n + 7), by Erdős and Rényi's limit for the coupon collector's problem.
func requestsToReach(n int) int {
	return int(math.Ceil(float64(n) * (math.Log(float64(n)) + 7)))
}
