package cli

import (
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
)

// stopRule returns the reason to stop after a block, or "" to continue; nil: run every block. It is here because neither the
// runner nor analysis may know the other: both know the results directory.
func stopRule(dir *result.Dir, x *experiment.Experiment, post func(string)) func(block int) (string, error) {
	b := x.Blocks
	if len(x.Decide.Gates) > 0 {
		return decisionRule(dir, x.Decide, post)
	}
	if b.Until == nil {
		return nil
	}
	return func(block int) (string, error) {
		reachedAt := block - stats.ExtraBlocks
		if reachedAt < b.Min {
			return "", nil
		}
		r, err := analysis.Analyze(dir, analysis.Options{Blocks: reachedAt})
		if err != nil || r.Stopping == nil || !r.Stopping.Reached {
			return "", err
		}
		return fmt.Sprintf("after block %d %s; %d more were run, as the rule has it", reachedAt, r.Stopping.Words(), stats.ExtraBlocks), nil
	}
}

// decisionRule ends the run when every gate is decided, or when another block would last beyond the time given.
func decisionRule(dir *result.Dir, d experiment.Decide, post func(string)) func(block int) (string, error) {
	begun, first := time.Now(), 0
	return func(block int) (string, error) {
		if first == 0 {
			first = block
		}
		r, err := analysis.Analyze(dir, analysis.Options{Blocks: block})
		if err != nil {
			return "", err
		}
		for i := range r.Decisions {
			post(fmt.Sprintf("block %d: %s", block, r.Decisions[i].Words()))
		}
		if r.Decided() != analysis.Undecided {
			return "every gate is decided: " + string(r.Decided()), nil
		}
		passed := time.Since(begun)
		next := passed / time.Duration(block-first+1)
		if d.Within > 0 && passed+next > time.Duration(d.Within) {
			return fmt.Sprintf("undecided after %v, and another block would last beyond %v", passed.Round(time.Second), d.Within), nil
		}
		return "", nil
	}
}
