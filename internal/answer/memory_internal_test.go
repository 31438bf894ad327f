package answer

import (
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

func TestMemoryGrows(t *testing.T) {
	estimate := func(low, mean, high float64) compare.Estimate {
		return compare.Estimate{Interval: stats.Interval{Estimate: mean, Low: &low, High: &high}, N: 6}
	}
	treatment := func(low, mean, high float64) compare.Treatment {
		return compare.Treatment{ID: "leak", Metrics: map[string]compare.Estimate{
			metric.Of(metric.Memory, "data"):                 estimate(36, 37, 38),
			metric.Of(metric.MemoryGrowth, "data"):           estimate(low, mean, high),
			metric.Of(metric.MemoryGrowthPerRequest, "data"): estimate(0, 32000, 64000),
		}}
	}
	for _, c := range []struct {
		name string
		of   compare.Treatment
		want string
	}{
		{"leak", treatment(182.3, 192.1, 201.9), "memory was still growing at the end: data plane of leak by 192 MiB a minute (182 to 202), 32.00 KiB a request"},
		{"within its interval", treatment(-1, 5, 11), ""},
		{"surely, and too little to see", treatment(14, 15, 16), ""},
		{"too few trials", compare.Treatment{Metrics: map[string]compare.Estimate{metric.Of(metric.MemoryGrowth, "data"): {Interval: stats.Interval{Estimate: 9}}}}, ""},
	} {
		got := ""
		r := Report{Treatments: []compare.Treatment{c.of}, Comparisons: []compare.Comparison{{Treatment: "leak", Metric: metric.Of(metric.Memory, "data")}}}
		r.markGrowth(6)
		for _, w := range memoryGrows(r.Treatments) {
			got += w.Message
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		marks := len(r.Comparisons[0].Warnings) + len(r.Treatments[0].Metrics[metric.Of(metric.Memory, "data")].Warnings)
		if grows := c.want != ""; marks != map[bool]int{true: 2}[grows] {
			t.Errorf("%s: %d marks of figure and comparison", c.name, marks)
		}
	}
}
