package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// An interval at the mean speed of the machine is beside the one over its speeds, with the slope.
func TestSpeedOfTheMachine(t *testing.T) {
	for _, adjusted := range []bool{true, false} {
		r := reportOf(t, answertest.Quickstart())
		c := &r.Comparisons[slices.IndexFunc(r.Comparisons, func(c compare.Comparison) bool {
			return c.Treatment == "envoy" && c.Metric == "cpu_us_per_request/data"
		})]
		low, high := 0.5, 0.9
		if adjusted {
			c.Speed = &compare.SpeedAdjusted{Unadjusted: *c.Difference, Slope: &stats.Interval{Estimate: 0.7, Low: &low, High: &high}}
		}
		var out bytes.Buffer
		must.OK(t, writeText(&out, r, Options{Width: 2000, All: true}))
		_, sentence, found := strings.Cut(out.String(), "Adjusted for the machine's speed in each block, which narrows the interval: ")
		if found != adjusted {
			t.Fatalf("adjusted %v: %s", adjusted, out.String())
		}
		if adjusted {
			must.Contain(t, sentence, "CPU/request, data plane of envoy (unadjusted "+bounds(c.Speed.Unadjusted, 1, signed)+" µs, slope 0.70 ±0.20)", "at the mean speed of this run", "Ratios are not adjusted.")
		}
	}
}
