package compare

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// Undecided is the outcome of a gate that is neither shown to hold nor to be breached yet.
const Undecided Outcome = "undecided"

// decisionError is the probability of a false breach, and of a false hold, over all looks of a run. False breaches
// of several gates or treatments share it.
const decisionError = 0.05

// Decision is a gate within one run: the paired differences of the blocks so far against its limit.
type Decision struct {
	Gate      string       `json:"gate"`
	Metric    string       `json:"metric"`
	Treatment string       `json:"treatment"`
	Factors   plan.Factors `json:"factors"`
	Baseline  string       `json:"baseline"`
	Outcome   Outcome      `json:"outcome"` // holds, breached or undecided
	Unit      string       `json:"unit"`    // of Limit, Detect and Change: "%", or the metric's
	Upper     bool         `json:"upper"`
	Limit     float64      `json:"limit"`
	Detect    float64      `json:"detect,omitempty"` // holds: below Limit plus this
	// Change has the repeated interval: the values that the test rejects on neither side, over all looks.
	Change *stats.Interval `json:"change,omitempty"`
	Pairs  int             `json:"pairs"`
	Max    int             `json:"max"` // planned
	// Last: it was the last look, which spends the error that is left.
	Last bool `json:"last,omitempty"`
	// Lost are the blocks without a pair, with the reason.
	Lost []LostPair `json:"lost,omitempty"`
	// A and B are the means of the baseline and of the treatment, in the metric's unit.
	A *float64 `json:"a,omitempty"`
	B *float64 `json:"b,omitempty"`
	// MorePairs would decide it, with this spread and difference, with 80 % power.
	// 0 means that it is decided, or not in reach.
	MorePairs int `json:"more_pairs,omitempty"`
	// Minutes of MorePairs, by the duration of the blocks so far.
	Minutes float64 `json:"minutes,omitempty"`
	// MemoryGrowth is the difference in growth, MiB a minute, if memory was still growing at the end.
	MemoryGrowth *stats.Interval `json:"memory_growth_mib_per_minute,omitempty"`
	// Control is the same change between the two baselines of the A/A pair, absent without one.
	Control *stats.Interval `json:"control,omitempty"`
	Why     string          `json:"why,omitempty"` // it cannot be decided, or its basis
	// Doubts are the assumptions that the pairs break. The gate is then undecided.
	Doubts []string `json:"doubts,omitempty"`
	// Doubted is the outcome without Doubts. Absent: undecided as well.
	Doubted Outcome `json:"doubted,omitempty"`
}

// Decisions judge the gates of the experiment for every treatment that they choose.
func (run *Run) Decisions() (all []Decision, err error) {
	var gates []Gate
	for _, text := range run.File.Decide.Gates {
		g, err := ParseGate(text)
		if err != nil {
			return nil, err
		}
		gates = append(gates, g)
	}
	if len(gates) == 0 {
		return nil, nil
	}
	trials, planned := run.validByTreatment(), run.Plan.ByID()
	type chosen struct {
		gate      Gate
		treatment plan.Treatment
	}
	var due []chosen
	for _, g := range gates {
		before := len(due)
		for _, t := range run.Plan.Treatments {
			if t.Baseline != "" && !t.Control && levelsAre(t.Factors, g.Where) {
				due = append(due, chosen{g, t})
			}
		}
		if len(due) == before {
			return nil, &GateError{Gate: g.Text, Column: 1, Message: "it chooses no treatment that is compared with a baseline"}
		}
	}
	for _, c := range due {
		w := gateTest{gate: c.gate, detect: float64(run.File.Decide.Detect), looks: max(run.Planned, run.Plan.Blocks), tests: len(due), last: isLastLook(run)}
		p := run.estimator.pairs(c.gate.Metric, byBlock(trials[c.treatment.ID]), byBlock(trials[c.treatment.Baseline]))
		d, distance := w.decide(p.treatment, p.baseline)
		unfailed(run, &d, w, trials[c.treatment.ID], trials[c.treatment.Baseline])
		if d.Outcome != Undecided {
			if d.Doubts = doubtsOf(run, c.gate.Metric, c.treatment, planned[c.treatment.Baseline], trials); d.Doubts != nil {
				d.Doubted, d.Outcome = d.Outcome, Undecided
			}
		}
		d.Lost = lostPairs(run, c.gate.Metric, c.treatment.ID, c.treatment.Baseline)
		d.Treatment, d.Factors, d.Baseline = c.treatment.ID, c.treatment.Factors, c.treatment.Baseline
		d.MorePairs = morePairs(distance, d.Pairs)
		d.Minutes = float64(d.MorePairs) * blockTime(run).Minutes()
		for _, t := range run.Plan.Treatments {
			if t.Control && t.Baseline == c.treatment.Baseline {
				p := run.estimator.pairs(c.gate.Metric, byBlock(trials[t.ID]), byBlock(trials[t.Baseline]))
				control, _ := w.decide(p.treatment, p.baseline)
				d.Control = control.Change
			}
		}
		all = append(all, d)
	}
	return all, nil
}

