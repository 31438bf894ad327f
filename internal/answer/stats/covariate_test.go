package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// probed is a synthetic experiment. Its readings are proportional to the processor's
// slowness, and a probe measures the slowness with an error. The subject is the
// difference at the mean speed of the run: 10 times the factor of that speed.
type probed struct {
	name string
	// slow is the processor's slowness in a trial, log; probe the reading of the probe, log.
	slow  func(r *rand.Rand, before float64) float64
	probe func(r *rand.Rand, slow float64) float64
	noise float64 // of a reading, percent
	used  [2]float64
}

func walk(step float64) func(*rand.Rand, float64) float64 {
	return func(r *rand.Rand, before float64) float64 { return before + step*r.NormFloat64() }
}

var probedShapes = []probed{
	{"probe shows the drift of the processor", walk(0.04), func(r *rand.Rand, slow float64) float64 { return slow + 0.003*r.NormFloat64() }, 0.5, [2]float64{0.5, 1}},
	{"probe shows some of it", walk(0.04), func(r *rand.Rand, slow float64) float64 { return slow + 0.03*r.NormFloat64() }, 2, [2]float64{0.02, 1}},
	{"probe shows half as much", walk(0.04), func(r *rand.Rand, slow float64) float64 { return 0.5*slow + 0.01*r.NormFloat64() }, 1, [2]float64{0.1, 1}},
	{"probe unrelated", walk(0.02), func(r *rand.Rand, _ float64) float64 { return 0.03 * r.NormFloat64() }, 2, [2]float64{0, 0.03}},
	{"no drift, a noisy probe", walk(0), func(r *rand.Rand, _ float64) float64 { return 0.02 * r.NormFloat64() }, 3, [2]float64{0, 0.03}},
	{"probe shows it, heavy tails", walk(0.04), func(r *rand.Rand, slow float64) float64 { return slow + 0.01*student5(r) }, 1, [2]float64{0.3, 1}},
}

// probedExperiment is the readings of one experiment so far.
type probedExperiment struct {
	probed
	x, y, px, py []float64 // treatment, baseline, and their probes
	slow, total  float64
}

func newProbedExperiment(s probed) *probedExperiment { return &probedExperiment{probed: s} }

// block adds one block in random order.
func (e *probedExperiment) block(r *rand.Rand) {
	var v, p [2]float64
	levels, second := [2]float64{110, 100}, r.IntN(2)
	for _, side := range []int{second, 1 - second} {
		e.slow = e.probed.slow(r, e.slow)
		e.total += e.slow
		v[side] = levels[side]*(1+e.slow) + e.noise*r.NormFloat64()
		p[side] = e.probe(r, e.slow)
	}
	e.x, e.y, e.px, e.py = append(e.x, v[0]), append(e.y, v[1]), append(e.px, p[0]), append(e.py, p[1])
}

// truth is the difference at the mean speed of the run.
func (e *probedExperiment) truth() float64 { return truth * (1 + e.total/float64(2*len(e.x))) }

// The interval keeps its coverage whether the probe is of use or not, the choice between the two included.
func TestCoverageWithAProbe(t *testing.T) {
	experiments := 10000
	low, high := 0.93, 0.97
	if testing.Short() {
		experiments, low, high = 4000, 0.92, 0.98
	}
	documented := documentedCoverage(t)
	for _, s := range probedShapes {
		for column, blocks := range []int{6, 8, 12, 20} {
			r := rand.New(rand.NewPCG(20261121, uint64(blocks)))
			covered, used, narrower := 0, 0, 0.0
			for range experiments {
				e := newProbedExperiment(s)
				for range blocks {
					e.block(r)
				}
				x, y, px, py := e.x, e.y, e.px, e.py
				truth := e.truth()
				raw := PairedDifference(x, y, 0.95)
				a, use := ProbedDifference(x, y, px, py, 0.95)
				result := raw
				if use {
					before, _ := raw.HalfWidth()
					after, _ := a.HalfWidth()
					used, narrower, result = used+1, narrower+1-after/before, a.Result
				}
				if !result.Excludes(truth) {
					covered++
				}
			}
			got := float64(covered) / float64(experiments)
			share := float64(used) / float64(experiments)
			t.Logf("%-40s %2d blocks: covers %.3f, used in %.3f, narrower by %.2f", s.name, blocks, got, share, narrower/math.Max(1, float64(used)))
			checkDocumented(t, documented[s.name], column, got, experiments)
			if got < low || got > high {
				t.Errorf("%s, %d blocks: a 95 %% interval covers %.3f", s.name, blocks, got)
			}
			if share < s.used[0] || share > s.used[1] {
				t.Errorf("%s, %d blocks: the probe is used in %.3f of the experiments", s.name, blocks, share)
			}
		}
	}
}

