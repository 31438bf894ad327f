package report_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
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
		"text": `Requests cpu 190m, memory 74Mi; limits memory 128Mi, 3.18 USD a month: istio, sidecar of echo, at 800 requests/s, connections 200, with 30% headroom.
  requests: cpu 190m (a new deployment may need 170m to 215m), memory 74Mi
  limits:   memory 128Mi; no CPU limit, because throttled proxies delay requests
  workers:  1 thread (concurrency)
  tried:    cpu 100m, at 1000 requests/s: throttled in 380 of 1000 periods; p99 grows by 14 ms (9 to 22)
  tried:    cpu 190m, memory 64Mi, at 1000 requests/s: OOMKilled in 2 of 6 trials
  a month:  3.18 USD as requested, 2.44 USD as used
  used:     cpu 146m (142m to 150m) and memory 54 MiB without headroom, peak 98 MiB
  measured: 9 times (blocks), at 5 rates, 100 to 2000 requests/s, connections 4 to 256, responseSize 1KiB; the CPU is fixed work
`,
		"yaml": `---
# istio, sidecar of echo, at 800 requests/s, connections 200, with 30% headroom
resources:
    limits:
        memory: 128Mi
    requests:
        cpu: 190m
        memory: 74Mi
`,
		"values": `---
# istio's chart: istio, sidecar of echo, at 800 requests/s, connections 200, with 30% headroom
global:
    proxy:
        resources:
            limits:
                cpu: null
                memory: 128Mi
            requests:
                cpu: 190m
                memory: 74Mi
meshConfig:
    defaultConfig:
        concurrency: 1
`,
		"annotations": `---
# istio, sidecar of echo, at 800 requests/s, connections 200, with 30% headroom
spec:
    template:
        metadata:
            annotations:
                proxy.istio.io/config: 'concurrency: 1'
                sidecar.istio.io/proxyCPU: 190m
                sidecar.istio.io/proxyMemory: 74Mi
                sidecar.istio.io/proxyMemoryLimit: 128Mi
`,
	}
	for _, f := range report.SizesForms() {
		var b bytes.Buffer
		must.OK(t, f.Write(&b, s))
		if text, ok := want[f.Name]; ok && b.String() != text {
			t.Errorf("%s: %s, want %s", f.Name, b.String(), text)
		}
	}

	none := s
	none.Sizes = []report.Sized{{Size: s.Sizes[0].Size}}
	for _, f := range report.SizesForms() {
		if f.Name == "values" || f.Name == "annotations" {
			must.Fail(t, f.Write(io.Discard, none), "no proxy of the run comes from a", "istio has none", "--format yaml")
		}
	}
}

