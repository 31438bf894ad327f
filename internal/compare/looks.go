package compare

import (
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
)

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
	var until []result.Record
	for i := range l.run.Records {
		if r := &l.run.Records[i]; r.Block <= block {
			until = append(until, *r)
		}
	}
	return result.Worked(until)
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
	planned := 0
	for _, t := range run.Plan.Trials {
		if t.Block <= run.Plan.Blocks {
			planned++
		}
	}
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
