package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// eventsOf are the events that a metric counts among the requests of a trial. They are not ok if the metric is not a
// count of this trial: its load has no schedule, or faults or changes cause failures, which then are not independent.
func eventsOf(name string, r *result.Record) (c stats.Count, ok bool) {
	if n := len(r.Executions); n > 0 && r.Error == "" && name == metric.ErrorRatio && countable(r) {
		return stats.Count{K: float64(len(r.FailedExecutions())), N: float64(n), Scale: 1}, true
	}
	if r.Error != "" || r.Load == nil || len(r.FaultTimes()) > 0 || len(r.Changes) > 0 || !countable(r) {
		return c, false
	}
	l := r.Load
	ended, lost := figures.CountEnded(l)
	c = stats.Count{K: float64(lost), N: float64(ended), Scale: 1}
	switch name {
	case metric.ErrorRatio:
	case metric.RequestsLost:
		c.Scale = c.N
	case metric.Timeouts:
		c.K, c.Scale = float64(l.Classes[string(load.Timeout)]), c.N
	case metric.Rate: // K are the requests without an answer
		if l.Loop != "open" || l.AskedRate <= 0 {
			return c, false
		}
		c = stats.Count{K: math.Max(0, float64(l.Intended-l.Completed)), N: float64(l.Intended), Scale: l.AskedRate}
	default:
		return c, false
	}
	return c, c.N > 0
}

// ofRequests are the codes that invalidate a trial because of its requests.
var ofRequests = []string{"errors", "rate-missed", "requests-not-conserved"}

// countable reports whether the requests of a trial count: it is valid, or invalid because of them alone.
func countable(r *result.Record) bool {
	for _, w := range r.Warnings {
		if w.Invalidates && !slices.Contains(ofRequests, w.Code) {
			return false
		}
	}
	return true
}

// counts are the events of two treatments, by trial.
type counts struct {
	treatment, baseline []stats.Count
	// Of executions, absent for requests: the failures of either side, the last one in words.
	failures []string
	executed bool
}

// countsOf are the counts of a metric in the blocks in which both treatments have one, whether their trials are valid or not:
// a trial is invalid because requests failed. Nil means that pairs decide.
func countsOf(run *Run, name, treatment, baseline string) *counts {
	by, failures := map[string]map[int]stats.Count{treatment: {}, baseline: {}}, map[string]string{}
	var all counts
	for i := range run.Records {
		r := &run.Records[i]
		if of := by[r.Treatment]; of != nil {
			if c, ok := eventsOf(name, r); ok {
				of[r.Block] = c
			}
			all.executed = all.executed || len(r.Executions) > 0
			if failed := r.FailedExecutions(); len(failed) > 0 {
				failures[r.Treatment] = r.Treatment + ": " + failed[len(failed)-1].Failure()
			}
		}
	}
	for _, side := range []string{treatment, baseline} {
		if text := failures[side]; text != "" {
			all.failures = append(all.failures, text)
		}
	}
	for block := 1; block <= run.Plan.Blocks; block++ {
		t, ok1 := by[treatment][block]
		b, ok2 := by[baseline][block]
		if !ok1 || !ok2 {
			continue
		}
		if name == metric.Rate && t.Scale != b.Scale {
			return nil
		}
		all.treatment, all.baseline = append(all.treatment, t), append(all.baseline, b)
	}
	if len(all.treatment) == 0 {
		return nil
	}
	return &all
}

// Errors of gates on counts. A gate that is tested after block n may err with the share 1/(n·(n+1)) of its error, whose sum
// over all n is 1. Breaches found by counts need few requests, so they have the smaller part of the error of breaches.
const (
	countShare = 0.1
	// unfailedShare is the part of the error of holds for requests of which none failed. The first look at which this bound
	// holds a gate is the only one that can be wrong, so that looks share no error.
	unfailedShare = 0.5
)

