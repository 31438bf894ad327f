package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/session"
)

// planAllocation prints the allocation from earlier runs in runs/, if there are any.
func (c precisionPlanner) planAllocation(s *session.Study) error {
	if s.Plan.Slices == nil {
		return nil
	}
	runs, err := s.Earlier(nil, "phases.measure") // the noise of a row does not depend on it
	if err != nil || len(runs) == 0 {
		return err
	}
	defer func() {
		for _, d := range runs {
			_ = d.Close()
		}
	}()
	fmt.Fprintln(c.Out)
	return writeAllocation(c.Out, s, runs, 0)
}

// leastMeasure is the shortest measure phase that is proposed.
const leastMeasure = time.Second

// writeAllocation prints how the time of an interleaved run is best divided into blocks: from the noise between
// deployments and between slices in earlier runs, and the price of both. share is the difference to
// detect. 0 means the narrowest interval in the time of the plan.
func writeAllocation(w io.Writer, s *session.Study, runs []*result.Dir, share float64) error {
	p := s.Plan
	if p.Slices == nil || len(runs) == 0 {
		return nil
	}
	found, err := compare.NoiseComponents(p, runs)
	if err != nil || len(found) == 0 {
		return err
	}
	least := int((leastMeasure + p.Slices.Length - 1) / p.Slices.Length)
	price := found[0].Price
	fmt.Fprintf(w, "How blocks are best divided, from %s: a block takes %.1f s, and %.2f s for each row of slices.\n\n",
		printable.Counted(len(runs), "earlier run"), price.Block, price.Row)
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	goal := fmt.Sprintf("BEST IN %v", experiment.Duration(p.Expected.Round(time.Second)))
	if share > 0 {
		goal = "FOR " + percents(share)
	}
	fmt.Fprintf(tw, "COMPARISON\tMETRIC\tBETWEEN DEPLOYMENTS\tBETWEEN ROWS\tTHIS PLAN\t%s\n", goal)
	for _, c := range found {
		m, _ := metric.Lookup(c.Metric)
		now := c.HalfWidth(p.Blocks, p.Slices.Measure, s.Experiment.Confidence)
		fmt.Fprintf(tw, "%s against %s\t%s\t%s\t%s\t±%s\t%s\n", c.Treatment, c.Baseline, m.Title(),
			percents(c.Deployment), percents(c.Row), percents(now), bestWords(s, c, least, share))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w)
	return err
}

// bestWords are the best blocks of a comparison, as settings, with their interval or time.
func bestWords(s *session.Study, c compare.Components, least int, share float64) string {
	p := s.Plan
	best, ok := c.Best(p.Expected.Seconds(), least, s.Experiment.Confidence)
	if share > 0 {
		best, ok = c.Cheapest(share, least)
	}
	if !ok {
		if share > 0 {
			return "over 100,000 blocks"
		}
		return "too little time for 6 blocks"
	}
	words := settings(best, p.Slices)
	if share > 0 {
		return fmt.Sprintf("%s (%v)", words, experiment.Duration(time.Duration(c.Seconds(best.Blocks, best.Rows)*float64(time.Second)).Round(time.Second)))
	}
	return fmt.Sprintf("±%s with %s", percents(c.HalfWidth(best.Blocks, best.Rows, s.Experiment.Confidence)), words)
}

// settings are an allocation as a user writes it.
func settings(a compare.Allocation, s *plan.Slices) string {
	return fmt.Sprintf("blocks=%d phases.measure=%v", a.Blocks, experiment.Duration(time.Duration(a.Rows)*s.Length))
}
