package session

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// stopRule returns why to stop after a block, or no reason to continue. A nil rule runs every block. It is here because
// neither the runner nor analysis may know the other: both know the results directory.
func stopRule(dir *result.Dir, x *experiment.Experiment, post func(string)) func(block int) (result.Stopped, error) {
	b := x.Blocks
	if len(x.Decide.Gates) > 0 && !x.Decide.AtEnd {
		return decisionRule(dir, x.Decide, post)
	}
	switch {
	case b.Until == nil:
		return nil
	case b.Until.Valid:
		return repetitionRule(dir, b, post)
	}
	return func(block int) (stop result.Stopped, err error) {
		reachedAt := block - stats.ExtraBlocks
		if reachedAt < b.Min {
			return stop, nil
		}
		r, err := answer.Analyze(dir, compare.Options{Blocks: reachedAt})
		if err != nil || r.Stopping == nil || !r.Stopping.Reached {
			return stop, err
		}
		stop.Why = fmt.Sprintf("after block %d %s; the stopping rule requires %s", reachedAt, r.Stopping.Words(), printable.Counted(stats.ExtraBlocks, "more block"))
		return stop, nil
	}
}

// repetitionRule ends the run at min blocks of valid trials, and reports which block is repeated. It depends on the validity
// of trials and on no figure, so that intervals keep their coverage.
func repetitionRule(dir *result.Dir, b experiment.Blocks, post func(string)) func(block int) (result.Stopped, error) {
	return func(block int) (stop result.Stopped, err error) {
		records, err := dir.Records()
		if err != nil {
			return stop, err
		}
		lost := map[int]*result.Record{}
		for i := range records {
			if r := &records[i]; !r.Valid && lost[r.Block] == nil {
				lost[r.Block] = r
			}
		}
		switch r := lost[block]; {
		case block-len(lost) >= b.Min && len(lost) > 0:
			stop.Why = fmt.Sprintf("%s have valid trials only, after %s", printable.Counted(b.Min, "block"), printable.Counted(len(lost), "repetition"))
		case block-len(lost) >= b.Min:
			stop.Why = "no block is to repeat"
		case r != nil && block < b.Max:
			post(fmt.Sprintf("block %d: trial %s is %s: repeated, at most %d times", block, r.ID, reasonOf(r), b.Max-b.Min))
		}
		return stop, nil
	}
}

// reasonOf is why a trial cannot be used.
func reasonOf(r *result.Record) string {
	if r.Error != "" {
		return "failed"
	}
	for _, w := range r.Warnings {
		if w.Invalidates {
			return "invalid (" + figures.Cause(w.Code) + ")"
		}
	}
	return "invalid"
}

// orUnstartable ends a run, beside its rule, if none of two or more trials has started, of a treatment or of all, for one
// reason: the next would fail of the same cause. Later than a few blocks it does not look: every treatment has had its
// chance, and the records of a long run take long to read. A nil rule continues.
func orUnstartable(dir *result.Dir, rule func(block int) (result.Stopped, error)) func(block int) (result.Stopped, error) {
	if rule == nil {
		rule = func(int) (result.Stopped, error) { return result.Stopped{}, nil }
	}
	return func(block int) (result.Stopped, error) {
		if block > startBlocks {
			return rule(block)
		}
		records, err := dir.Records()
		if err != nil {
			return result.Stopped{}, err
		}
		if unstartable(records) {
			return result.Stopped{Why: fmt.Sprintf("none of %d trials started: %s", len(records), records[0].Error)}, nil
		}
		trials := map[string][]result.Record{}
		for i := range records {
			trials[records[i].Treatment] = append(trials[records[i].Treatment], records[i])
		}
		for _, treatment := range slices.Sorted(maps.Keys(trials)) {
			if of := trials[treatment]; unstartable(of) {
				return result.Stopped{Why: fmt.Sprintf("none of %d trials of %s started: %s", len(of), treatment, of[0].Error)}, nil
			}
		}
		return rule(block)
	}
}

// startBlocks are the blocks after which a treatment that has not started ends the run.
const startBlocks = 5

// numbers are the parts of a reason that differ from trial to trial: ports, process IDs.
var numbers = regexp.MustCompile(`[0-9]+`)

