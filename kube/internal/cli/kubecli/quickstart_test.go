package kubecli

import (
	"os"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// The quickstart for a laptop without Envoy: the cost of one service by itself, in an A/A pair, interleaved. Node agents
// are the meter: no warm-up is raised, and the agent's own CPU is in plane harness.
func TestKubernetesQuickstart(t *testing.T) {
	text := must.Get(os.ReadFile("../../../../examples/quickstart.yaml"))(t)
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("TestKubernetesInterleaved proves its parts on a cluster: make e2e-all runs it")
	}
	disposable(t, clustertest.Connect(t))
	// A busy machine misses part of 1000/s; the requests that arrive are counted.
	r := fileOnKubernetes(t, text, "factors.mesh=[none]", "blocks=1", "phases.warmup=1s", "phases.measure=4s", "validity.rateShortfall=0.2")
	all := r.records(t, console.Done, nil)
	if len(all) != 2 || all[0].Control == all[1].Control {
		t.Fatalf("%d trials: %+v", len(all), all)
	}
	for _, one := range all {
		if !usable(one) || one.Load == nil {
			t.Fatalf("%+v", one)
		}
		// 1000/s for 4 s, less a tenth in guards.
		if l := one.Load; l.AskedRate != 1000 {
			t.Errorf("%s: %d requests were intended, %d sent, %v", one.Treatment, l.Intended, l.Sent, l.Classes)
		} else if d := difftest.Wrong("l.Intended < 3300", l.Intended < 3300, "l.Intended > 3900", l.Intended > 3900, `l.Classes["2xx"] != l.Sent`, l.Classes["2xx"] != l.Sent, "l.Sent < l.Intended*4/5", l.Sent < l.Intended*4/5); d != "" {
			t.Errorf("%s: %s: %d requests were intended, %d sent, %v", d, one.Treatment, l.Intended, l.Sent, l.Classes)
		}
		if ns, tasks := usedBy(one, metric.App); ns <= 0 || tasks != 1 {
			t.Errorf("%s: %d tasks of the application used %d ns", one.Treatment, tasks, ns)
		}
		for plane, want := range map[metric.Plane]int{metric.Harness: 1, metric.Node: 2} {
			if ns, tasks := usedBy(one, plane); ns <= 0 || tasks != want {
				t.Errorf("%s: %d tasks of plane %s used %d ns", one.Treatment, tasks, plane, ns)
			}
		}
		for _, code := range []string{"warm-up-raised", "measure-short", "node-unknown"} {
			if warned(one, code) {
				t.Errorf("%s: %+v", one.Treatment, one.Warnings)
			}
		}
	}
}