// decideCounts judges the events of all blocks so far.
func (w gateTest) decideCounts(c counts) (d Decision) {
	g, n := w.gate, len(c.treatment)
	d = w.open(n)
	t, b := stats.Dispersed(c.treatment), stats.Dispersed(c.baseline)
	look := 1 / float64(n*(n+1))
	holds := decisionError * (1 - unfailedShare) * look
	if t.K+b.K == 0 {
		holds = decisionError * unfailedShare
	}
	value := func(of stats.Count) *float64 {
		v := of.Value()
		if g.Metric == metric.Rate {
			v = of.Scale - v
		}
		return &v
	}
	d.A, d.B, d.Why = value(b), value(t), c.words(g.Metric)
	change := g.changeOfCounts(t, b, holds)
	if !math.IsNaN(change.Estimate) && !math.IsInf(change.Estimate, 0) {
		d.Change = &change
	} else if t.K == 0 {
		d.Why = "there is no ratio where nothing failed: give an absolute limit"
	}
	if w.holdsAfter(n) && g.widened(d.Detect).judgeBounds(change) == Holds {
		d.Outcome = Holds
	}
	if g.judgeBounds(g.changeOfCounts(t, b, w.breach*look)) == Breached {
		d.Outcome = Breached
	}
	return d
}

// words are the counts of a decision.
func (c counts) words(name string) string {
	events := map[string]string{metric.Timeouts: "timed out", metric.Rate: "had no answer"}[name]
	if events == "" {
		events = "failed"
	}
	sum := func(trials []stats.Count) (k, n float64) {
		for _, t := range trials {
			k, n = k+t.K, n+t.N
		}
		return k, n
	}
	b, of := sum(c.baseline)
	t, among := sum(c.treatment)
	if c.executed {
		return strings.Join(append([]string{fmt.Sprintf("%.0f of %.0f executions failed, and %.0f of %.0f of the baseline", t, among, b, of)}, c.failures...), "; ")
	}
	return fmt.Sprintf("%.0f of %.0f requests %s, and %.0f of %.0f of the baseline, in valid and invalid trials: the interval is over requests, with the spread between blocks",
		t, among, events, b, of)
}

// changeOfCounts is the change in the unit of the gate, with bounds that are each wrong with probability alpha at most.
func (g Gate) changeOfCounts(treatment, baseline stats.Count, alpha float64) stats.Interval {
	switch {
	case g.Metric == metric.Rate: // the events are what the rate lacks
		d := stats.CountDifference(baseline, treatment, alpha)
		if !g.Relative {
			return d
		}
		return d.Times(100 / (baseline.Scale - baseline.Value()))
	case g.Relative:
		return stats.CountRatio(treatment, baseline, alpha).Map(func(ratio float64) float64 { return -100 + 100*ratio })
	}
	return stats.CountDifference(treatment, baseline, alpha)
}

// judgeBounds judges an interval. An absent bound is infinite.
func (g Gate) judgeBounds(i stats.Interval) Outcome {
	low, high := math.Inf(-1), math.Inf(1)
	if i.Low != nil {
		low = *i.Low
	}
	if i.High != nil {
		high = *i.High
	}
	return g.judge(low, high)
}

// widened is the gate with a limit that is further away by detect.
func (g Gate) widened(detect float64) Gate {
	if !g.Upper {
		detect = -detect
	}
	g.Limit += detect
	return g
}

// failureGate is the gate on failures that every run with gates has. A trial with a larger share of failed requests is
// invalid. Without this gate a build that fails requests would be undecided to the end. It can be breached only.
func failureGate(run *Run) Gate {
	limit := run.File.Validity.ErrorRatio
	if limit <= 0 {
		limit = experiment.DefaultErrorRatio
	}
	return Gate{Text: fmt.Sprintf("%s < +%g%%", metric.ErrorRatio, 100*limit), Metric: metric.ErrorRatio, Upper: true, Limit: limit}
}
