package answer

import (
	"math"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
)

// The errors of two lines add as squares, and rates at both ends of the measured range are measured.
func TestCoresBetweenRates(t *testing.T) {
	r := &Report{}
	r.Confidence = 0.95
	for _, id := range []string{"none", "mesh"} {
		f := plan.Factors{"mesh": id}
		r.Treatments = append(r.Treatments, compare.Treatment{ID: id, Factors: f, Baseline: "none"})
		r.Lines = append(r.Lines, compare.Line{Factors: f, Part: "total", From: 50, To: 400})
		for i, rate := range []float64{50, 50, 100, 200, 200, 400, 400} {
			noise := 0.001 * float64(i%3) * map[string]float64{"none": 1, "mesh": 1.5}[id]
			r.Trials = append(r.Trials, figures.Trial{Treatment: id, Factors: f, Valid: true, Metrics: map[string]float64{metric.CPUCores + "/total": rate/1000 + noise, metric.Rate: rate}})
		}
	}
	u := UnitCost{Treatment: "mesh", Bill: AddedBill, Rate: 9}
	both, _ := r.coresAt(u, 300)
	with, _ := r.along(r.Treatments[1].Factors, "total", 300)
	without, _ := r.along(r.Treatments[0].Factors, "total", 300)
	if both == nil || with == nil || without == nil {
		t.Fatal("no line")
	}
	h, _ := both.HalfWidth()
	h1, _ := with.HalfWidth()
	h2, _ := without.HalfWidth()
	if h1 <= 0 || h2 <= 0 || math.Abs(h*h-h1*h1-h2*h2) > 1e-9*h*h || both.Estimate != with.Estimate-without.Estimate {
		t.Errorf("%v of %v and %v", h, h1, h2)
	}
	for rate, beyond := range map[float64]bool{49: true, 50: false, 400: false, 401: true} {
		if _, how := r.coresAt(u, rate); strings.Contains(how, "BEYOND") != beyond {
			t.Errorf("%v/s: %s", rate, how)
		}
	}
}
