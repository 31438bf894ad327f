package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/statstest"
)

// sweep is an experiment of one mesh against none over several rates, in memory. effects
// are the true differences by metric and rate, in standard deviations of a pair.
type sweep struct {
	blocks, rates int
	effects       map[string][]float64
}

// sweepMetrics are independent here, which is the worst for a family.
var sweepMetrics = []string{
	metric.CPUPerRequest + "/total", metric.CPUPerRequest + "/data", metric.CPUPerRequest + "/app",
	metric.Memory + "/data", metric.Latency + "/p50", metric.Latency + "/p99", metric.Rate,
}

// judge makes one run of the experiment and judges it as a report does.
func (s sweep) judge(r *rand.Rand) ([]compared, []asked) {
	a := &Run{estimator: estimator{confidence: 0.95, method: Paired, blocks: s.blocks}}
	trials := map[string][]figures.Measured{}
	for l := range s.rates {
		for _, mesh := range []string{"none", "envoy"} {
			t := plan.Treatment{ID: fmt.Sprint(mesh, l), Factors: plan.Factors{"mesh": mesh, "rate": float64(l)}}
			if mesh == "envoy" {
				t.Baseline = fmt.Sprint("none", l)
			}
			a.Plan.Treatments = append(a.Plan.Treatments, t)
			for b := 1; b <= s.blocks; b++ {
				trial := figures.Measured{Trial: figures.Trial{Block: b, Valid: true, Treatment: t.ID, Metrics: map[string]float64{}}}
				for _, name := range sweepMetrics {
					v := 1000 + r.NormFloat64()/math.Sqrt2
					if e := s.effects[name]; e != nil && mesh == "envoy" {
						v += e[l]
					}
					trial.Metrics[name] = v
				}
				trials[t.ID] = append(trials[t.ID], trial)
			}
		}
	}
	var cs []compared
	for i := 0; i < len(a.Plan.Treatments); i += 2 {
		base, t := a.Plan.Treatments[i], a.Plan.Treatments[i+1]
		cs = append(cs, a.estimator.compare(t, base, trials[t.ID], trials[base.ID])...)
	}
	questions := a.questions(cs, trials)
	a.estimator.adjust(cs, questions)
	return cs, questions
}

// Six treatments that cost what their baseline costs: at most one report in twenty names any of them.
func TestNullTreatmentsOfOneBaseline(t *testing.T) {
	experiments := statstest.Rounds(t, 300, 3000)
	const blocks, treatments = 6, 6
	r := rand.New(rand.NewPCG(94, 1))
	wrong := 0
	for range experiments {
		a := &Run{estimator: estimator{confidence: 0.95, method: Paired, blocks: blocks}}
		trials := map[string][]figures.Measured{}
		for i := range treatments + 1 {
			level := fmt.Sprint("mesh", i)
			p := plan.Treatment{ID: level, Factors: plan.Factors{"mesh": level}}
			if i > 0 {
				p.Baseline = "mesh0"
			}
			a.Plan.Treatments = append(a.Plan.Treatments, p)
			for b := 1; b <= blocks; b++ {
				trial := figures.Measured{Trial: figures.Trial{Block: b, Valid: true, Treatment: level, Metrics: map[string]float64{}}}
				for _, name := range sweepMetrics {
					trial.Metrics[name] = 1000 + r.NormFloat64()
				}
				trials[level] = append(trials[level], trial)
			}
		}
		var cs []compared
		for _, p := range a.Plan.Treatments[1:] {
			cs = append(cs, a.estimator.compare(p, a.Plan.Treatments[0], trials[p.ID], trials["mesh0"])...)
		}
		questions := a.questions(cs, trials)
		a.estimator.adjust(cs, questions)
		if questions[0].Tests != treatments*len(sweepMetrics) {
			t.Fatalf("%d tests in the first step", questions[0].Tests)
		}
		for _, c := range cs {
			if shown(c.Verdict) {
				wrong++
				break
			}
		}
	}
	share := float64(wrong) / float64(experiments)
	t.Logf("a false claim in %.3f of reports", share)
	if share > 0.05+3*math.Sqrt(0.05*0.95/float64(experiments)) {
		t.Errorf("a false claim in %.3f of reports", share)
	}
}

func shown(v Verdict) bool { return v == Higher || v == Lower }

// Without any difference, at most one run in twenty has any claim, of means or of levels.
func TestSweepWithoutDifferences(t *testing.T) {
	experiments := statstest.Rounds(t, 600, 4000)
	for _, s := range []sweep{{blocks: 6, rates: 1}, {blocks: 6, rates: 5}, {blocks: 3, rates: 5}} {
		r := rand.New(rand.NewPCG(90, uint64(s.rates)))
		wrong := 0
		for range experiments {
			cs, questions := s.judge(r)
			claim := false
			for _, c := range cs {
				claim = claim || shown(c.Verdict)
			}
			for _, q := range questions {
				for _, p := range q.pooled {
					claim = claim || shown(p.Verdict)
				}
			}
			if claim {
				wrong++
			}
		}
		share := float64(wrong) / float64(experiments)
		t.Logf("%d rates, %d blocks: a false claim in %.3f of runs", s.rates, s.blocks, share)
		if share > 0.05+4*math.Sqrt(0.05*0.95/float64(experiments)) {
			t.Errorf("%d rates, %d blocks: a false claim in %.3f of runs", s.rates, s.blocks, share)
		}
	}
}

