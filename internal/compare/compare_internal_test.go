package compare

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// The rounding of a quotient is not a difference: reports printed one of 1e-13 requests per second on an axis of its own.
func TestRoundingIsNoDifference(t *testing.T) {
	of := func(rates ...float64) map[int]figures.Measured {
		by := map[int]figures.Measured{}
		for i, v := range rates {
			by[i+1] = figures.Measured{Trial: figures.Trial{Metrics: map[string]float64{metric.Rate: v}}}
		}
		return by
	}
	x := estimator{blocks: 3, confidence: 0.95}
	p := x.pairs(metric.Rate, of(1000.0000000000001, 200, 50), of(1000, 200.00000000000003, 50.000001))
	for i, want := range []float64{0, 0, -1e-6} {
		if d := p.treatment[i] - p.baseline[i]; d < want-1e-12 || d > want+1e-12 || want == 0 && d != 0 {
			t.Errorf("block %d: %g, want %g", i+1, d, want)
		}
	}
}

// Of a background on a cluster, the addresses are simulated, also where the number of services is a factor.
func TestBackgroundOfCluster(t *testing.T) {
	record := result.Record{Load: &result.Load{MeasureSeconds: 10}, Background: &result.Background{Services: 20, Asked: 2, Changes: 19}}
	const alone = "Background: 20 services that no request calls, with 1.9 changes per second (2 asked)"
	onCluster := backgroundOf([]result.Record{record}, mesh.OnKubernetes)
	must.Contain(t, onCluster, alone+". Simulated: the endpoints", "Real: the control plane")
	if got := backgroundOf([]result.Record{record}, mesh.OnLocal); got != alone {
		t.Errorf("got %q", got)
	}
	record.Background.Pushes = &result.Pushes{Proxies: 30}
	must.Contain(t, backgroundOf([]result.Record{record}, mesh.OnKubernetes), alone+". Simulated: 30 proxies, as clients of xDS without a proxy; the endpoints", "Real: the control plane")
	record.Background.Pods = 60
	must.Contain(t, backgroundOf([]result.Record{record}, mesh.OnKubernetes), "no request calls, of 60 pods, with", "; the nodes of background pods", "Real: the objects of these pods")
	record.Background.Pods, record.Background.Pushes = 0, nil
	record.Factors = map[string]any{experiment.BackgroundServicesFactor: 20.0}
	for platform, want := range map[string]string{mesh.OnLocal: "", mesh.OnKubernetes: strings.TrimPrefix(onCluster, alone+". ")} {
		if got := backgroundOf([]result.Record{record}, platform); got != want {
			t.Errorf("%s: got %q, want %q", platform, got, want)
		}
	}
}

// The message of two runs without a common treatment lists the levels that differ, and never "one has none".
func TestDifferingFactors(t *testing.T) {
	of := func(factor string, levels ...any) plan.Plan {
		var p plan.Plan
		for _, level := range levels {
			p.Treatments = append(p.Treatments, plan.Treatment{Factors: plan.Factors{factor: level}})
		}
		return p
	}
	for _, c := range []struct {
		base, next plan.Plan
		want       string
	}{
		{of("mesh", "none", "envoy"), of("mesh", "istio"), "mesh is envoy, none in one and istio in the other"},
		{of("rate", 50.0, 100.0), of("rate", 200.0), "rate is 100, 50 in one and 200 in the other"},
		{of("mesh", "none"), of("rate", 50.0), "mesh is none in one and absent in the other; rate is absent in one and 50 in the other"},
		{of("mesh", "none"), of("mesh", "none"), "their factors agree, but not the combinations or the settings behind them"},
	} {
		if got := differingFactors(c.base, c.next); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// A sidecar of several processes is one. Trials with different numbers have none in common, and other proxies are not sidecars.
func TestSidecarsAreCountedByPod(t *testing.T) {
	trial := func(role string, pods ...string) result.Record {
		r := result.Record{Treatment: "nginx"}
		for _, pod := range pods {
			task := result.TaskUsage{Task: mesh.Task{Pod: pod}}
			task.Plane, task.Role = metric.Data, role
			r.Tasks = append(r.Tasks, task)
		}
		return r
	}
	for name, c := range map[string]struct {
		records []result.Record
		want    int
	}{
		"a worker process beside each": {[]result.Record{trial("sidecar", "load", "load", "echo-0", "echo-0")}, 2},
		"different trials":             {[]result.Record{trial("sidecar", "load"), trial("sidecar", "load", "echo-0")}, 0},
		"a node's proxy":               {[]result.Record{trial("node-proxy", "ztunnel")}, 0},
		"none":                         {[]result.Record{trial("sidecar")}, 0},
	} {
		run := &Run{Records: c.records, Trials: make([]figures.Measured, len(c.records))}
		for i := range run.Trials {
			run.Trials[i].Valid = true
		}
		if got := sidecars(run, "nginx"); got != c.want {
			t.Errorf("%s: %d sidecars, want %d", name, got, c.want)
		}
	}
}
