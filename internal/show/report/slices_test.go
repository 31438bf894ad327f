package report

import (
	"bytes"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/test/must"
	"strings"
	"testing"
)

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
