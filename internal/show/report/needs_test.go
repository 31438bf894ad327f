package report_test

import (
	"bytes"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/test/must"
)

// needs has a workload that is sized, one that is not, and a pod without a controller.
func needs(prices *answer.Prices) report.Needs {
	amount := func(estimate float64) predict.Amount {
		return predict.Amount{Estimate: estimate, Low: 0.8 * estimate, High: 1.2 * estimate}
	}
	return report.NewNeeds(predict.Sidecars{Cluster: "cluster test (https://127.0.0.1)", Namespace: "shop", Mesh: "istio"}, "counted at the proxies for 30s", predict.Needs{
		Mesh: "envoy", From: []string{"runs/curve"}, Blocks: 4, Confidence: 0.95, Headroom: 0.3, CPU: amount(0.16), Memory: amount(140), Command: "tare run x",
		Workloads: []predict.Need{
			{Workload: predict.Workload{Kind: "Deployment", Name: "web", Pods: 3, Received: 120, Sent: 240, Busiest: 200, Sidecar: predict.Amounts{CPU: 0.1, Memory: 128}, Application: predict.Amounts{CPU: 0.5, Memory: 256}, LimitCPU: 0.2, Used: &predict.Amounts{CPU: 0.17},
				Annotations: map[string]string{"proxy.istio.io/config": "holdApplicationUntilProxyStarts: true\nconcurrency: 4\n", "other": "x"}},
				CPU: amount(0.048), Memory: amount(45), RequestCPU: 0.065, RequestMemory: 70, LimitMemory: 80, Workers: 1, Scaled: 1.2},
			{Workload: predict.Workload{Kind: "Deployment", Name: "hot", Pods: 1, Received: 9000}, Refused: "9000 requests/s are outside the measured range"},
			{Workload: predict.Workload{Kind: "Pod", Name: "one", Pods: 1, LimitCPU: 0.004, Used: &predict.Amounts{CPU: 0.0039, Memory: 90}}, CPU: amount(0.004), Memory: amount(45), RequestCPU: 0.01, RequestMemory: 118, LimitMemory: 118, Workers: 1, AsUsed: true},
		},
	}, prices)
}

func written(t *testing.T, n report.Needs, form string) string {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, report.Write(&b, n, report.NeedsForms(), form))
	return b.String()
}

func TestNeedsHaveWhatChanges(t *testing.T) {
	prices := &answer.Prices{Currency: "USD", Core: answer.Price{Month: 20}, GiB: &answer.Price{Month: 4}}
	text := written(t, needs(prices), "text")
	t.Log("\n" + text)
	must.Contain(t, text, "Sidecars of istio in namespace shop, with 30% headroom:",
		"0.3 cores and 384 MiB → 0.205 cores and 328 MiB, of 4 sidecars", "request 1.5 cores and 768 MiB", "7.50 USD → 5.38 USD",
		"the busiest pod of Deployment/web has 200 requests/s, and a mean one 120", "cluster:            test (https", "of envoy, not of istio", "9000 requests/s are outside", "tare run x", "a sidecar of Pod/one uses 4m of its CPU limit of 4m, so it needs at least this size",
		"Pod/one: the CPU is the run's, because the Metrics API has none", "Pod/one: not of kind Deployment, StatefulSet, DaemonSet",
		"kubectl apply --server-side --field-manager tare-size -f -")
	if strings.Contains(text, "a sidecar of Deployment/web uses") {
		t.Error("a sidecar at 170m of 200m is called throttled")
	}
	row := ""
	for line := range strings.Lines(text) {
		if strings.Contains(line, "120 in, 240 out") {
			row = strings.Join(strings.Fields(line), " ")
		}
	}
	// three pods: 35m and 58 MiB less of each
	if want := "Deployment/web 3 120 in, 240 out 100m → 65m 48m (38m to 58m) 128Mi → 70Mi 45 (36 to 54) MiB -2.78 USD"; row != want {
		t.Errorf("row %q, want %q", row, want)
	}
	must.Contain(t, text, "– → 118Mi", "90 MiB, as used")
	limited := needs(nil)
	limited.Workloads[0].LimitCPU, limited.Workloads[0].Used = 0.06, nil
	must.Contain(t, written(t, limited, "text"), "the CPU request of Deployment/web is above its limit of 60m")
	if text := written(t, needs(nil), "text"); strings.Contains(text, "month") {
		t.Errorf("money without prices:\n%s", text)
	}
}

// A patch has what the template of pods needs, keeps other settings of the proxy, and leaves out what has no template.
func TestNeedsAsPatch(t *testing.T) {
	text := written(t, needs(nil), "patch")
	if strings.Count(text, "---\n") != 1 {
		t.Errorf("not one document:\n%s", text)
	}
	var patch struct {
		APIVersion, Kind string
		Metadata         struct{ Name, Namespace string }
		Spec             struct {
			Template struct {
				Metadata struct{ Annotations map[string]string }
			}
		}
	}
	must.OK(t, yaml.Unmarshal([]byte(text), &patch))
	annotations := patch.Spec.Template.Metadata.Annotations
	var config map[string]any
	must.OK(t, yaml.Unmarshal([]byte(annotations["proxy.istio.io/config"]), &config))
	delete(annotations, "proxy.istio.io/config")
	if patch.Kind != "Deployment" || patch.Metadata.Name != "web" || patch.Metadata.Namespace != "shop" || len(annotations) != 3 || len(config) != 2 {
		t.Errorf("%+v, %v", patch, config)
	}
	for name, want := range map[string]string{"sidecar.istio.io/proxyCPU": "65m", "sidecar.istio.io/proxyMemory": "70Mi", "sidecar.istio.io/proxyMemoryLimit": "80Mi"} {
		if annotations[name] != want {
			t.Errorf("%s is %q, want %q", name, annotations[name], want)
		}
	}
	if config["concurrency"] != 1 || config["holdApplicationUntilProxyStarts"] != true {
		t.Errorf("settings of the proxy: %v", config)
	}
	none := needs(nil)
	none.Workloads = none.Workloads[1:]
	var b bytes.Buffer
	must.Fail(t, report.Write(&b, none, report.NeedsForms(), "patch"), "no workload of namespace shop has a controller")
}
