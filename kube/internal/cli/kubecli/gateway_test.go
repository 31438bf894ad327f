package kubecli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/must"
)

// gatewayExperiment compares Istio behind its ingress gateway with the same application behind a plain node port.
const gatewayExperiment = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: gateway}
platform: {kind: kubernetes, kubeconfig: %q, image: %q, inUse: allow}
application: {topology: nginx-pods}
load: {from: outside, entry: gateway, arrivals: constant}
meshes:
  istio: {version: %q, charts: %q, options: {envoy: stock}}
factors: {mesh: [none, istio], rate: [100], connections: [8]}
phases: {warmup: 3s, measure: 10s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
blocks: 1
`

// The load comes from outside: through Istio's ingress gateway, or through a plain Service of the same type without a mesh.
// The gateway counts every request and has its own row in the report. All its objects are removed.
func TestKubernetesGateway(t *testing.T) {
	kubeconfig, charts := clusterWithIstio(t)
	const image = "tare.test/tare-agent:gateway"
	bin := agentInCluster(t, image)
	c := must.Get(cluster.Connect(t.Context(), cluster.Options{Kubeconfig: kubeconfig}))(t)
	before := objectsIn(t, c)
	report, records, _ := measured(t, bin, fmt.Sprintf(gatewayExperiment, kubeconfig, image, os.Getenv("TARE_TEST_ISTIO_TAG"), charts))
	if !strings.Contains(report.Setup.Way, "ingress gateway") {
		t.Errorf("the report does not name the way of the load: %+v", report.Setup)
	}
	for _, r := range records {
		if !usable(r) {
			t.Errorf("%s: valid %v: %s: %+v", r.ID, r.Valid, r.Error, r.Warnings)
		}
		under := r.Treatment == "istio"
		if got, want := rolesIn(r), map[bool]map[string]int{false: {}, true: {"gateway": 1, "sidecar": 1}}[under]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: data plane %v, want %v: %+v", r.ID, got, want, r.Tasks)
		}
		throughGateway(t, r, under)
	}
	for _, treatment := range report.Treatments {
		under := treatment.Factors["mesh"] == "istio"
		i := slices.IndexFunc(treatment.Roles, func(r compare.Role) bool { return r.Role == "gateway" })
		if (i >= 0) != under {
			t.Errorf("%v: roles %+v", treatment.Factors, treatment.Roles)
		} else if under && treatment.Roles[i].Metrics["cpu_us_per_request"].Estimate <= 0 {
			t.Errorf("the gateway costs nothing: %+v", treatment.Roles[i])
		}
	}
	nothingAdded(t, c, before)
}

// rolesIn counts the tasks of a trial's data plane by role.
func rolesIn(r result.Record) map[string]int {
	count := map[string]int{}
	for _, task := range r.Tasks {
		if task.Plane == metric.Data {
			count[task.Role]++
		}
	}
	return count
}

// throughGateway checks that the load of a trial came through the gateway, if it has one.
func throughGateway(t *testing.T, r result.Record, under bool) {
	t.Helper()
	for _, made := range r.Checks {
		t.Logf("%s: %v %s: %s", r.ID, made.OK, made.Name, made.Detail)
		if !made.OK {
			t.Errorf("%s: %s: %s", r.ID, made.Name, made.Detail)
		}
	}
	for _, name := range []string{"every request comes through the gateway", "requests are understood by the gateway", "mutual TLS is on at the gateway",
		"mutual TLS is on at the sidecar", "plaintext is refused", " is Programmed", " is ResolvedRefs"} {
		if made := slices.ContainsFunc(r.Checks, func(c check.Check) bool { return strings.HasSuffix(c.Name, name) }); made != under {
			t.Errorf("%s: check %q was made: %v", r.ID, name, made)
		}
	}
}
