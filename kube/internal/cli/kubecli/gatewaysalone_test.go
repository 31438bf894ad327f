package kubecli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// gatewaysExperiment compares Envoy Gateway and Contour with the same application behind a plain Service.
const gatewaysExperiment = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: gateways}
platform: {kind: kubernetes, kubeconfig: %q, image: %q, inUse: allow}
application: {topology: nginx-pods}
load: {entry: gateway, arrivals: constant%s}
meshes:
  contour: {charts: %q}
  envoy-gateway: {charts: %q}
factors: {mesh: [none, contour, envoy-gateway], rate: [100], connections: [8]}
phases: {warmup: 3s, measure: 10s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
order: once
blocks: 1
`

// Meshes that are only gateways have no proxy beside the application. Every request goes through the gateway, which is
// the data plane in the report. Once uninstalled, nothing of them is left in the cluster.
func TestKubernetesGatewaysAlone(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("TARE_TEST_ALL is not set: make e2e-all runs it")
	}
	kubeconfig, charts := clustertest.Kubeconfig(t), map[string]string{}
	for _, name := range []string{"TARE_TEST_CONTOUR_CHARTS", "TARE_TEST_ENVOY_GATEWAY_CHARTS"} {
		if charts[name] = os.Getenv(name); charts[name] == "" {
			t.Fatalf("%s is missing: `tare-cluster run --with contour,envoy-gateway` sets it", name)
		}
	}
	const image = "tare.test/tare-agent:gateways"
	bin := agentInCluster(t, image)
	c := must.Get(cluster.Connect(t.Context(), cluster.Options{Kubeconfig: kubeconfig}))(t)
	before := objectsIn(t, c)
	for _, from := range []string{"", ", from: outside"} {
		report, records, _ := measured(t, bin, fmt.Sprintf(gatewaysExperiment, kubeconfig, image, from, charts["TARE_TEST_CONTOUR_CHARTS"], charts["TARE_TEST_ENVOY_GATEWAY_CHARTS"]))
		for _, r := range records {
			if !usable(r) {
				t.Errorf("%s: valid %v: %s: %+v", r.ID, r.Valid, r.Error, r.Warnings)
			}
			want := map[string]int{"gateway": 2} // Envoy, and what ends its connections
			if r.Treatment == "none" {
				want = map[string]int{}
			}
			if got := rolesIn(r); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: data plane %v, want %v: %+v", r.ID, got, want, r.Tasks)
			}
			for _, made := range r.Checks {
				if !made.OK {
					t.Errorf("%s: %s: %s", r.ID, made.Name, made.Detail)
				}
			}
			for _, name := range []string{"every request comes through the gateway", "requests are understood by the gateway", " is Programmed", " is ResolvedRefs"} {
				if made := slices.ContainsFunc(r.Checks, func(c check.Check) bool { return strings.HasSuffix(c.Name, name) }); made != (r.Treatment != "none") {
					t.Errorf("%s: check %q was made: %v", r.ID, name, made)
				}
			}
		}
		for _, treatment := range report.Treatments {
			cpu, known := treatment.Metrics["cpu_us_per_request/data"]
			if gateway := treatment.Factors["mesh"] != "none"; gateway && (!known || cpu.Estimate <= 0) || !gateway && cpu.Estimate > 0 {
				t.Errorf("%v: CPU of the data plane is %+v, known %v", treatment.Factors, cpu, known)
			}
		}
	}
	nothingAdded(t, c, before)
}
