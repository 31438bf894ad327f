package report_test

import (
	"bytes"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/stats"
)

func TestSizesAreQuantitiesOfKubernetes(t *testing.T) {
	low, high := 9.0, 22.0
	prices := &answer.Prices{Currency: "USD", Core: answer.Price{Month: 16}, GiB: &answer.Price{Month: 2}}
	s := report.NewSizes("runs/x", predict.Sizing{Rate: 800, Headroom: 0.3, At: map[string]float64{"connections": 200}}, []predict.Size{{
		Factors: plan.Factors{"mesh": "istio", "responseSize": 1024.0}, Proxy: "sidecar of echo", Mesh: "istio",
		CPU:    predict.Band{Estimate: 0.146, Low: 0.142, High: 0.15, NewLow: 0.131, NewHigh: 0.165},
		Memory: predict.Band{Estimate: 54}, Peak: 98, Limited: []predict.Limited{
			{CPU: 0.1, At: map[string]float64{"rate": 1000}, Trials: 6, Periods: 1000, Reached: 380, P99: &stats.Interval{Estimate: 14, Low: &low, High: &high}},
			{CPU: 0.19, Memory: 64, At: map[string]float64{"rate": 1000}, Trials: 6, OOMKilled: 2},
		}, Workers: 1, RequestCPU: 0.19, RequestMemory: 74, LimitMemory: 128,
		Curve: &predict.Curve{Reason: "fixed work", Axes: []predict.Axis{{Name: "rate", From: 100, To: 2000, Levels: 5}, {Name: "connections", From: 4, To: 256, Levels: 3}}, Blocks: 9},
	}}, nil, prices)
	want := map[string]string{
		"text": `istio, responseSize 1KiB, sidecar of echo, at 800 requests/s, connections 200 with 30% headroom:
  requests: cpu 190m (a new deployment may need 170m to 215m), memory 74Mi
  limits:   memory 128Mi; no CPU limit, because throttled proxies delay requests
  workers:  1 thread (concurrency)
  tried:    cpu 100m, at 1000 requests/s: throttled in 380 of 1000 periods; p99 grows by 14 ms (9 to 22)
  tried:    cpu 190m, memory 64Mi, at 1000 requests/s: OOMKilled in 2 of 6 trials
  a month:  3.18 USD as requested, 2.44 USD as used
  used:     cpu 146m (142m to 150m) and memory 54 MiB without headroom, peak 98 MiB
  from:     9 blocks at 5 rates, 100 to 2000 requests/s, connections 4 to 256: fixed work
`,
		"yaml": `---
# istio, responseSize 1KiB, sidecar of echo, at 800 requests/s, connections 200 with 30% headroom
resources:
    limits:
        memory: 128Mi
    requests:
        cpu: 190m
        memory: 74Mi
`,
		"values": `---
# istio's chart: istio, responseSize 1KiB, sidecar of echo, at 800 requests/s, connections 200 with 30% headroom
global:
    proxy:
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
