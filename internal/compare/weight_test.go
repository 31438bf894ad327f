package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/test/difftest"
)

// A machine whose speed changes moves costs and weight. What follows the speed has the coefficient 1 and
// is constant in weights; what does not has 0, and varies more in weights than before.
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
	follows, steady, negative := all[0].Costs[0], all[0].Costs[1], all[0].Costs[3]
	if d := difftest.Wrong("follows.Metric != data", follows.Metric != data, "follows.Coefficient.Excludes(1)", follows.Coefficient.Excludes(1), "!follows.Coefficient.Excludes(0.5)", !follows.Coefficient.Excludes(0.5), "math.Abs(follows.Weights.Estimate-1.5) > 0.03", math.Abs(follows.Weights.Estimate-1.5) > 0.03, "*follows.CVWeights > 0.3**follows.CV", *follows.CVWeights > 0.3**follows.CV); d != "" {
		t.Errorf("%s: %+v, coefficient %+v", d, follows, follows.Coefficient)
	}
	if d := difftest.Wrong("steady.Metric != total", steady.Metric != total, "steady.Coefficient.Excludes(0)", steady.Coefficient.Excludes(0), "!steady.Coefficient.Excludes(0.5)", !steady.Coefficient.Excludes(0.5), "*steady.CVWeights < 2**steady.CV", *steady.CVWeights < 2**steady.CV); d != "" {
		t.Errorf("%s: %+v, coefficient %+v", d, steady, steady.Coefficient)
	}
	if negative.Coefficient != nil || negative.Weights.Estimate >= 0 {
		t.Errorf("%+v", negative)
	}
}

// The noise of the slices is separate from the change of the weight between blocks.
func TestNoiseOfTheWeight(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for want, slow := range map[float64]float64{1: 0, 0.2: 0.02} { // 1 % of noise of the mean, and of twice that between blocks
		var weights []float64
		var trials []figures.Measured
		for range 400 {
			level, sum := 200*(1+slow*r.NormFloat64()), 0.0
			rows := make([]float64, 25)
			for i := range rows {
				rows[i] = level + 10*r.NormFloat64()
				sum += rows[i]
			}
			weights, trials = append(weights, sum/25), append(trials, figures.Measured{Slices: figures.SliceCosts{"data": append(rows, math.NaN())}})
		}
		if got := noiseShare(weights, trials); got == nil || math.Abs(*got-want) > 0.15 {
			t.Errorf("noise share %v, want %v", got, want)
		}
		if noiseShare(weights[:2], trials[:2]) != nil || noiseShare(weights, make([]figures.Measured, 400)) != nil {
			t.Error("two blocks, or trials without slices, have a noise share")
		}
	}
}