// blockTime is the mean duration of the blocks so far, without interruptions.
func blockTime(run *Run) time.Duration {
	blocks := 0
	for _, t := range run.Trials {
		blocks = max(blocks, t.Block)
	}
	return result.Worked(run.Records) / time.Duration(max(blocks, 1))
}

// doubting are the diagnoses under which a gate is undecided: its error rests on independent pairs of one distribution.
var doubting = []string{"pairs-dependent", "effect-drifts", "outlier-block"}

// doubtsOf are the diagnoses of the pairs of one treatment that concern a metric, each with its code.
func doubtsOf(run *Run, name string, t, base plan.Treatment, trials map[string][]figures.Measured) (all []string) {
	if m, _ := metric.Lookup(name); !m.SpeedSensitive {
		return nil // memory and counts are equal in most blocks
	}
	cs := run.estimator.compare(t, base, trials[t.ID], trials[base.ID])
	for i := range cs {
		if cs[i].Metric == name {
			cs[i].Family = Headline
		}
	}
	for _, w := range diagnoses(cs) {
		if slices.Contains(doubting, w.Code) && figures.NamesMetric(w.Metrics, name) {
			all = append(all, w.Code+": "+w.Message)
		}
	}
	return all
}

// unfailed decides a gate on failures, or on the rate, of blocks without any failure, whose values all agree. The bounds
// are exact and over requests: n of n answered is a share above 1-alpha^(1/n) with probability 1-alpha (Clopper, Pearson,
// Biometrika 1934). The first look at which such a bound holds a gate is the only one that can be wrong, so that the
// looks share no error. Failures that come in rare whole blocks are not seen before one comes.
func unfailed(run *Run, d *Decision, w gateTest, treatment, baseline []figures.Measured) {
	if d.Outcome != Undecided || d.Pairs < experiment.DecideFrom() || d.A == nil || !isZero(*d.B-*d.A, *d.A, *d.B) {
		return
	}
	requests := func(trials []figures.Measured) (n, lost int64) {
		for _, t := range trials {
			for i := range run.Records {
				if r := &run.Records[i]; r.ID == t.ID && r.Load != nil {
					ended, failed := figures.CountEnded(r.Load)
					n, lost = n+ended, lost+failed
				}
			}
		}
		return n, lost
	}
	after, lostAfter := requests(treatment)
	before, lostBefore := requests(baseline)
	if lostAfter+lostBefore > 0 || min(after, before) == 0 {
		return
	}
	// low and high are the largest shares that may fail at A and at B.
	alpha := decisionError / float64(max(w.tests, 1))
	low, high := stats.ShareBound(0, before, alpha), stats.ShareBound(0, after, alpha)
	scale, per := 1.0, 1.0
	switch w.gate.Metric {
	case metric.ErrorRatio:
	case metric.RequestsLost, metric.Timeouts:
		per = float64(after) / float64(len(treatment)) // of a trial
	case metric.Rate:
		low, high = high, low // what fails at B lowers its rate
		if scale = *d.A; w.gate.Relative {
			scale = 100
		}
	default:
		return
	}
	if w.gate.Relative && w.gate.Metric != metric.Rate {
		return // no percentage of zero: Why has the cure
	}
	change := stats.Interval{}
	from, to := -low*scale*per, high*scale*per
	change.Low, change.High = &from, &to
	d.Change = &change
	d.Why = fmt.Sprintf("nothing failed in %d and %d requests: the interval is over requests", before, after)
	if d.Outcome = w.gate.judge(from, to); d.Outcome == CannotTell {
		d.Outcome = Undecided
	}
}

// gateTest is the sequential test of one gate. Its decisions are simulated in decide_internal_test.go.
type gateTest struct {
	gate   Gate
	detect float64 // share
	looks  int     // planned pairs
	tests  int     // gates and treatments of the run
	last   bool    // no pair will follow
}