// Where a metric differs at some rates, the mean chance of a false claim about its other
// rates is bounded. A difference at every rate is found that one family of all
// comparisons would have missed.
func TestSweepWithDifferences(t *testing.T) {
	experiments := statstest.Rounds(t, 400, 2000)
	const rates = 10
	some, all := make([]float64, rates), make([]float64, rates)
	for l := range rates {
		all[l] = 3
		if l < rates/2 {
			some[l] = 8
		}
	}
	s := sweep{blocks: 6, rates: rates, effects: map[string][]float64{sweepMetrics[0]: some, sweepMetrics[1]: all}}
	r := rand.New(rand.NewPCG(91, 1))
	wrong, pooled, found, before, heterogeneous := 0.0, 0, 0, 0, 0
	for range experiments {
		cs, questions := s.judge(r)
		families, falseFamilies := 0.0, 0.0
		for _, p := range questions[0].pooled {
			if !shown(p.Verdict) {
				continue
			}
			families++
			for _, c := range cs {
				if e := s.effects[c.Metric]; c.Metric == p.Metric && shown(c.Verdict) && (e == nil || e[int(c.Factors["rate"].(float64))] == 0) {
					falseFamilies++
					break
				}
			}
			if p.Metric == sweepMetrics[1] {
				pooled++
			}
			if p.Metric == sweepMetrics[0] && *p.Heterogeneity < 0.05 {
				heterogeneous++
			}
		}
		if families > 0 {
			wrong += falseFamilies / families
		}
		var p []float64
		at := 0
		for _, c := range cs {
			if c.Metric == sweepMetrics[1] && c.Factors["rate"] == 0.0 {
				at = len(p)
				if shown(c.Verdict) {
					found++
				}
			}
			p = append(p, *c.P)
		}
		if stats.Holm(p)[at] < 0.05 {
			before++
		}
	}
	share := func(n float64) float64 { return n / float64(experiments) }
	t.Logf("false families %.3f; means found %.3f; a level found %.3f, in one family %.3f", share(wrong), share(float64(pooled)), share(float64(found)), share(float64(before)))
	if share(wrong) > 0.05+4*math.Sqrt(0.05*0.95/float64(experiments)) {
		t.Errorf("%.3f of the families selected have a false claim", share(wrong))
	}
	if share(float64(pooled)) < 0.99 || share(float64(heterogeneous)) < 0.99 {
		t.Errorf("the mean of a difference at every rate is found in %.3f, its unevenness in %.3f", share(float64(pooled)), share(float64(heterogeneous)))
	}
	if found < before+experiments/10 {
		t.Errorf("a level is found in %.3f of runs, in one family of all comparisons in %.3f", share(float64(found)), share(float64(before)))
	}
}

// A difference of the printed smallest size is found with 80 % power, in the report's
// own families: alone, and beside six metrics without a difference.
func TestSmallestIsFound(t *testing.T) {
	experiments := statstest.Rounds(t, 500, 3000)
	for _, live := range []int{1, 7} {
		effects := map[string][]float64{}
		size, _ := stats.ShareFor(6, 0.05/float64(live), stats.Power)
		effects[sweepMetrics[0]] = []float64{size}
		for _, name := range sweepMetrics[live:] {
			effects[name] = []float64{100}
		}
		effects[sweepMetrics[0]] = []float64{size}
		r := rand.New(rand.NewPCG(92, uint64(live)))
		found, sum := 0, 0.0
		for range experiments {
			cs, _ := sweep{blocks: 6, rates: 1, effects: effects}.judge(r)
			c := find(cs, sweepMetrics[0])
			if shown(c.Verdict) {
				found++
			}
			sum += math.Pow(c.Smallest.Estimate/size, 2)
			if c.Smallest.Level < 0.05/float64(live)-1e-9 {
				t.Fatalf("level %v of %d hypotheses", c.Smallest.Level, live)
			}
		}
		power := float64(found) / float64(experiments)
		t.Logf("%d live hypotheses: found in %.3f", live, power)
		if power < 0.76 || power > 0.85 {
			t.Errorf("%d live hypotheses: the smallest difference is found in %.3f", live, power)
		}
		if mean := math.Sqrt(sum / float64(experiments)); live == 1 && math.Abs(mean-1) > 0.05 {
			t.Errorf("the printed size is %.3f of the true one", mean)
		}
	}
}

// Means over levels rest on blocks that have every level.
func TestPooledBlocks(t *testing.T) {
	s := sweep{blocks: 4, rates: 2, effects: map[string][]float64{sweepMetrics[0]: {100, 300}}}
	_, questions := s.judge(rand.New(rand.NewPCG(1, 1)))
	if len(questions) != 1 || len(questions[0].Treatments) != 2 {
		t.Fatalf("%+v", questions)
	} else if d := difftest.Of("questions[0].ID", questions[0].ID, "mesh=envoy against mesh=none", "questions[0].Tests", questions[0].Tests, len(sweepMetrics)); d != "" {
		t.Fatalf("%s: %+v", d, questions)
	}
	for _, p := range questions[0].pooled {
		if p.Metric == sweepMetrics[0] && (p.N != 4 || p.Levels != 2 || math.Abs(p.Difference.Estimate-200) > 3 || p.Verdict != Higher || math.Abs(p.Ratio.Estimate-math.Sqrt(1.1*1.3)) > 0.01) {
			t.Errorf("%+v, ratio %+v", p, *p.Ratio)
		}
		if p.Metric == sweepMetrics[4] && (!p.OnRatio || p.Difference.Estimate > 3 || p.Difference.Estimate < -3) {
			t.Errorf("%+v, difference %+v", p, *p.Difference)
		}
	}
}
