package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer/answertest"
	"github.com/tare-mesh/tare/internal/base/must"
)

// An interval at the mean speed of the machine is beside the one over its speeds, with the slope. Without
// interleaving there is none.
func TestSpeedOfTheMachine(t *testing.T) {
	s := answertest.Quickstart()
	s.Treatments, s.Drift, s.Bare, s.Order = s.Treatments[:3], 0.3, true, "interleaved"
	for order, want := range map[string]bool{"interleaved": true, "": false} {
		s.Order = order
		r := reportOf(t, s)
		c, _ := r.Find("envoy", "cpu_us_per_request/data")
		if (c.Speed != nil) != want {
			t.Fatalf("order %q: adjusted %v", order, c.Speed)
		}
		var out bytes.Buffer
		must.OK(t, writeText(&out, r, Options{Width: 2000, All: true}))
		_, sentence, found := strings.Cut(out.String(), "Adjusted for the machine's speed in each block, which narrows the interval: ")
		if found != want {
			t.Fatalf("order %q: %s", order, out.String())
		}
		if !want {
			continue
		}
		sentence, _, _ = strings.Cut(sentence, "\n")
		must.Contain(t, sentence, "CPU/request, data plane of envoy (unadjusted "+bounds(c.Speed.Unadjusted, 1, signed)+" µs, slope ", "CPU/request, total of envoy (", "at the mean speed of this run", "Ratios are not adjusted.")
	}
}
