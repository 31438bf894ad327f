package kubecli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/difftest"
)

// A load worker in a pod searches the highest rate, without a mesh and through Istio's sidecars. The sidecars
// and the service have every request of its probes.
func TestKubernetesIstioCapacity(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("TARE_TEST_ALL is not set: make e2e-all runs it")
	}
	kubeconfig, charts := clusterWithIstio(t)
	const image = "tare.test/tare-agent:capacity"
	bin := agentInCluster(t, image)
	text := fmt.Sprintf(istioExperiment, kubeconfig, image, "echo", os.Getenv("TARE_TEST_ISTIO_TAG"), charts, "", "")
	before, after, ok := strings.Cut(text, "rate: [50]")
	if !ok {
		t.Fatalf("no rate in\n%s", text)
	}
	text = before + `rate: [{max: "p90 < 300ms, errors < 10%", share: 30%, probes: 6, probe: 1s}]` + after
	report, records, _ := measured(t, bin, text)
	if len(records) != 2 {
		t.Fatalf("%d records", len(records))
	}
	open := map[string]bool{} // treatments whose every probe kept the objective
	for _, r := range records {
		if r.Error != "" || r.Load == nil || r.Load.Capacity == nil {
			t.Fatalf("%s: %s: %+v", r.ID, r.Error, r.Warnings)
		}
		c := r.Load.Capacity
		open[r.Treatment] = c.Open != ""
		t.Logf("%s: %.0f requests/s (%.0f to %.0f), open %q, %d probes", r.Treatment, c.Rate, c.Low, c.High, c.Open, len(c.Probes))
		if d := difftest.Wrong("len(c.Probes) != 6", len(c.Probes) != 6, "c.Rate <= 0", c.Rate <= 0, "c.Low > c.Rate", c.Low > c.Rate, "c.Rate > c.High", c.Rate > c.High); d != "" {
			t.Errorf("%s: %s: %+v", d, r.ID, c)
		}
		if share := r.Load.AskedRate / c.Rate; share < 0.2999 || share > 0.3001 {
			t.Errorf("%s: measured at %v of %v", r.ID, r.Load.AskedRate, c.Rate)
		}
		if !slices.ContainsFunc(r.Phases, func(p result.Phase) bool { return p.Name == "search" }) {
			t.Errorf("%s: phases %+v", r.ID, r.Phases)
		}
		if slices.ContainsFunc(r.Warnings, func(w result.Warning) bool { return w.Code == "requests-not-conserved" || w.Code == "capacity-unknown" }) {
			t.Errorf("%s: %+v", r.ID, r.Warnings)
		}
		if got := sidecarsOf(r); got != map[string]int{"none": 0, "istio": 2}[r.Treatment] {
			t.Errorf("%s: %d sidecars", r.ID, got)
		}
	}
	for _, tr := range report.Treatments {
		if _, ok := tr.Metrics[metric.Capacity]; ok == open[tr.ID] {
			t.Errorf("%s: open %v, and %s known %v", tr.ID, open[tr.ID], metric.Capacity, ok)
		}
	}
}
