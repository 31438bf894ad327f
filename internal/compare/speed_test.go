package compare

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/statstest"
)

// spedMachine is a machine whose speed differs from block to block, from row to row of slices by 5 % and from slice to slice by
// 3 %. Envoy's data plane costs 360 µs at mean speed and follows the speed with a slope. Each deployment has its own deviation;
// load and application share it.
type spedMachine struct {
	name         string
	slope        float64
	drift, burst float64 // of the speed: relative over the run; standard deviation from block to block
	own          float64 // standard deviation of a deployment, relative
	seen         float64 // the same of application and load
	shift        float64 // by which the treatment slows application and load: constant,
	leak         float64 // and as a share of its own deviation
	heavy        bool
	none         bool // the treatment costs nothing
	beyond       bool // more passes than the adjustment allows for: coverage is documented and not bounded
}

var spedMachines = []spedMachine{
	{name: "speed constant", slope: 0.7, own: 0.02, seen: 0.01},
	{name: "slope 0, drift of 5 %", drift: 0.05, own: 0.02, seen: 0.01},
	{name: "slope 0, drift of 20 %", drift: 0.2, own: 0.02, seen: 0.01},
	{name: "slope 0.7, drift of 5 %", slope: 0.7, drift: 0.05, own: 0.02, seen: 0.01},
	{name: "slope 0.7, drift of 20 %", slope: 0.7, drift: 0.2, own: 0.02, seen: 0.01},
	{name: "slope 1, drift of 5 %", slope: 1, drift: 0.05, own: 0.02, seen: 0.01},
	{name: "slope 1, drift of 20 %", slope: 1, drift: 0.2, own: 0.02, seen: 0.01},
	{name: "slope 0.7, bursts of 6 %", slope: 0.7, burst: 0.06, own: 0.02, seen: 0.01},
	{name: "slope 1, bursts of 6 %, work to 5 %", slope: 1, burst: 0.06, own: 0.02, seen: 0.05},
	{name: "bursts, heavy tails", slope: 1, burst: 0.06, own: 0.02, seen: 0.02, heavy: true},
	{name: "bursts, treatment slows the baselines by 5 %", slope: 1, burst: 0.06, own: 0.02, seen: 0.01, shift: 0.05},
	{name: "treatment passes on a tenth of its deviation", own: 0.04, seen: 0.01, leak: 0.1},
	{name: "treatment passes on 0.15", own: 0.04, seen: 0.005, leak: 0.15},
	{name: "treatment passes on half", own: 0.04, seen: 0.005, leak: 0.5, beyond: true},
	{name: "bursts, treatment passes on a tenth", slope: 1, burst: 0.03, own: 0.04, seen: 0.01, leak: 0.1},
	{name: "bursts, treatment passes on 0.15", slope: 1, burst: 0.03, own: 0.04, seen: 0.01, leak: 0.15},
	{name: "slope 0.7, bursts, treatment passes on 0.15", slope: 0.7, burst: 0.06, own: 0.02, seen: 0.01, leak: 0.15},
	{name: "bursts, treatment passes on half", slope: 1, burst: 0.03, own: 0.04, seen: 0.01, leak: 0.5, beyond: true},
	{name: "slope 0.7, bursts, treatment passes on half", slope: 0.7, burst: 0.06, own: 0.02, seen: 0.01, leak: 0.5, beyond: true},
	{name: "treatment passes on all", own: 0.04, seen: 0.005, leak: 1, beyond: true},
	{name: "bursts, treatment passes on all", slope: 1, burst: 0.03, own: 0.04, seen: 0.01, leak: 1, beyond: true},
	{name: "bursts, no difference", burst: 0.06, own: 0.02, seen: 0.02, none: true},
}

func (m spedMachine) noise(r *rand.Rand, sd float64) float64 {
	if !m.heavy {
		return sd * r.NormFloat64()
	}
	chi := 0.0 // Student's t with five degrees of freedom, of this standard deviation
	for range 5 {
		chi += math.Pow(r.NormFloat64(), 2)
	}
	return sd * math.Sqrt(3.0/5) * r.NormFloat64() / math.Sqrt(chi/5)
}

// speedRows is the number of slices of each trial.
const speedRows = 12

