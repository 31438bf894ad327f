package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
)

// The report names the larger source of noise and its remedy, and an interval of one block only
// with the words that limit it.
func TestSourcesOfNoise(t *testing.T) {
	r := reportOf(t, small(nil))
	sd, low, high := 12.0, 338.0, 352.0
	r.Noise = []compare.NoiseSource{
		{Treatment: "envoy", Baseline: "none", Metric: "cpu_us_per_request/data", Unit: "us", Blocks: 4, Slices: 40, Slice: 3, Deployment: &sd},
		{Treatment: "envoy", Baseline: "none", Metric: "cpu_us_per_request/total", Unit: "us", Blocks: 4, Slices: 40, Slice: 50, Deployment: &sd},
		{Treatment: "envoy", Baseline: "none", Metric: "cpu_us_per_request/app", Unit: "us", Blocks: 1, Slices: 40, Slice: 3, These: &stats.Interval{Estimate: 345, Low: &low, High: &high}},
	}
	price := compare.BlockPrice{Block: 4, Row: 0.3}
	for _, c := range []struct{ slice, between float64 }{{3, 12}, {12, 12}, {60, 12}} {
		best := price.BestSlices(c.slice*math.Sqrt(40), c.between)
		r.Noise = append(r.Noise, compare.NoiseSource{Treatment: "envoy", Baseline: "none", Metric: "cpu_us_per_request/total", Unit: "us", Blocks: 4, Slices: 40,
			Slice: c.slice, Deployment: &c.between, Price: &price, BestSlices: &best})
	}
	var out bytes.Buffer
	must.OK(t, WriteText(&out, r, Options{}))
	_, section, found := strings.Cut(out.String(), "Sources of noise")
	if !found {
		t.Fatalf("no section in\n%s", out.String())
	}
	for _, want := range []string{"envoy against no mesh", "12 µs", "3.0 µs  more blocks\n", "50 µs  longer blocks (phases.measure), or more",
		"3.0 µs  more blocks, and shorter ones\n", "12 µs  more blocks, and shorter ones\n", "60 µs  longer blocks (phases.measure × 2.9), then more\n",
		"these deployments only: +345.0 µs ±7.0; more blocks"} {
		if !strings.Contains(section, want) {
			t.Errorf("no %q in\n%s", want, section[:min(len(section), 1200)])
		}
	}
	r.Noise = nil
	out.Reset()
	if err := WriteText(&out, r, Options{}); err != nil || strings.Contains(out.String(), "Sources of noise") {
		t.Errorf("trials without slices have the section, %v", err)
	}
}

// The parts of a cost add up, and none is a negative zero. Reports without them have no section.
func TestPartsOfACost(t *testing.T) {
	r := reportOf(t, small(nil))
	text := func() string {
		var out bytes.Buffer
		must.OK(t, WriteText(&out, r, Options{Width: 120}))
		return out.String()
	}
	const heading = "Parts of CPU/request, total"
	if strings.Contains(text(), heading) {
		t.Error("parts of trials without slices")
	}
	for i := range r.Treatments {
		metrics := r.Treatments[i].Metrics
		for name, v := range map[string]float64{metric.CPUPerRequest: 587, metric.DeferredPerRequest: -0.04, metric.IdlePerRequest: 3.3, metric.IdleCPU: 0.0029} {
			e := metrics[metric.Of(metric.CPUPerRequest, "total")]
			e.Estimate = v
			metrics[metric.Of(name, "total")] = e
		}
	}
	_, section, _ := strings.Cut(text(), heading)
	for _, line := range strings.Split(section, "\n") {
		if f := strings.Fields(line); len(f) > 0 && f[0] == "envoy" {
			if want := "envoy 583.7 0.0 3.3 587.0 2.9"; strings.Join(f, " ") != want {
				t.Errorf("%q, want %q", f, want)
			}
			return
		}
	}
	t.Errorf("no parts of envoy: %s", section)
}
