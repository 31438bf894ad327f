package kubecli

import (
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/metric"
)

// This machine sends the load, with tare's engine and with another installed generator. The generator's CPU is read here,
// that of the application and the nodes on the cluster.
func TestKubernetesLoadFromOutside(t *testing.T) {
	r := experimentOnKubernetes(t, `
factors: {rate: [70], connections: [3], generator: [tare, vegeta]}
load: {arrivals: constant}
phases: {warmup: 24s, measure: 20s, drain: 2s}
blocks: 1
`, "load.from=outside")
	all := r.records(t, console.Done, nil)
	if len(all) != 2 {
		t.Fatalf("%d trials", len(all))
	}
	for _, one := range all {
		if !one.Valid || one.Load == nil {
			t.Fatalf("%+v", one)
		}
		if l := one.Load; l.Sent != 70*20 || l.Classes["2xx"] != l.Sent || l.Workers != 0 {
			t.Errorf("%s: %d requests were sent by %d load workers, want 1400 by none: %v", one.Treatment, l.Sent, l.Workers, l.Classes)
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