// trials returns the trials of one run, by treatment, with the true differences at the mean speed of its blocks.
func (m spedMachine) trials(r *rand.Rand, blocks int) (by map[string][]figures.Measured, truth map[string]float64) {
	by, truth = map[string][]figures.Measured{}, map[string]float64{}
	app, sidecar := 108.0, 360.0
	if m.none {
		app, sidecar = 90, 0
	}
	for b := 1; b <= blocks; b++ {
		slow := m.drift*(float64(b-1)/float64(blocks-1)-0.5) + m.noise(r, m.burst)
		var row [speedRows]float64
		for i := range row {
			row[i] = slow + 0.05*r.NormFloat64()
			truth[dataCPU] += sidecar * math.Exp(m.slope*row[i]) / float64(blocks*speedRows)
			truth[simulated] += (sidecar*math.Exp(m.slope*row[i]) + (app-90*(1+m.shift))*math.Exp(row[i])) / float64(blocks*speedRows)
		}
		deviation := m.noise(r, m.own)
		for _, id := range []string{"none", "none-control", "envoy"} {
			own, level, proxied, weight := 1+m.noise(r, m.seen)+m.leak*deviation, app, 1+deviation, sidecar
			if id != "envoy" {
				own, level, weight = own+m.shift, 90, 0
			}
			costs, us := figures.SliceCosts{}, map[string]float64{}
			for i := range row {
				speed := row[i] + 0.03*r.NormFloat64()
				work := math.Exp(speed) * own
				slice := map[string]float64{"app": level * work, "load": 100 * work * (1 + 0.005*r.NormFloat64()), "data": weight * math.Exp(m.slope*speed) * proxied}
				slice["total"] = slice["app"] + slice["data"]
				for part, v := range slice {
					costs[part] = append(costs[part], v)
					us[metric.Of(metric.CPUPerRequest, part)] += v / speedRows
				}
			}
			by[id] = append(by[id], figures.Measured{Slices: costs, Trial: figures.Trial{ID: id + strconv.Itoa(b), Treatment: id, Block: b, Valid: true, Metrics: us}})
		}
	}
	return by, truth
}

var dataCPU = metric.Of(metric.CPUPerRequest, "data")

// compared are the comparisons of a run of interleaved trials.
func comparedAtSpeed(by map[string][]figures.Measured, blocks int) []compared {
	treatments := []plan.Treatment{{ID: "none"}, {ID: "none-control", Baseline: "none", Control: true}, {ID: "envoy", Baseline: "none"}}
	a := &Run{
		Plan:      plan.Plan{Order: experiment.OrderInterleaved, Treatments: treatments},
		estimator: estimator{confidence: 0.95, method: Paired, blocks: blocks},
	}
	for _, trials := range by {
		a.Trials = append(a.Trials, trials...)
	}
	a.estimator.speed = a.machineSpeed()
	return a.estimator.compare(treatments[2], treatments[0], by["envoy"], by["none"])
}

// Intervals at the mean speed of the machine keep their coverage, the choice included, and a treatment that slows the
// measurements of the speed does not mislead them.
func TestCoverageAtMeanSpeed(t *testing.T) {
	const all = 2000
	experiments, low := statstest.Rounds(t, 80, all), 0.93
	if experiments < all {
		low = 0.84
	}
	documented := statstest.Coverage(t)
	for _, m := range spedMachines {
		rows := map[string]*speedRow{dataCPU: {name: m.name + ", data plane"}, simulated: {name: m.name + ", total"}}
		for _, blocks := range []int{5, 6, 13, 30} {
			r := rand.New(rand.NewPCG(20261123, uint64(blocks)))
			for _, row := range rows {
				row.covered, row.used, row.before, row.after = append(row.covered, 0), 0, 0, 0
			}
			for range experiments {
				by, truth := m.trials(r, blocks)
				for _, c := range comparedAtSpeed(by, blocks) {
					if row := rows[c.Metric]; row != nil && c.Difference.Known() {
						row.add(c.Comparison, truth[c.Metric], float64(experiments))
					}
				}
			}
		}
		for _, name := range []string{dataCPU, simulated} {
			row := rows[name]
			if row.after == 0 {
				continue // without any such cost
			}
			t.Logf("| %s | %.3f | %.3f | %.3f | %.3f | %.0f | ±%.1f for ±%.1f |", row.name, row.covered[0], row.covered[1], row.covered[2], row.covered[3], 100*row.used, row.after, row.before)
			for i, got := range row.covered {
				if got < low && !m.beyond {
					t.Errorf("%s, column %d: a 95 %% interval covers %.3f", row.name, i, got)
				}
				if d := documented[row.name]; len(d) < 4 || math.Abs(d[i]-got) > 0.0015+4*math.Sqrt(math.Max(0.05*0.95, got*(1-got))/float64(experiments)) {
					t.Errorf("%s, column %d: test/statstest/speed.txt has %v, this is %.3f", row.name, i, d, got)
				}
			}
		}
	}
}

