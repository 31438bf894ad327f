package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
)

func TestForecastsAreTablesOfServices(t *testing.T) {
	g := predict.Graph{Topology: app.Topology{Name: "shop", Entry: "front", Services: []app.Service{{Name: "front", Calls: []app.Call{{Service: "cart"}}}, {Name: "cart", Replicas: 2}}}}
	cpu := predict.Amount{Estimate: 0.3, Low: 0.25, High: 0.35, Causes: predict.Causes{Curve: 0.03, Deployment: 0.04, Graph: 0.001, Connections: 0.002}}
	memory := predict.Amount{Estimate: 201.2, Low: 199.6, High: 202.8, Causes: predict.Causes{Curve: 0.5, Deployment: 1, Called: 1.2}}
	one := predict.Forecast{Mesh: "envoy", Factors: plan.Factors{"mesh": "envoy"}, Confidence: 0.95, From: []string{"runs/a", "runs/b"}, Blocks: 8, CPU: cpu, Memory: memory,
		Latency: &predict.Amount{Estimate: 1.23, Low: 1, High: 1.5}, Path: []string{"front", "cart"}, Month: &predict.Amount{Estimate: 6.2, Low: 5, High: 7.5},
		Services: []predict.ServiceCost{{Service: "front", Replicas: 1, Rate: 300, Calls: 300, CPU: cpu, Memory: memory}, {Service: "cart", Replicas: 2, Rate: 300, CPU: cpu, Memory: memory}}}
	other := one
	wanted := 3.0
	one.Control = &predict.ControlCost{From: "runs/a", CPU: predict.Amount{Estimate: 0.0061, High: 0.0126, Causes: predict.Causes{Curve: 0.002, Deployment: 0.006}}, Memory: memory, Month: one.Month,
		Configured: []predict.Configured{{Axis: predict.Axis{Name: "proxies", From: 2, To: 2, Levels: 1}, Wanted: &wanted, At: 2},
			{Axis: predict.Axis{Name: "services", From: 1, To: 1, Levels: 1}, Wanted: &wanted, At: 1}, {Axis: predict.Axis{Name: "changes per second", Levels: 1}}}}
	one.Total = &predict.Amount{Estimate: 12.4, Low: 10.5, High: 14.3}
	other.Unmeasured, other.Latency, other.Path, other.Month, other.NoLatency, other.Services = true, nil, nil, nil, "calls to cart: runs/a has no latency", nil
	other.Growing = &predict.Growing{PerMinute: stats.Interval{Estimate: 5, Low: &cpu.Low, High: &cpu.High}, Rate: 100}
	other.Shared = []predict.SharedCost{{Kind: "node-proxy", Rate: 600, CPU: cpu, Memory: memory}}
	refused := predict.Forecast{Mesh: "istio", Factors: plan.Factors{"mesh": "istio"}, Confidence: 0.95, Refused: "calls by grpc were not measured"}
	f := must.Get(report.NewForecasts([]string{"runs/x"}, g, map[string]float64{"front": 300}, []predict.Forecast{one, other, refused},
		[]predict.Step{{Dir: "runs/b", What: "16 blocks in place of 8", Set: []string{"blocks=16"}, Takes: 4 * time.Minute}}, &answer.Prices{Currency: "USD"}))(t)
	var text, json bytes.Buffer
	forms := report.ForecastsForms()
	must.OK(t, forms[0].Write(&text, f))
	must.OK(t, forms[1].Write(&json, f))
	want := `envoy around shop (2 services, 300 requests/s at front): CPU of sidecars 300m (250m to 350m), memory 201 MiB (199 to 203), 6.2 USD (5.0 to 7.5) a month (memory has no price).
  CPU of sidecars:            300m (250m to 350m)
  memory:                     201 MiB (199 to 203)
  median response:            +1.23 ms (1.00 to 1.50), by calls to front and cart one after another
  a month, as used:           6.2 USD (5.0 to 7.5)
  control plane:              CPU 6.1m (0 to 13m) and memory 201 MiB (199 to 203), 6.2 USD (5.0 to 7.5) a month
  its configuration:          2 proxies, 1 service and 0 changes per second, from runs/a; the application has 3 proxies and 3 services. It grows with these, which the run does not show, and not with requests
  its range:                  ±6.3m, from deployments that differ (alone ±6m), the curve (±2m)
  a month in all:             12.4 USD (10.5 to 14.3), of proxies and control plane
  in brackets:                the range of a new deployment: 19 of 20 lie in it
  why the CPU has a range:    ±50m, from deployments that differ (alone ±40m), the curve (±30m), counted calls (±1m), unknown connections (±2m)
  why the memory has a range: ±1.6 MiB, from deployments that differ (alone ±1.0 MiB), the curve (±0.5 MiB), called services that no run has, none to 0.6 MiB each (±1.2 MiB)
  not in it:                  the application itself, and the waiting of requests for one another
  from:                       runs/a and runs/b, measured 8 times (blocks)

  service             requests/s   calls/s   CPU                   memory                 range of CPU: deployments differ   the curve   counted calls   connections
  front               300          300       300m (250m to 350m)   201 MiB (199 to 203)   ±40m                               ±30m        ±1m             ±2m
  cart (2 replicas)   300          0         300m (250m to 350m)   201 MiB (199 to 203)   ±40m                               ±30m        ±1m             ±2m

`
	if got := text.String(); !strings.HasPrefix(got, want) {
		t.Errorf("%s, want it to begin with %s", got, want)
	}
	for _, part := range []string{
		"median response:            no forecast: calls to cart: runs/a has no latency",
		"memory:                     201 MiB (199 to 203) ↑\n",
		"\n  growing:                    memory was still growing at the end, by 0.25 to 0.35 MiB a minute at 100 requests/s",
		"\n  CPU of proxies:             300m (250m to 350m)\n",
		"\n  of these node-proxy:        300m (250m to 350m) and 201 MiB (199 to 203), as many as measured, with 600 requests/s\n",
		"  not in it:                  the application itself, the control plane (the runs have none), and the waiting",
		"\nistio around shop (300 requests/s at front): no forecast, because calls by grpc were not measured.\n",
		"\nTo be more certain:\n  what was not measured: every rate, size and protocol of the graph\n    tare run runs/x/experiment.yaml --set 'factors.rate=[",
		"\n  16 blocks in place of 8 (4m)\n    tare run runs/b/experiment.yaml --set blocks=16\n",
	} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("%s has no %q", text.String(), part)
		}
	}
	if !strings.Contains(json.String(), `"schema": "tare.forecast/v1"`) {
		t.Errorf("%s has no schema", json.String())
	}
}
