package kubecli

import (
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/metric"
)

// This machine sends the load, with tare's engine and with another installed generator. The generator's CPU is read here,
// the CPU of the application and the nodes on the cluster.
func TestKubernetesLoadFromOutside(t *testing.T) {
	r := experimentOnKubernetes(t, `
factors: {rate: [70], connections: [3], generator: [tare, vegeta]}
load: {arrivals: constant}
phases: {warmup: 3s, measure: 7s, drain: 2s, idle: {cpu: 100, deadline: 1s}}
blocks: 1
`, "load.from=outside")
	all := r.records(t, console.Done, nil)
	if len(all) != 2 {
		t.Fatalf("%d trials", len(all))
	}
	for _, one := range all {
		if !usable(one) || one.Load == nil {
			t.Fatalf("%+v", one)
		}
		answered, sent := int64(0), int64(0) // beyond or below those asked for
		if one.Load.Generator == "vegeta" {
			answered = 1 // its window begins and ends between two of its own requests
			sent = 70    // late ones of its edges, on a busy machine
		}
		off := func(n, tolerance int64) bool { return max(n-70*7, 70*7-n) > tolerance }
		if l := one.Load; off(l.Classes["2xx"], answered) || off(l.Sent, sent) || l.Workers != 0 {
			t.Errorf("%s: %d requests were sent by %d load workers, want 490 by none: %v", one.Treatment, l.Sent, l.Workers, l.Classes)
		}
		for _, plane := range []metric.Plane{metric.App, metric.Load} {
			if ns, tasks := usedBy(one, plane); ns <= 0 || tasks != 1 {
				t.Errorf("%s: %d tasks of plane %s used %d ns", one.Treatment, tasks, plane, ns)
			}
		}
		if ns, tasks := usedBy(one, metric.Platform); ns <= 0 || tasks < 2 {
			t.Errorf("%s: %d tasks of the cluster used %d ns", one.Treatment, tasks, ns)
		}
	}
}