// All treatments show the speed, but for cost of the application not the compared sides. Loads one after another, and runs that
// stop at a width, are not adjusted.
func TestSpeedIsSeenOutsideTheComparison(t *testing.T) {
	m := spedMachine{slope: 1, drift: 0.3, own: 0.005, seen: 0.005}
	by, _ := m.trials(rand.New(rand.NewPCG(1, 2)), 8)
	fromOf := func(cs []compared, name string) string {
		if c := find(cs, name); c.Speed != nil {
			if d := difftest.Wrong("c.Difference.Estimate != c.Speed.Unadjusted.Estimate", c.Difference.Estimate != c.Speed.Unadjusted.Estimate, "c.Speed.Slope.Estimate > 1.1", c.Speed.Slope.Estimate > 1.1, "c.Speed.Slope.Excludes(c.Speed.Slope.Estimate)", c.Speed.Slope.Excludes(c.Speed.Slope.Estimate), "c.Speed.Narrower < 0.1", c.Speed.Narrower < 0.1); d != "" {
				t.Errorf("%s: %s: %v adjusted %+v", d, name, c.Difference, c.Speed)
			}
			return strings.Join(c.Speed.Treatments, " ")
		}
		return ""
	}
	cs := comparedAtSpeed(by, 8)
	if data, total := fromOf(cs, dataCPU), fromOf(cs, simulated); data != "envoy none none-control" || total != "none-control" {
		t.Errorf("data plane by %q, total by %q", data, total)
	}
	by["none-control"] = by["none-control"][1:] // one trial is invalid
	cs = comparedAtSpeed(by, 8)
	if data, total := fromOf(cs, dataCPU), fromOf(cs, simulated); data != "envoy none" || total != "" {
		t.Errorf("without a trial of the A/A pair: data plane by %q, total by %q", data, total)
	}
	for _, p := range []plan.Plan{{}, {Order: experiment.OrderInterleaved, Until: "2 %"}} {
		if a := (&Run{Plan: p, estimator: estimator{method: Paired}}); a.machineSpeed() != nil {
			t.Errorf("plan %+v is adjusted", p)
		}
	}
}

// The mean over the levels of a question, which comes before them, is adjusted as they are: a difference that only the
// machine's drift hides is shown at both levels.
func TestMeanOverLevelsAtMeanSpeed(t *testing.T) {
	const blocks = 9
	m := spedMachine{slope: 1, drift: 3, own: 0.005, seen: 0.005}
	r := rand.New(rand.NewPCG(3, 4))
	a := &Run{
		Plan:      plan.Plan{Order: experiment.OrderInterleaved},
		estimator: estimator{confidence: 0.95, method: Paired, blocks: blocks},
	}
	by := map[string][]figures.Measured{}
	for _, rate := range []string{"1000", "4000"} {
		at := func(id string) string { return id + "@" + rate }
		a.Plan.Treatments = append(a.Plan.Treatments,
			plan.Treatment{ID: at("none"), Factors: plan.Factors{"mesh": "none", "rate": rate}},
			plan.Treatment{ID: at("none-control"), Factors: plan.Factors{"mesh": "none", "rate": rate}, Baseline: at("none"), Control: true},
			plan.Treatment{ID: at("envoy"), Factors: plan.Factors{"mesh": "envoy", "rate": rate}, Baseline: at("none")})
		trials, _ := m.trials(r, blocks)
		for _, id := range []string{"none", "none-control", "envoy"} {
			for _, trial := range trials[id] {
				// 10 µs more with the treatment, which follow the machine's speed
				own := 1 + m.noise(r, m.own)
				for row, work := range trial.Slices["load"] {
					cost := 100 * own
					if id == "envoy" {
						cost += 10 * math.Log(work/100)
						cost += 10
					}
					trial.Slices["total"][row] = cost
				}
				trial.Metrics[simulated] = stats.Mean(trial.Slices["total"])
				trial.ID, trial.Treatment = at(trial.ID), at(id)
				by[at(id)] = append(by[at(id)], trial)
				a.Trials = append(a.Trials, trial)
			}
		}
	}
	a.estimator.speed = a.machineSpeed()
	var cs []compared
	for i := range 2 {
		base, envoy := a.Plan.Treatments[3*i], a.Plan.Treatments[3*i+2]
		cs = append(cs, a.estimator.compare(envoy, base, by[envoy.ID], by[base.ID])...)
	}
	questions := a.questions(cs, by)
	a.estimator.adjust(cs, questions)
	for _, p := range questions[0].Pooled {
		if p.Metric != simulated {
			continue
		}
		if p.Speed == nil {
			t.Errorf("mean over the levels: %+v, speed %+v", p, p.Speed)
		} else if d := difftest.Of("p.Verdict", p.Verdict, Higher, "p.Difference.Estimate", p.Difference.Estimate, p.Speed.Unadjusted.Estimate, "p.Speed.Unadjusted.Excludes(0)", p.Speed.Unadjusted.Excludes(0), false, "len(p.Speed.Treatments)", len(p.Speed.Treatments), 2); d != "" {
			t.Errorf("%s: mean over the levels: %+v, speed %+v", d, p, p.Speed)
		}
	}
	for i := range cs {
		c := &cs[i]
		if c.Metric != simulated {
			continue
		}
		if c.Speed == nil || c.Speed.Slope == nil || c.Verdict != Higher {
			t.Errorf("%s: %s, %+v", c.Treatment, c.Verdict, c.Speed)
		}
		if a.estimator.holm(cs, []int{i}, 0.05, 1, 1); c.Verdict != NotShown || c.BlocksNeeded != 0 {
			t.Errorf("%s, without the step before: %s, %d of %d blocks needed", c.Treatment, c.Verdict, c.BlocksNeeded, c.N)
		}
	}
}