// unstartable reports whether none of two or more trials has started, for one reason.
func unstartable(trials []result.Record) bool {
	for i := range trials {
		r := &trials[i]
		if r.Load != nil || r.Error == "" || numbers.ReplaceAllString(r.Error, "N") != numbers.ReplaceAllString(trials[0].Error, "N") {
			return false
		}
	}
	return len(trials) > 1
}

// decisionRule ends the run when a gate is breached, when every gate holds, or when another block would last beyond the time given.
func decisionRule(dir *result.Dir, d experiment.Decide, post func(string)) func(block int) (result.Stopped, error) {
	var earlier time.Duration // of the sessions before a resume
	if records, err := dir.Records(); err == nil {
		earlier = result.Worked(records)
	}
	begun := time.Now()
	return func(block int) (result.Stopped, error) {
		looks, err := compare.NewLooks(dir, compare.Options{})
		if err != nil {
			return result.Stopped{}, err
		}
		passed := earlier + time.Since(begun)
		l := look{looks: looks, block: block, timeIsOver: isOver(block, passed, time.Duration(d.Within))}
		stop, err := l.decide()
		for i := range l.decisions {
			post(fmt.Sprintf("block %d: %s", block, l.decisions[i].Words()))
		}
		if stop.Why == timeOver {
			stop.Why = fmt.Sprintf("%s after %v, and another block would last beyond %v", compare.Decided(l.decisions), passed.Round(time.Second), d.Within)
		}
		return stop, err
	}
}

// isOver reports whether the next block would last beyond the time given, 0 for none. The fewest blocks that decide a gate were
// planned to fit: on a slower machine they run all the same, if half of the time more is enough.
func isOver(block int, passed, within time.Duration) bool {
	left := max(1, experiment.DecideFrom()-block)
	if within <= 0 {
		return false
	}
	if block < experiment.DecideFrom() {
		within += within / 2
	}
	return passed+passed*time.Duration(left)/time.Duration(max(block, 1)) > within
}

// timeOver is why a run without a decision ends.
const timeOver = "time is over"

// look is a look at the gates after a block, of a run or of its replay.
type look struct {
	looks      *compare.Looks
	block      int
	timeIsOver bool
	decisions  []compare.Decision // out
}

// decide ends the run if a gate is breached, if every gate holds, or if the time is over. Then it looks for the last time: the end does
// not depend on the results.
func (l *look) decide() (stop result.Stopped, err error) {
	if l.decisions, err = l.looks.At(l.block, false); err != nil {
		return stop, err
	}
	switch compare.Decided(l.decisions) {
	case compare.Breached:
		return result.Stopped{Why: "a gate is breached"}, nil
	case compare.Holds:
		return result.Stopped{Why: "every gate holds"}, nil
	}
	if !l.timeIsOver {
		return stop, nil
	}
	l.decisions, err = l.looks.At(l.block, true)
	return result.Stopped{Why: timeOver, Last: true}, err
}

// Replayed is a recorded run whose gates were decided again.
type Replayed struct {
	Dir       string             `json:"dir"`
	Block     int                `json:"block"`          // of the look that decided, or of the last one
	Last      bool               `json:"last,omitempty"` // no look follows
	Decisions []compare.Decision `json:"decisions"`
}

// Replay looks at the gates of one run until they are decided. within is the time to end at.
// 0 means the run's own end.
func Replay(dir string, o compare.Options, within time.Duration) (Replayed, error) {
	r := Replayed{Dir: dir}
	d, err := result.Open(dir)
	if err != nil {
		return r, err
	}
	defer d.Close()
	looks, err := compare.NewLooks(d, o)
	if err != nil {
		return r, err
	}
	for block := min(1, looks.To()); block <= looks.To(); block++ {
		l := look{looks: looks, block: block, timeIsOver: isOver(block, looks.Elapsed(block), within) || looks.EndsAt(block)}
		stop, err := l.decide()
		if err != nil {
			return r, err
		}
		r.Block, r.Last, r.Decisions = block, stop.Last, l.decisions
		if stop.Why != "" {
			break
		}
	}
	return r, nil
}