// A covariate that explains all of the deviation leaves the truth, with the coefficient one.
func TestProbedPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	n := 12
	x, y, px, py := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		px[i], py[i] = 0.1*r.NormFloat64(), 0.1*r.NormFloat64()
		x[i], y[i] = 300*math.Exp(px[i])*(1+0.002*r.NormFloat64()), 100*math.Exp(py[i])*(1+0.002*r.NormFloat64())
	}
	want := 200 * math.Exp((Mean(px)+Mean(py))/2) // at the mean speed
	d, ok1 := ProbedDifference(x, y, px, py, 0.95)
	q, ok2 := ProbedRatio(x, y, px, py, 0.95)
	raw := PairedRatio(x, y, 0.95)
	before, _ := raw.HalfWidth()
	after, _ := q.HalfWidth()
	if !ok1 || !ok2 || math.Abs(d.Estimate-want) > 4 || math.Abs(q.Estimate-3) > 0.02 || math.Abs(q.Coefficient-1) > 0.05 || after > before/10 {
		t.Errorf("%v %+v, %v %+v (raw %v)", ok1, d.Interval, ok2, q, raw.Interval)
	}
	if p, ok := q.Within(2.1); !ok || p > 0.001 {
		t.Errorf("within 2.1: %v %v", p, ok)
	}
	if v := d.Detectable(0.05, Power); !(v > 0) || v > before*100 {
		t.Errorf("detectable %v", v)
	}
	for i := range px {
		px[i] += 0.5 // the probe is slower beside every treatment: it measured the treatment
	}
	if _, used := ProbedDifference(x, y, px, py, 0.95); used {
		t.Error("a probe that differs between treatments is used")
	}
	if _, used := ProbedDifference(x[:5], y[:5], px[:5], py[:5], 0.95); used {
		t.Error("five pairs are enough")
	}
}

// The regression against the certified values of NIST's linear reference set Norris.
func TestAdjustNorris(t *testing.T) {
	pairs := []float64{0.1, 0.2, 338.8, 337.4, 118.1, 118.2, 888.0, 884.6, 9.2, 10.1, 228.1, 226.5, 668.5, 666.3, 998.5, 996.3, 449.1, 448.6,
		778.9, 777.0, 559.2, 558.2, 0.3, 0.4, 0.1, 0.6, 778.1, 775.5, 668.8, 666.9, 339.3, 338.0, 448.9, 447.5, 10.8, 11.6, 557.7, 556.0, 228.3, 228.1,
		998.0, 995.8, 888.8, 887.6, 119.6, 120.2, 0.3, 0.3, 0.6, 0.3, 557.6, 556.8, 339.3, 339.1, 888.0, 887.2, 998.5, 999.0, 778.9, 779.0, 10.2, 11.1,
		117.6, 118.3, 228.9, 229.2, 668.4, 669.1, 449.2, 448.9, 0.2, 0.5}
	var x, z []float64
	for i := 0; i < len(pairs); i += 2 {
		x, z = append(x, pairs[i]), append(z, pairs[i+1])
	}
	a, _ := adjust(x, z, 0.95, 1)
	if math.Abs(a.Estimate - -0.262323073774029) > 1e-9 || math.Abs(a.Coefficient-1.00211681802045) > 1e-11 || math.Abs(a.SE-0.232818234301152) > 1e-9 {
		t.Errorf("intercept %v, slope %v, standard error of the intercept %v", a.Estimate, a.Coefficient, a.SE)
	}
}