// Earlier runs are planned for at the mean speed if the plan is interleaved too.
func TestSpreadAtMeanSpeed(t *testing.T) {
	by, _ := spedMachine{slope: 1, drift: 0.2, own: 0.005, seen: 0.005}.trials(rand.New(rand.NewPCG(1, 2)), 8)
	c := find(comparedAtSpeed(by, 8), dataCPU)
	ts := []Treatment{{ID: "envoy", Metrics: map[string]Estimate{dataCPU: {Interval: stats.Interval{Estimate: 360}}}}}
	raw, rawDF, _ := c.spread(ts, false)
	at, df, _ := c.spread(ts, true)
	if c.Speed == nil || at > raw/2 {
		t.Errorf("spread %.4f on %v, at mean speed %.4f on %v", raw, rawDF, at, df)
	} else if d := difftest.Of("rawDF", rawDF, 7, "df", df, 6); d != "" {
		t.Errorf("%s: spread %.4f on %v, at mean speed %.4f on %v", d, raw, rawDF, at, df)
	}
}

// speedRow is a row of the table: shares of experiments, and half-widths in µs.
type speedRow struct {
	name                string
	covered             []float64 // by number of blocks
	used, before, after float64   // with the last number
}

func (s *speedRow) add(c Comparison, truth, experiments float64) {
	if !c.Difference.Excludes(truth) {
		s.covered[len(s.covered)-1] += 1 / experiments
	}
	half, _ := c.Difference.HalfWidth()
	s.after += half / experiments
	if c.Speed != nil {
		s.used += 1 / experiments
		half, _ = c.Speed.Unadjusted.HalfWidth()
	}
	s.before += half / experiments
}

// A slope relative to a difference that may be zero means nothing.
func TestSlopeOfNoDifference(t *testing.T) {
	x := &estimator{confidence: 0.95}
	from, to := -10.0, 12.0
	raw := stats.Interval{Estimate: 1, Low: &from, High: &to}
	for _, low := range []float64{-1, 0.5} {
		high := 3.0
		d := stats.Result{Interval: stats.Interval{Estimate: 1, Low: &low, High: &high}}
		if s := x.speedAdjusted(raw, &d, stats.AtSpeed{Slope: 1, SE: 0.1, DF: 20}, nil); s == nil || (s.Slope != nil) != (low > 0) {
			t.Errorf("interval from %g: %+v", low, s)
		}
	}
}

// An A/A pair shows no difference in 95 % of runs, although its two sides have their slices at different moments.
func TestEqualProxiesAtMeanSpeed(t *testing.T) {
	const blocks = 8
	rounds := statstest.Rounds(t, 300, 4000)
	m, r := spedMachine{slope: 1, burst: 0.06, own: 0.005, seen: 0.005}, rand.New(rand.NewPCG(7, 8))
	covered := 0.0
	for range rounds {
		by, _ := m.trials(r, blocks)
		for i := range by["none"] { // a second Envoy in the slices of the baseline
			trial := &by["none"][i]
			for row := range trial.Slices["data"] {
				speed := trial.Slices["load"][row] / 100
				trial.Slices["data"][row] = 360 * speed
			}
			trial.Metrics[dataCPU] = stats.Mean(trial.Slices["data"])
		}
		for _, c := range comparedAtSpeed(by, blocks) {
			if c.Metric == dataCPU && !c.Difference.Excludes(0) {
				covered += 1 / float64(rounds)
			}
		}
	}
	t.Logf("covers %.3f", covered)
	if covered < 0.93-3*math.Sqrt(0.05*0.95/float64(rounds)) {
		t.Errorf("the difference of equal proxies is within the interval in %.3f of runs", covered)
	}
}
