package kubecli

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// istioSteps are the steps of examples/istio-ladder.yaml.
var istioSteps = []string{"none", "istio-bare", "telemetry", "access-log", "policies-10", "policies-100", "services-10", "services-100", "services-1000"}

// One block of the ladder of Istio's features, with a control plane for each step side by side. The dumps of the sidecars contain each step's feature, the increments of
// each metric add up to the whole, and a thousand known services take memory. Telemetry has no effect on an upstream Envoy, and
// the report has this.
func TestKubernetesIstioLadder(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("eight control planes take minutes: make e2e-all")
	}
	kubeconfig, charts := clusterWithIstio(t)
	const image = "tare.test/tare-agent:ladder"
	bin := agentInCluster(t, image)
	c := must.Get(cluster.Connect(t.Context(), cluster.Options{Kubeconfig: kubeconfig}))(t)
	disposable(t, c)
	text := must.Get(os.ReadFile("../../../../examples/istio-ladder.yaml"))(t)
	report, records, dir := measured(t, bin, string(text),
		fmt.Sprintf("platform={kind: kubernetes, kubeconfig: %q, image: %q}", kubeconfig, image),
		"application={topology: echo}", "factors={mesh: ["+strings.Join(istioSteps, ", ")+"], rate: [20], connections: [4]}",
		"meshes.istio-bare.resources={requests: {cpu: 10m, memory: 32MiB}}", // sixteen sidecars, on two processors
		"meshes.istio-bare.version="+os.Getenv("TARE_TEST_ISTIO_TAG"), "meshes.istio-bare.charts="+charts, "meshes.istio-bare.options.envoy=stock",
		"control=false", "blocks=1", "order=interleaved", "slices={length: 500ms, guard: 50ms}",
		"phases={warmup: 1s, measure: 5s, drain: 2s, idle: {cpu: 100, deadline: 1s}}",
		"validity={errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}")
	for _, r := range records {
		if !usable(r) {
			t.Errorf("%s: valid %v: %s: %+v", r.ID, r.Valid, r.Error, r.Warnings)
		}
		dump := dumpsOf(t, dir, r.ID)
		for feature, steps := range map[string]string{
			"/dev/stdout":                "access-log policies-10 policies-100 services-10 services-100 services-1000",
			"caller-10\"":                "policies-10 policies-100 services-10 services-100 services-1000",
			"caller-100\"":               "policies-100 services-10 services-100 services-1000",
			"known-10.tare.internal\"":   "services-10 services-100 services-1000",
			"known-100.tare.internal\"":  "services-100 services-1000",
			"known-1000.tare.internal\"": "services-1000",
		} {
			if want := strings.Contains(" "+steps+" ", " "+r.Treatment+" "); strings.Contains(dump, feature) != want {
				t.Errorf("%s: the sidecars' configuration contains %s: %v", r.ID, feature, !want)
			}
		}
	}
	same := 0
	for _, c := range report.Configurations {
		if c.Same {
			same++
		}
		if c.Same != (c.A == "istio-bare" && c.B == "telemetry") {
			t.Errorf("%s and %s are the same: %v, %+v", c.A, c.B, c.Same, c.Differences)
		}
	}
	if same != 1 || !slices.ContainsFunc(report.Warnings, func(w figures.Warning) bool { return w.Code == "treatments-same" }) {
		t.Errorf("%d pairs of treatments are the same: %+v", same, report.Warnings)
	}
	if len(report.Ladders) != 1 || len(report.Ladders[0].Steps) != len(istioSteps) {
		t.Fatalf("%+v", report.Ladders)
	}
	seen := map[string]bool{}
	for _, m := range report.Ladders[0].Metrics {
		seen[m.Metric] = true
		if m.Whole == nil || m.Rest == nil {
			t.Errorf("%s: sum %v, rest %v, whole %+v", m.Metric, m.Sum, m.Rest, m.Whole)
		} else if d := difftest.Wrong("*m.Rest > 1e-6", *m.Rest > 1e-6, "*m.Rest < -1e-6", *m.Rest < -1e-6); d != "" {
			t.Errorf("%s: %s: sum %v, rest %v, whole %+v", d, m.Metric, m.Sum, m.Rest, m.Whole)
		}
		for i, step := range m.Increments {
			if step.Difference == nil {
				t.Errorf("%s: step %s has no difference", m.Metric, istioSteps[i+1])
			} else if known := step.Difference.Estimate; m.Metric == metric.Of(metric.Memory, "data") && step.Treatment == "services-1000" && known < 1 {
				t.Errorf("900 further services take %v MiB of two sidecars", known)
			}
		}
	}
	if !seen[metric.Of(metric.CPUPerRequest, "data")] || !seen[metric.Of(metric.Memory, "control")] || !seen[metric.Of(metric.Latency, "p99")] {
		t.Errorf("metrics of the ladder: %v", seen)
	}
	ladder := must.Get(call(t, "report", dir, "--ladder"))(t)
	t.Log(ladder)
}

// dumpsOf are the configuration dumps of a trial's sidecars, one after another.
func dumpsOf(t *testing.T, dir, trial string) string {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(dir, result.TrialsDir, trial, result.ProvenanceDir, "mesh", "proxies", "*config_dump.json*")))(t)
	var all bytes.Buffer
	for _, name := range files {
		f := must.Get(os.Open(name))(t)
		var from io.Reader = f
		if strings.HasSuffix(name, ".gz") {
			from = must.Get(gzip.NewReader(f))(t)
		}
		must.Get(io.Copy(&all, from))(t)
		_ = f.Close()
	}
	return all.String()
}