// Replicas, nodes, an objective and runs that would help are written as rows.
func TestSizesOfSharedProxies(t *testing.T) {
	objective := &predict.Objective{Text: "p99 < 20ms", Percentile: "p99", MS: 20}
	low, high, above, over := 5.0, 7.0, -1.0, 40.0
	curve := &predict.Curve{Reason: "fixed work", Axes: []predict.Axis{{Name: "rate", From: 100, To: 3333, Levels: 5}}, Blocks: 9}
	band := predict.Band{Estimate: 0.9, Low: 0.85, High: 0.95, NewLow: 0.8, NewHigh: 1}
	size := predict.Size{Factors: plan.Factors{"mesh": "istio-ambient"}, Mesh: "istio-ambient", CPU: band, Memory: predict.Band{Estimate: 50}, Peak: 60, RequestCPU: 1, RequestMemory: 64, LimitMemory: 80, Workers: 1, Curve: curve}
	waypoint, node, control, sidecar := size, size, size, size
	waypoint.Proxy, waypoint.Replicas = "waypoint", &predict.Replicas{N: 3, Rate: 3333, Cores: predict.Band{Estimate: 2.8, Low: 2.6, High: 3.1}, Range: true}
	node.Proxy, node.Nodes = "node-proxy", &predict.Nodes{N: 40, Hottest: 43, Ratio: 2.1, CPU: band, Memory: predict.Band{Estimate: 50}}
	control.Proxy, control.Proxies, control.Curve = predict.ControlPlane, 24, &predict.Curve{Reason: "the same at every load", Blocks: 9}
	sidecar.Proxy, sidecar.LimitCPU = "sidecar of echo", 1.2
	sidecar.Limited = []predict.Limited{
		{At: map[string]float64{"rate": 1000}, Time: &stats.Interval{Estimate: 6, Low: &low, High: &high}, Met: predict.Holds},
		{CPU: 1.2, At: map[string]float64{"rate": 1000}, Periods: 1000, P99: &stats.Interval{Estimate: 1, Low: &above, High: &high}, Time: &stats.Interval{Estimate: 6, Low: &low, High: &high}, Met: predict.Holds},
		{CPU: 0.5, At: map[string]float64{"rate": 1000}, Periods: 1000, Reached: 500, P99: &stats.Interval{Estimate: 13, Low: &low, High: &over}, Time: &stats.Interval{Estimate: 19, Low: &above, High: &over}, Met: predict.Undecided},
	}
	prices := &answer.Prices{Currency: "USD", Core: answer.Price{Month: 10}}
	s := report.NewSizes("runs/it's", predict.Sizing{Rate: 1000, TotalRate: 10000, ReplicaCPU: 1, Headroom: 0.1, Objective: objective}, []predict.Size{waypoint, node, control, sidecar},
		[]predict.Step{{What: "two more rates above 2000", Set: []string{"factors.rate=[100, 4000]", "blocks=9"}, Takes: 4 * time.Minute}}, prices)
	var b bytes.Buffer
	must.OK(t, report.SizesForms()[0].Write(&b, s))
	must.Contain(t, b.String(),
		"Requests cpu 1000m, memory 64Mi; limits memory 80Mi, for each of 3 replicas, 30.00 USD a month (memory has no price): istio-ambient, waypoint, at 10000 requests/s in total, with 10% headroom.\n  replicas: 3 of cpu 1000m, 3333 requests/s each; together they use 2.8 cores (2.6 to 3.1); 3333 of one is the highest measured rate: a higher one may allow fewer\n  requests: cpu 1000m, memory 64Mi, of each replica\n",
		"  a month:  30.00 USD as requested, 27.00 USD as used\n",
		": istio-ambient, node-proxy, at 1000 requests/s of a mean node, with 10% headroom.\n  nodes:    40; the hottest has 43 pods, 2.1 times the mean, and decides the size of all\n",
		"  a month:  400.00 USD as requested, 360.00 USD as used\n",
		"Requests cpu 1000m, memory 64Mi; limits memory 80Mi, 10.00 USD a month (memory has no price): istio-ambient, control plane, for 24 proxies without changes, with 10% headroom.\n", "; limits cpu 1200m, memory 80Mi, 10.00 USD a month (memory has no price): istio-ambient, sidecar of echo, ",
		"; no CPU limit, because a throttled control plane delays changes\n",
		"  limits:   cpu 1200m, memory 80Mi; the lowest measured CPU limit above the request that keeps p99 < 20ms\n",
		"  tried:    no limit, at 1000 requests/s: p99 is 6 ms (5 to 7): p99 < 20ms holds\n",
		"  tried:    cpu 1200m, at 1000 requests/s: throttled in none of 1000 periods; p99 is 6 ms (5 to 7): p99 < 20ms holds\n",
		"  tried:    cpu 500m, at 1000 requests/s: throttled in 500 of 1000 periods; p99 grows by 13 ms (5 to 40); p99 is 19 ms (0 to 40): p99 < 20ms is undecided\n",
		"To be more certain:\n  two more rates above 2000 (4m)\n    tare run 'runs/it'\\''s/experiment.yaml' --set 'factors.rate=[100, 4000]' --set blocks=9\n")
	// Memory that was still growing has a mark beside each of its figures, and its growth.
	s.Sizes[3].Growing = &predict.Growing{PerMinute: stats.Interval{Estimate: 221, Low: &over, High: &over}, Rate: 1000}
	b.Reset()
	must.OK(t, report.SizesForms()[0].Write(&b, s))
	must.Contain(t, b.String(), "memory 64Mi ↑221 MiB/min\n", "memory 80Mi ↑221 MiB/min; the lowest", "memory 50 MiB ↑221 MiB/min without headroom, peak 60 MiB ↑221 MiB/min\n",
		"  growing:  memory was still growing at the end, by 40 to 40 MiB a minute at 1000 requests/s: longer trials need more;")
	if n := strings.Count(b.String(), "↑"); n != 4 {
		t.Errorf("%d marks, want those of the sidecar alone", n)
	}
	// Of limits that miss the objective none is recommended, and the reason is printed.
	s.Sizes[3].LimitCPU = 0
	b.Reset()
	must.OK(t, report.SizesForms()[0].Write(&b, s))
	must.Contain(t, b.String(), "no CPU limit, because no measured one above the request is shown to keep p99 < 20ms")
	s.Sizes[3].Limited[0].Met = predict.Missed
	b.Reset()
	must.OK(t, report.SizesForms()[0].Write(&b, s))
	must.Contain(t, b.String(), "no CPU limit: p99 < 20ms is missed without one too")
}
