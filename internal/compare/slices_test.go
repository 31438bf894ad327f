package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/test/difftest"
)

// Differences of blocks with known noise between deployments and between slices: both are recovered,
// and noise that all slices of a row share is in neither.
func TestNoiseIsDividedBySource(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const blocks, rows = 400, 40
	for _, c := range []struct{ deployment, slice float64 }{{10, 0}, {0, 60}, {10, 60}, {2, 90}} {
		byTreatment := map[string][]figures.Measured{}
		for block := 1; block <= blocks; block++ {
			shared := make([]float64, rows)
			for i := range shared {
				shared[i] = 500 * rng.NormFloat64() // the machine's own speed
			}
			for _, id := range []string{"none", "envoy"} {
				own := c.deployment * rng.NormFloat64()
				costs, sum := make([]float64, rows), 0.0
				for i := range costs {
					costs[i] = 100 + own + shared[i] + c.slice*rng.NormFloat64()
					sum += costs[i]
				}
				byTreatment[id] = append(byTreatment[id], figures.Measured{Slices: figures.SliceCosts{"data": costs},
					Trial: figures.Trial{Block: block, Metrics: map[string]float64{"cpu_us_per_request/data": sum / rows}}})
			}
		}
		x := estimator{confidence: 0.95}
		n := x.noiseSources([]plan.Treatment{{ID: "none"}, {ID: "envoy", Baseline: "none"}}, byTreatment, &BlockPrice{Block: 5, Row: 0.2})
		if c.slice == 0 {
			if len(n) == 1 && n[0].Slice > 1e-6 {
				t.Errorf("%+v", n[0])
			}
			continue
		}
		if len(n) != 1 {
			t.Fatalf("%+v", n)
		} else if d := difftest.Of("n[0].Blocks", n[0].Blocks, blocks, "n[0].Slices", n[0].Slices, rows, "n[0].Deployment == nil", n[0].Deployment == nil, false, "n[0].These != nil", n[0].These != nil, false); d != "" {
			t.Fatalf("%s: %+v", d, n)
		}
		// A difference has the noise of two treatments.
		slice, deployment := c.slice*math.Sqrt(2.0/rows), c.deployment*math.Sqrt2
		if math.Abs(n[0].Slice/slice-1) > 0.05 || math.Abs(*n[0].Deployment-deployment) > 0.25*max(slice, deployment) {
			t.Errorf("slices %.2f, deployments %.2f; want %.2f and %.2f", n[0].Slice, *n[0].Deployment, slice, deployment)
		}
		if best := math.Sqrt(5/0.2) * c.slice / c.deployment; c.deployment >= 10 && (n[0].BestSlices == nil || math.Abs(*n[0].BestSlices/best-1) > 0.3) {
			t.Errorf("best number of slices %v, want %.1f", n[0].BestSlices, best)
		}
	}
}

// One block has an interval for its own deployments.
func TestNoiseOfOneBlock(t *testing.T) {
	of := func(costs ...float64) []figures.Measured {
		return []figures.Measured{{Slices: figures.SliceCosts{"data": costs}, Trial: figures.Trial{Block: 1, Metrics: map[string]float64{"cpu_us_per_request/data": costs[0]}}}}
	}
	x := estimator{confidence: 0.95}
	n := x.noiseSources([]plan.Treatment{{ID: "envoy", Baseline: "none"}}, map[string][]figures.Measured{"none": of(1, 2, 3, math.NaN()), "envoy": of(11, 13, 12, 5)}, nil)
	if len(n) != 1 || n[0].Deployment != nil || n[0].These == nil {
		t.Errorf("%+v", n)
	} else if d := difftest.Of("n[0].These.Known()", n[0].These.Known(), true, "n[0].Slices", n[0].Slices, 3, "n[0].These.Estimate", n[0].These.Estimate, 10); d != "" {
		t.Errorf("%s: %+v", d, n)
	}
	// A block without slices, such as one whose file is gone, changes nothing.
	gone := figures.Measured{Trial: figures.Trial{Block: 2, Metrics: map[string]float64{"cpu_us_per_request/data": 1}}}
	again := x.noiseSources([]plan.Treatment{{ID: "envoy", Baseline: "none"}}, map[string][]figures.Measured{"none": append(of(1, 2, 3, math.NaN()), gone), "envoy": append(of(11, 13, 12, 5), gone)}, nil)
	if len(again) != 1 || again[0].These == nil || again[0].These.Estimate != 10 {
		t.Errorf("with a block without slices: %+v", again)
	}
}
