package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/stats"
)

// The report names the larger source of noise and its remedy, and an interval of one block only
// with the words that limit it.
func TestSourcesOfNoise(t *testing.T) {
	r := reportOf(t, small(nil))
	sd, low, high := 12.0, 338.0, 352.0
	r.Noise = []analysis.NoiseSource{
		{Treatment: "envoy", Baseline: "none", Metric: "cpu_us_per_request/data", Unit: "us", Blocks: 4, Slices: 40, Slice: 3, Deployment: &sd},
		{Treatment: "envoy", Baseline: "none", Metric: "cpu_us_per_request/total", Unit: "us", Blocks: 4, Slices: 40, Slice: 50, Deployment: &sd},
		{Treatment: "envoy", Baseline: "none", Metric: "cpu_us_per_request/app", Unit: "us", Blocks: 1, Slices: 40, Slice: 3, These: &stats.Interval{Estimate: 345, Low: &low, High: &high}},
	}
	price := analysis.BlockPrice{Block: 4, Row: 0.3}
	for _, c := range []struct{ slice, between float64 }{{3, 12}, {12, 12}, {60, 12}} {
		best := price.BestSlices(c.slice*math.Sqrt(40), c.between)
		r.Noise = append(r.Noise, analysis.NoiseSource{Treatment: "envoy", Baseline: "none", Metric: "cpu_us_per_request/total", Unit: "us", Blocks: 4, Slices: 40,
			Slice: c.slice, Deployment: &c.between, Price: &price, BestSlices: &best})
	}
	var out bytes.Buffer
	if err := writeText(&out, r, Options{}); err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(out.String(), "Sources of noise")
	if !found {
		t.Fatalf("no section in\n%s", out.String())
	}
	for _, want := range []string{"envoy against none", "12 µs", "3.0 µs  more blocks\n", "50 µs  longer blocks (phases.measure), or more",
		"3.0 µs  more blocks, and shorter ones\n", "12 µs  more blocks, and shorter ones\n", "60 µs  longer blocks (phases.measure × 2.9), then more\n",
		"these deployments only: +345.0 µs [+338.0, +352.0]; more blocks"} {
		if !strings.Contains(section, want) {
			t.Errorf("no %q in\n%s", want, section[:min(len(section), 1200)])
		}
	}
	r.Noise = nil
	out.Reset()
	if err := writeText(&out, r, Options{}); err != nil || strings.Contains(out.String(), "Sources of noise") {
		t.Errorf("trials without slices have the section, %v", err)
	}
}
