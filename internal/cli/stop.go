package cli

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
)

// stopRule returns the reason to stop after a block, or "" to continue; nil: run every block. It is here because neither the
// runner nor analysis may know the other: both know the results directory.
func stopRule(dir *result.Dir, b experiment.Blocks) func(block int) (string, error) {
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
