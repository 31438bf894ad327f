package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// Undecided is the outcome of a gate that is neither shown to hold nor to be breached: the bound lies inside the interval, or there
// is none.
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
	// A and B are the means of the baseline and of the treatment, in the metric's unit. Of programs that end they are geometric.
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
	// Doubts are the assumptions that the pairs or their programs break. The gate is then undecided.
	Doubts []string `json:"doubts,omitempty"`
	// Doubted is the outcome without Doubts. Absent: undecided as well.
	Doubted Outcome `json:"doubted,omitempty"`
	// Far: the limit is beyond three times the interval, so that no dependence of the pairs brings it near.
	Far bool `json:"far,omitempty"`
	// OneSide: the blocks are all on one side of the limit, by more than chance (sign test).
	OneSide bool `json:"oneSide,omitempty"`
	// Timed: a time ends the run, and not its number of blocks alone.
	Timed bool `json:"timed,omitempty"`
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
	due, err := gateTests(run, gates)
	if err != nil {
		return nil, err
	}
	planned := run.Plan.ByID()
	trials := run.validByTreatment()
	for _, w := range due {
		d, distance := w.judge(run, w.treatment.ID, w.treatment.Baseline, trials)
		if w.implied && d.Outcome != Breached {
			continue
		}
		if d.Outcome != Undecided {
			if d.Doubts = w.doubtOfCold(run, d.Outcome, trials); !d.Far {
				doubts := doubtsOf(run, w.gate.Metric, w.treatment, planned[w.treatment.Baseline], trials)
				drift := slices.IndexFunc(doubts, func(doubt string) bool { return strings.HasPrefix(doubt, driftCode) })
				if drift >= 0 && d.OneSide {
					doubts = slices.Concat(doubts[:drift], doubts[drift+1:]) // nil without others
					d.Why = fmt.Sprintf("ratios to the baseline change over the run, but each of its %d blocks is %s the limit", d.Pairs, map[Outcome]string{Breached: "beyond", Holds: "within"}[d.Outcome])
				}
				d.Doubts = append(doubts, d.Doubts...)
			}
			if d.Doubts != nil {
				d.Doubted, d.Outcome = d.Outcome, Undecided
			}
		}
		d.Treatment, d.Factors, d.Baseline = w.treatment.ID, w.treatment.Factors, w.treatment.Baseline
		d.MorePairs = morePairs(distance, d.Pairs)
		d.Minutes, d.Timed = float64(d.MorePairs)*blockTime(run).Minutes(), run.File.Decide.Within > 0
		for _, t := range run.Plan.Treatments {
			if t.Control && t.Baseline == w.treatment.Baseline {
				control, _ := w.judge(run, t.ID, t.Baseline, trials)
				d.Control = control.Change
			}
		}
		all = append(all, d)
	}
	return all, nil
}

// gateTests are the tests of a run: each gate on each treatment that it chooses, and the gate on failures on each treatment
// without one of its own.
func gateTests(run *Run, gates []Gate) (due []gateTest, err error) {
	own := map[string]bool{}
	events := 0 // gates on counts
	add := func(g Gate, t plan.Treatment, implied bool) {
		w := gateTest{gate: g, treatment: t, implied: implied, detect: float64(run.File.Decide.Detect), looks: max(run.Planned, run.Plan.Blocks), last: isLastLook(run), atEnd: run.File.Decide.AtEnd}
		if w.counts = countsOf(run, g.Metric, t.ID, t.Baseline); w.counts != nil {
			events++
		}
		if due = append(due, w); g.Metric == metric.ErrorRatio {
			own[t.ID] = true
		}
	}
	for _, g := range gates {
		before := len(due)
		for _, t := range run.Plan.Treatments {
			if t.Baseline != "" && !t.Control && levelsAre(t.Factors, g.Where) {
				add(g, t, false)
			}
		}
		if len(due) == before {
			return nil, &GateError{Gate: g.Text, Column: 1, Message: "it chooses no treatment that is compared with a baseline"}
		}
	}
	for _, t := range run.Plan.Treatments {
		if t.Baseline != "" && !t.Control && !own[t.ID] && countsOf(run, metric.ErrorRatio, t.ID, t.Baseline) != nil {
			add(failureGate(run), t, true)
		}
	}
	ofCounts, ofPairs := decisionError, decisionError
	if events > 0 && events < len(due) {
		ofCounts, ofPairs = countShare*decisionError, (1-countShare)*decisionError
	}
	for i := range due {
		if due[i].counts != nil {
			due[i].breach = ofCounts / float64(events)
		} else {
			due[i].breach = ofPairs / float64(len(due)-events)
		}
	}
	return due, nil
}

