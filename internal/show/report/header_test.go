package report

import (
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// The line of the load has what all treatments have in common.
func TestLoadLine(t *testing.T) {
	r := &answer.Report{Setup: compare.Setup{Platform: "local", CPUs: 2, CPUModel: "AMD EPYC"}, Treatments: []compare.Treatment{
		{Factors: plan.Factors{"mesh": "none", "rate": 1000., "connections": 16., "responseSize": 1024.}},
		{Factors: plan.Factors{"mesh": "envoy", "rate": 1000., "connections": 16., "responseSize": 1024.}}}}
	if got, want := LoadLine(r), "Load: 1000 requests/s, 16 connections, response size 1 KiB; 2 CPUs (AMD EPYC)."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r.Treatments[0].Factors["rate"], r.Treatments[1].Factors["responseSize"] = 500., nil
	r.Setup.Platform = "kubernetes"
	if got, want := LoadLine(r), "Load: 16 connections."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := LoadLine(&answer.Report{}); got != "" {
		t.Errorf("%q of nothing", got)
	}
}
