package cli

import (
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
)

// A delay of 50 ms in the control plane is in the part of the control plane, and not in the part of the proxies.
func TestDelayIsInThePartOfTheControlPlane(t *testing.T) {
	r, _ := undisturbed(t, "route-change.yaml", "blocks=1", "control=false", "factors={mesh: [envoy-xds, delayed-50ms], rate: [200], connections: [8]}",
		"baseline={mesh: envoy-xds}", "changes={every: 150ms, count: 20}", "phases={warmup: 1s, measure: 4s, drain: 200ms}", "validity={rateShortfall: 0.5, lateness: 5s}")
	part := func(treatment, name string) float64 {
		i := slices.IndexFunc(r.ChangeParts, func(p answer.ChangeParts) bool { return p.Treatment == treatment })
		if i < 0 || r.ChangeParts[i].Changes == 0 {
			t.Fatalf("%s has no parts: %+v, %+v", treatment, r.ChangeParts, r.Warnings)
		}
		p := r.ChangeParts[i]
		of := slices.IndexFunc(p.Parts, func(x answer.ChangePart) bool { return x.Name == name })
		if of < 0 {
			t.Fatalf("%s has no part %s: %+v", treatment, name, p.Parts)
		}
		t.Logf("%s: %s %.2f ms of %.2f ms (%d changes, %d left out)", treatment, name, p.Parts[of].MS.Estimate, p.Whole.Estimate, p.Changes, p.LeftOut)
		return p.Parts[of].MS.Estimate
	}
	if ms := part("delayed-50ms", "control plane"); ms < 50 || ms > 90 {
		t.Errorf("the part of the control plane is %v ms, want 50 and what a busy machine adds", ms)
	}
	if more := part("delayed-50ms", "proxies") - part("envoy-xds", "proxies"); more > 40 {
		t.Errorf("the part of the proxies is %v ms longer with a delay of the control plane", more)
	}
}