// judge tests a gate on one treatment, or on an A/A pair: by counts of requests, or else by pairs of valid trials. The
// distance is that of [gateTest.decide].
func (w gateTest) judge(run *Run, treatment, baseline string, trials map[string][]figures.Measured) (d Decision, distance float64) {
	if w.counts != nil {
		if c := countsOf(run, w.gate.Metric, treatment, baseline); c != nil {
			return w.decideCounts(*c), 0
		}
		return w.open(0), 0
	}
	t, b := byBlock(trials[treatment]), byBlock(trials[baseline])
	p := run.estimator.pairs(w.gate.Metric, t, b)
	d, distance = w.decide(p.treatment, p.baseline)
	if d.Outcome == Breached || d.Outcome == Holds {
		against := extremes(p, w.gate.Metric, t, b, (d.Outcome == Holds) == w.gate.Upper)
		if other, _ := w.decide(against.treatment, against.baseline); other.Outcome != d.Outcome {
			d.Outcome, d.Why = Undecided, "the value itself is known within limits only, and the limit of the gate is between them"
		}
	}
	d.Lost = lostPairs(run, w.gate.Metric, treatment, baseline)
	return d, distance
}

// blockTime is the mean duration of the blocks so far, without interruptions.
func blockTime(run *Run) time.Duration {
	blocks := lists.Most(run.Trials, func(t figures.Measured) int { return t.Block })
	return result.Worked(run.Records) / time.Duration(max(blocks, 1))
}

// doubting are the diagnoses under which a gate is undecided: its error rests on independent pairs of one distribution.
var doubting = []string{"pairs-dependent", driftCode, "outlier-block"}

// driftCode is the diagnosis of an effect that changes over the run. It doubts no gate whose blocks are all on one side of the limit:
// the mean of any part of the run is there too.
const driftCode = "effect-drifts"

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

// gateTest is the sequential test of one gate on one treatment. Its decisions are simulated in decide_internal_test.go.
type gateTest struct {
	gate      Gate
	treatment plan.Treatment
	implied   bool    // no gate of the experiment: reported only if it is breached
	counts    *counts // nil: pairs decide
	detect    float64 // share
	looks     int     // planned pairs
	breach    float64 // probability of a false breach over all looks
	side      float64 // probability that the interval is wrong on one side, 0 for decisionError
	last      bool    // no pair will follow
	atEnd     bool    // the last look is the only one
}

// open is an undecided decision after a number of pairs.
func (w gateTest) open(pairs int) Decision {
	m, _ := metric.Lookup(w.gate.Metric)
	d := Decision{Gate: w.gate.Text, Metric: w.gate.Metric, Outcome: Undecided, Unit: m.Unit, Upper: w.gate.Upper, Limit: w.gate.Limit, Pairs: pairs, Max: w.looks, Last: w.last}
	if w.gate.Relative {
		d.Unit, d.Detect = "%", 100*w.detect
	}
	return d
}

// decide judges pairs of values by block, treatment and baseline. A false breach, with the true change at the limit
// or within, and a false hold, with the true change at the limit and detect or beyond, have probability
// decisionError at most over all looks. Of several tests, each breach has its share of the error: any of them fails
// the run. Holds need no share: all of them must hold. An undecided gate has the distance for [morePairs], which is
// slow, so that looks of a simulation do without it.
func (w gateTest) decide(treatment, baseline []float64) (d Decision, distance float64) {
	g := w.gate
	d = w.open(len(treatment))
	limit, beyond := g.Limit, g.Limit
	sign := 1.0
	if !g.Upper {
		sign = -1
	}
	var changes []float64
	if g.Relative {
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
		mean := g.mean()
		d.A, d.B = new(mean(baseline)), new(mean(treatment))
	}
	d.OneSide = onOneSide(changes, limit, decisionError)
	hold := w.spending(len(changes), cmp.Or(w.side, decisionError)).Bounds(changes)
	breach := w.spending(len(changes), w.breach).Bounds(changes)
	for _, r := range []*stats.Result{&hold, &breach} {
		r.Widen(stats.Lasting(changes))
	}
	d.Change = w.shown(hold.Interval)
	if len(changes) >= experiment.DecideFrom() && hold.Why == stats.NoSpread {
		d.Outcome, d.Why = w.unvaried(changes, limit, beyond, sign)
		return d, 0
	}
	if !hold.Known() || !breach.Known() {
		return d, 0
	}
	switch {
	case g.Upper && *breach.Low > limit, !g.Upper && *breach.High < limit:
		if d.Outcome, d.Far = Breached, farFrom(limit, breach); !rankedBeyond(changes, limit, sign) {
			d.Outcome, d.Far, d.Why = Undecided, false, "the mean is beyond the limit because of a few blocks: their ranks do not show it"
		}
	case g.Upper && *hold.High < beyond, !g.Upper && *hold.Low > beyond:
		switch {
		case !w.holdsAfter(len(changes)):
			d.Why = fmt.Sprintf("the change is within the limit so far; a gate holds from %d pairs on, in which a shift would show", LeastToHold(w.looks))
		case !recentWithin(changes, beyond, sign):
			d.Why = "the last blocks alone do not show that the change is within the limit"
		case !rankedBeyond(changes, beyond, -sign):
			d.Why = "the mean is within the limit because of a few blocks: their ranks do not show it"
		default:
			d.Outcome, d.Far = Holds, farFrom(beyond, hold)
		}
	default:
		distance = math.Max(sign*(hold.Estimate-limit), sign*(beyond-hold.Estimate)) / hold.SD
		d.Change = g.agreeing(d.Change, *w.shown(breach.Interval))
	}
	return d, distance
}