// decide judges pairs of values by block, treatment and baseline. A false breach, with the true change at the limit
// or within, and a false hold, with the true change at the limit and detect or beyond, have probability
// decisionError at most over all looks. Of several tests, each breach has its share of the error: any of them fails
// the run. Holds need no share: all of them must hold. An undecided gate has the distance for [morePairs], which is
// slow, so that looks of a simulation do without it.
func (w gateTest) decide(treatment, baseline []float64) (d Decision, distance float64) {
	g := w.gate
	m, _ := metric.Lookup(g.Metric)
	d = Decision{Gate: g.Text, Metric: g.Metric, Outcome: Undecided, Unit: m.Unit, Upper: g.Upper, Limit: g.Limit, Pairs: len(treatment), Max: w.looks, Last: w.last}
	limit, beyond := g.Limit, g.Limit
	sign := 1.0
	if !g.Upper {
		sign = -1
	}
	var changes []float64
	if g.Relative {
		d.Unit, d.Detect = "%", 100*w.detect
		limit, beyond = math.Log1p(g.Limit/100), math.Log1p((g.Limit+sign*d.Detect)/100)
	}
	for i := range treatment {
		if !g.Relative {
			changes = append(changes, treatment[i]-baseline[i])
			continue
		}
		if !(treatment[i] > 0 && baseline[i] > 0) {
			d.Why = "a value is zero or below, and has no ratio: give an absolute limit"
			return d, 0
		}
		changes = append(changes, math.Log(treatment[i]/baseline[i]))
	}
	if len(changes) > 0 {
		a, b := stats.Mean(baseline), stats.Mean(treatment)
		d.A, d.B = &a, &b
	}
	hold := w.spending(len(changes), decisionError).Bounds(changes)
	breach := w.spending(len(changes), decisionError/float64(max(w.tests, 1))).Bounds(changes)
	for _, r := range []*stats.Result{&hold, &breach} {
		r.Widen(stats.Lasting(changes))
	}
	d.Change = w.shown(hold.Interval)
	if len(changes) >= experiment.DecideFrom() && hold.Why == stats.NoSpread {
		d.Why = "all blocks agree to the last digit: the metric is coarser than the difference"
		return d, 0
	}
	if !hold.Known() || !breach.Known() {
		return d, 0
	}
	switch {
	case g.Upper && *breach.Low > limit, !g.Upper && *breach.High < limit:
		d.Outcome = Breached
	case g.Upper && *hold.High < beyond, !g.Upper && *hold.Low > beyond:
		d.Outcome = Holds
	default:
		distance = math.Max(sign*(hold.Estimate-limit), sign*(beyond-hold.Estimate)) / hold.SD
	}
	return d, distance
}

// spending is the test of a hypothesis at level alpha after pairs of the planned ones.
func (w gateTest) spending(pairs int, alpha float64) stats.Spending {
	if w.last {
		return stats.NewSpendingUntil(experiment.DecideFrom(), w.looks, pairs, alpha)
	}
	return stats.NewSpending(experiment.DecideFrom(), w.looks, alpha)
}

// maxMorePairs is the max number of further pairs that is called in reach.
const maxMorePairs = 1000

// morePairs is the number of pairs after the given ones that decides a gate with 80 % power, if the observed difference is
// the true one. The distance is from the nearer limit, in standard deviations of a pair. 0 means that it is not in reach.
func morePairs(distance float64, pairs int) int {
	needed, ok := stats.BlocksFor(distance, 2*decisionError, stats.Power)
	if !ok || needed > maxMorePairs {
		return 0
	}
	return max(needed-pairs, 1)
}

// shown is an interval of changes in the unit of the gate.
func (w gateTest) shown(i stats.Interval) *stats.Interval {
	if math.IsNaN(i.Estimate) {
		return nil
	}
	if !w.gate.Relative {
		return &i
	}
	ratio := stats.Interval{Estimate: math.Exp(i.Estimate)}
	if i.Known() {
		low, high := math.Exp(*i.Low), math.Exp(*i.High)
		ratio.Low, ratio.High = &low, &high
	}
	return percent(ratio)
}

// Words are a decision in a line.
func (d *Decision) Words() string {
	change := "no interval yet"
	if d.Change != nil {
		change = fmt.Sprintf("%+.2f %s", d.Change.Estimate, d.Unit)
		if d.Change.Known() {
			change += fmt.Sprintf(" (%+.2f to %+.2f)", *d.Change.Low, *d.Change.High)
		}
	}
	name := d.Metric
	if m, ok := metric.Lookup(d.Metric); ok {
		name = m.Title()
	}
	return fmt.Sprintf("%s: %s: %s after %s", name, d.Outcome, change, printable.Counted(d.Pairs, "pair"))
}
