package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/test/difftest"
)

// A machine whose speed changes moves costs and weight. What follows the speed is constant in weights, and what does not varies.
func TestStandardWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	const data, total = "cpu_us_per_request/data", "cpu_us_per_request/total"
	by := map[string][]figures.Measured{}
	for block := 1; block <= 20; block++ {
		slow := math.Exp(0.1 * r.NormFloat64())
		noise := func() float64 { return 1 + 0.01*r.NormFloat64() }
		of := func(id string, data_, total_ float64) {
			by[id] = append(by[id], figures.Measured{Trial: figures.Trial{Block: block, Valid: true, Metrics: map[string]float64{data: data_, total: total_}}})
		}
		of("none", 0, 100)
		of("reference", 300*slow*noise(), 400*slow)
		of("envoy", 450*slow*noise(), 100+600*noise())
		of("lighter", 150*slow*noise(), 90)
	}
	a := &Run{estimator: estimator{confidence: 0.95, method: Paired, blocks: 20}}
	a.Plan.Treatments = []plan.Treatment{{ID: "none"}, {ID: "reference", Baseline: "none", Reference: true}, {ID: "envoy", Baseline: "none"}, {ID: "lighter", Baseline: "none"}}
	all := a.standardWeights(by)
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	} else if d := difftest.Of("all[0].N", all[0].N, 20, "len(all[0].Costs)", len(all[0].Costs), 4, "math.Abs(all[0].Weight.Estimate-300) > 40", math.Abs(all[0].Weight.Estimate-300) > 40, false); d != "" {
		t.Fatalf("%s: %+v", d, all)
	}
	follows, negative := all[0].Costs[0], all[0].Costs[3]
	if half, _ := follows.Weights.HalfWidth(); follows.Metric != data || math.Abs(follows.Weights.Estimate-1.5) > 0.03 || half > 0.02 {
		t.Errorf("%+v, which follows the speed", follows)
	}
	steady := all[0].Costs[1]
	if half, _ := steady.Weights.HalfWidth(); steady.Metric != total || half < 0.05 {
		t.Errorf("%+v, which does not follow the speed", steady)
	}
	if negative.Weights.Estimate >= 0 {
		t.Errorf("%+v", negative)
	}
}