// mean is the mean of each side of a gate. Relative changes of programs that end have geometric means, whose ratio is the change. Arithmetic
// means of skewed times have another ratio.
func (g Gate) mean() func([]float64) float64 {
	if m, _ := metric.Lookup(g.Metric); !g.Relative || m.Source != metric.Executions {
		return stats.Mean
	}
	return func(values []float64) float64 { return math.Exp(stats.Mean(lists.Map(values, math.Log))) }
}

// unvaried judges changes that are all equal. Those of what a program prints or allocates are exact, and the sign test decides: all looks
// before had the same changes. Others were read too coarsely.
func (w gateTest) unvaried(changes []float64, limit, beyond, sign float64) (o Outcome, why string) {
	m, _ := metric.Lookup(w.gate.Metric)
	switch {
	case m.Source != metric.Executions || m.SpeedSensitive:
		return Undecided, "all blocks agree to the last digit: the metric is coarser than the difference"
	case sign*(changes[0]-limit) > 0 && onOneSide(changes, limit, w.breach):
		return Breached, "all blocks agree to the last digit"
	case sign*(beyond-changes[0]) > 0 && onOneSide(changes, beyond, decisionError) && w.holdsAfter(len(changes)):
		return Holds, "all blocks agree to the last digit"
	}
	return Undecided, "all blocks agree to the last digit, and are too few"
}

// onOneSide reports whether all changes are on one side of a limit, by the sign test at a level, which needs no equal effects.
func onOneSide(changes []float64, limit, level float64) bool {
	beyond := lists.Count(changes, func(c float64) bool { return c > limit })
	return (beyond == 0 || beyond == len(changes)) && !slices.Contains(changes, limit) && math.Pow(2, -float64(len(changes))) <= level
}

// dependentError is how many times its estimate the error of a mean may be: with an autocorrelation of 0.8, sqrt(1.8/0.2).
const dependentError = 3

// farFrom reports whether a limit is beyond an interval of that many times the width.
func farFrom(limit float64, r stats.Result) bool {
	half, known := r.HalfWidth()
	return known && math.Abs(limit-r.Estimate) > dependentError*half
}

// mostToHold bounds [LeastToHold]: a long run is planned for noise, and not for shifts.
const mostToHold = 20

// LeastToHold is the least number of pairs of a gate that holds, of the planned ones: half, at most [mostToHold]. A shift that
// comes later in the run is not in the figures of a gate that held before.
func LeastToHold(planned int) int {
	return max(experiment.DecideFrom(), min((planned+1)/2, mostToHold))
}

// holdsAfter reports whether a gate may hold after some pairs. No shift comes later in a run whose time is over.
func (w gateTest) holdsAfter(pairs int) bool {
	return pairs >= LeastToHold(w.looks) || w.last && pairs >= experiment.DecideFrom()
}

// recentLevel is the level of the look at the last blocks.
const recentLevel = 0.1

// recentWithin reports whether the last third of the changes, by itself, is shown to be on the near side of a limit.
// Otherwise a gate would hold just after a shift.
func recentWithin(changes []float64, limit, sign float64) bool {
	n := max(len(changes)/3, stats.MinN)
	last := stats.MeanInterval(changes[len(changes)-n:], 1-2*recentLevel)
	if !last.Known() {
		return sign*(limit-last.Estimate) > 0
	}
	half, _ := last.HalfWidth()
	return sign*(limit-last.Estimate) > half
}

