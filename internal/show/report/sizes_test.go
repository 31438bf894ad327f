package report_test

import (
	"bytes"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/show/report"
)

func TestSizesAreQuantitiesOfKubernetes(t *testing.T) {
	s := report.Sizes{For: predict.Sizing{Rate: 800, Headroom: 0.3}, Sizes: []predict.Size{{
		Factors: plan.Factors{"mesh": "envoy", "responseSize": 1024.0}, Proxy: "sidecar of echo",
		CPU:    predict.Band{Estimate: 0.146, Low: 0.142, High: 0.15, NewLow: 0.131, NewHigh: 0.165},
		Memory: predict.Band{Estimate: 54}, Peak: 98, RequestCPU: 0.19, RequestMemory: 74, LimitMemory: 128,
		Curve: &predict.Curve{Reason: "fixed work", From: 100, To: 2000, Rates: 5, Blocks: 9},
	}}}
	want := map[string]string{
		"text": `envoy, responseSize 1KiB, sidecar of echo, at 800 requests/s with 30% headroom:
  requests: cpu 190m (another deployment: 170m to 215m), memory 74Mi
  limits:   memory 128Mi; no CPU limit, because throttled proxies delay requests
  measured: cpu 146m (142m to 150m) and memory 54 MiB without headroom, peak 98 MiB
  from:     9 blocks at 5 rates, 100 to 2000 requests/s: fixed work
`,
		"yaml": `---
# envoy, responseSize 1KiB, sidecar of echo, at 800 requests/s with 30% headroom
resources:
    limits:
        memory: 128Mi
    requests:
        cpu: 190m
        memory: 74Mi
`,
	}
	for _, f := range report.SizesForms() {
		var b bytes.Buffer
		must.OK(t, f.Write(&b, s))
		if text, ok := want[f.Name]; ok && b.String() != text {
			t.Errorf("%s: %s, want %s", f.Name, b.String(), text)
		}
	}
}