// rankedBeyond reports whether the ranks of the changes show them beyond a limit, in the direction of sign. The level is that of a
// single look, or the smallest p-value of so few changes.
func rankedBeyond(changes []float64, limit, sign float64) bool {
	away := lists.Map(changes, func(c float64) float64 { return sign * (limit - c) })
	return stats.SignedRank(away) <= math.Max(decisionError, math.Pow(2, -float64(len(away))))
}

// spending is the test of a hypothesis at level alpha after pairs of the planned ones.
func (w gateTest) spending(pairs int, alpha float64) stats.Spending {
	first := experiment.DecideFrom()
	switch {
	case w.last && w.atEnd:
		return stats.NewSpendingUntil(max(first, pairs), w.looks, pairs, alpha)
	case w.last:
		return stats.NewSpendingUntil(first, w.looks, pairs, alpha)
	case w.atEnd: // none yet
		return stats.NewSpendingUntil(w.looks, w.looks, 0, alpha)
	}
	return stats.NewSpending(first, w.looks, alpha)
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
	return percent(i.Map(math.Exp))
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

// Looks decide the gates of a run after each of its blocks, from metrics that are computed once.
type Looks struct{ run *Run }

// NewLooks reads the trials that are recorded so far.
func NewLooks(d *result.Dir, o Options) (*Looks, error) {
	run, err := Read(d, o)
	if err != nil {
		return nil, err
	}
	if len(run.File.Decide.Gates) == 0 {
		return nil, hint.New("give --gate", "decide %s: its experiment has no gates", d.Path())
	}
	return &Looks{run}, nil
}

// To is the last block whose trials are all recorded.
func (l *Looks) To() int {
	missing := map[int]int{}
	for _, t := range l.run.Plan.Trials {
		missing[t.Block]++
	}
	for i := range l.run.Records {
		missing[l.run.Records[i].Block]--
	}
	block := 0
	for block < l.run.Plan.Blocks && missing[block+1] == 0 {
		block++
	}
	return block
}

// EndsAt reports whether the run had its last look after a block, by time or by plan.
func (l *Looks) EndsAt(block int) bool { return block == l.run.lastLook }

// Elapsed is the time that the run spent until the end of a block, without interruptions.
func (l *Looks) Elapsed(block int) time.Duration {
	return result.Worked(lists.Where(l.run.Records, func(r result.Record) bool { return r.Block <= block }))
}

// At are the decisions after a block, as if no later one had been run. The last look spends the error that is left.
func (l *Looks) At(block int, last bool) ([]Decision, error) {
	run := *l.run
	run.Records, run.Trials = nil, nil
	for i := range l.run.Records {
		if l.run.Records[i].Block <= block {
			run.Records, run.Trials = append(run.Records, l.run.Records[i]), append(run.Trials, l.run.Trials[i])
		}
	}
	run.Plan.Blocks = min(run.Plan.Blocks, block)
	run.estimator.blocks = run.Plan.Blocks
	if last {
		run.lastLook = block
	}
	return run.Decisions()
}

// isLastLook reports whether no block will follow. Trials of the last block may still be missing.
func isLastLook(run *Run) bool {
	if run.lastLook == 0 || run.Plan.Blocks != run.lastLook {
		return false
	}
	planned := lists.Count(run.Plan.Trials, func(t plan.Trial) bool { return t.Block <= run.Plan.Blocks })
	return len(run.Records) >= planned
}

// Decided is the outcome of all gates together: breached if any is, holds if all hold.
func Decided(decisions []Decision) Outcome {
	out := Holds
	for _, d := range decisions {
		switch d.Outcome {
		case Breached:
			return Breached
		case Undecided:
			out = Undecided
		}
	}
	if len(decisions) == 0 {
		return Undecided
	}
	return out
}

// LostPair is a block in which one of two compared treatments has no value.
type LostPair struct {
	Block     int    `json:"block"`
	Treatment string `json:"treatment"`
	Reason    string `json:"reason"` // the code of a warning; without one: "failed", "invalid", "not recorded", "not measured"
	Message   string `json:"message,omitempty"`
}

// lostPairs are the blocks so far without a value of one treatment, in order.
func lostPairs(run *Run, name string, treatments ...string) (lost []LostPair) {
	type place struct {
		block     int
		treatment string
	}
	recorded, until := map[place]*figures.Measured{}, 0
	for i := range run.Trials {
		t := &run.Trials[i]
		recorded[place{t.Block, t.Treatment}] = t
		until = max(until, t.Block)
	}
	for block := 1; block <= until; block++ {
		for _, treatment := range treatments {
			if p, is := lostPair(recorded[place{block, treatment}], name); is {
				p.Block, p.Treatment = block, treatment
				lost = append(lost, p)
				break
			}
		}
	}
	return lost
}

// lostPair is the reason why a trial has no value of a metric.
func lostPair(t *figures.Measured, name string) (LostPair, bool) {
	if t == nil {
		return LostPair{Reason: "not recorded"}, true
	}
	if _, known := t.Metrics[name]; known && t.Valid {
		return LostPair{}, false
	}
	if t.Error != "" {
		return LostPair{Reason: "failed", Message: t.Error}, true
	}
	for _, w := range t.Warnings {
		if !t.Valid && w.Invalidates || t.Valid && w.Withholds && figures.NamesMetric(w.Metrics, name) {
			return LostPair{Reason: w.Code, Message: w.Message}, true
		}
	}
	for _, w := range t.Warnings {
		if t.Valid && figures.Concerns(w, name) {
			return LostPair{Reason: w.Code, Message: w.Message}, true
		}
	}
	if !t.Valid {
		return LostPair{Reason: "invalid"}, true
	}
	return LostPair{Reason: "not measured"}, true
}

// notWarm is the warning of a trial in which the CPU of a request still fell.
const notWarm = "not-warm"

// coldIn is the warning of a trial that programs were not warm, if it concerns a metric.
func coldIn(t figures.Measured, name string) (w figures.Warning, cold bool) {
	return lists.First(t.Warnings, func(w figures.Warning) bool {
		return w.Code == notWarm && figures.NamesMetric(w.Metrics, name)
	})
}

// warmIn are the trials without that warning.
func warmIn(trials []figures.Measured, name string) []figures.Measured {
	return slices.DeleteFunc(slices.Clone(trials), func(t figures.Measured) bool {
		_, cold := coldIn(t, name)
		return cold
	})
}

// doubtOfCold is the doubt of an outcome by trials in which programs were not warm, nil if warm pairs alone decide alike.
func (w gateTest) doubtOfCold(run *Run, outcome Outcome, trials map[string][]figures.Measured) (doubts []string) {
	warm := maps.Clone(trials)
	var cold []string
	for _, id := range []string{w.treatment.Baseline, w.treatment.ID} {
		warm[id] = warmIn(trials[id], w.gate.Metric)
		if n := len(trials[id]) - len(warm[id]); n > 0 {
			first := slices.IndexFunc(trials[id], func(t figures.Measured) bool { _, is := coldIn(t, w.gate.Metric); return is })
			warning, _ := coldIn(trials[id][first], w.gate.Metric)
			cold = append(cold, fmt.Sprintf("%d of %d trials of %s: %s", n, len(trials[id]), id, warning.Message))
		}
	}
	if w.counts != nil || cold == nil {
		return nil
	}
	if d, _ := w.judge(run, w.treatment.ID, w.treatment.Baseline, warm); d.Outcome == outcome {
		return nil
	}
	return []string{notWarm + ": " + strings.Join(cold, "; ")}
}

// executedMetrics are the metrics of programs that end which every report compares.
var executedMetrics = []string{metric.WallTime, metric.CPUTime, metric.PeakOfExecution, metric.BenchmarkTime}

// Executed are the changes of programs that end, of all that is compared, as gates of +0 % would be judged: if a run ends by its
// gates, the intervals hold over all looks. Otherwise they come from the comparisons cs. Servers have none.
func (run *Run) Executed(cs []Comparison) (all []Decision) {
	trials := run.validByTreatment()
	for i := range cs {
		c := &cs[i]
		if c.Ratio == nil || c.Control || !slices.Contains(executedMetrics, metric.Base(c.Metric)) {
			continue
		}
		g := Gate{Text: c.Metric + " < +0%", Metric: c.Metric, Upper: true, Relative: true}
		w := gateTest{gate: g, looks: max(run.Planned, run.Plan.Blocks), breach: decisionError, side: decisionError / 2, last: isLastLook(run)}
		d, _ := w.judge(run, c.Treatment, c.Baseline, trials)
		if len(run.File.Decide.Gates) == 0 {
			d.Change = percent(*c.Judged(run.Confidence()).Ratio)
		}
		if run.Method() == Unpaired { // an import: blocks only number its trials
			mean := g.mean()
			d.A, d.B = new(mean(valuesOf(trials[c.Baseline], c.Metric))), new(mean(valuesOf(trials[c.Treatment], c.Metric)))
		}
		if d.Treatment, d.Factors, d.Baseline = c.Treatment, c.Factors, c.Baseline; d.Change != nil {
			all = append(all, d)
		}
	}
	return all
}
