package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/cli/health"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/stats"
)

// aaOptions are the flags of the A/A run: a baseline against itself.
type aaOptions struct {
	ExperimentOptions
	blocks  int
	measure time.Duration
	detect  string  // a share, such as 3%
	share   float64 // detect as a number
}

func (o aaOptions) check() error {
	if o.blocks < stats.MinN || o.blocks > 1000 {
		return hint.Usage(fmt.Errorf("--blocks %d is not between %d and 1000", o.blocks, stats.MinN), "fewer blocks give no interval")
	}
	if o.measure < time.Second {
		return hint.Usage(fmt.Errorf("--measure %v is below 1s", o.measure), "")
	}
	return nil
}

// halfWidth is the interval for which blocks are estimated: ±2 % of the mean.
const halfWidth = 0.02

var aaMetrics = []string{metric.CPUPerRequest + "/total", metric.Latency + "/p50", metric.Latency + "/p99"}

type examiner struct{ *CommandLine }

// againstItself runs the baseline of s against itself, and prints what differences are detectable.
func (c examiner) againstItself(ctx context.Context, s *session.Study, o aaOptions) error {
	aa, err := s.AgainstItself(o.blocks, o.measure)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "\nThe baseline of %s against itself, %s, about %v:\n\n", s.Experiment.Metadata.Name,
		printable.Counted(len(aa.Plan.Trials), "trial"), aa.Plan.Expected.Round(time.Second))
	return c.measure(ctx, aa, func(run *session.Run, r *answer.Report, measured *compare.Run) error {
		if err := writeAA(c.Out, aaRows(r, measured, o), r, o); err != nil {
			return err
		}
		if counters := run.Platform.CounterRefresh; counters != nil {
			for _, short := range shortPhases(s.Experiment.Phases, aa.Experiment.Phases, counters.Refresh()) {
				fmt.Fprintf(c.Out, "\n! measure-short: %s\n", short)
			}
		}
		return nil
	})
}

// measure runs a baseline against itself, by the way every run goes, in a directory that is removed afterwards.
func (c examiner) measure(ctx context.Context, aa *session.Study, show func(*session.Run, *answer.Report, *compare.Run) error) (err error) {
	run, d, remove, err := runCommand(c).temporarily(ctx, aa, runOptions{interrupted: Undoing})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close(), remove()) }()
	r, err := answer.Analyze(d, compare.Options{})
	if err != nil {
		return err
	}
	measured, err := compare.Read(d, compare.Options{})
	if err != nil {
		return err
	}
	return show(run, r, measured)
}

// examination is the result of tare doctor as JSON.
type examination struct {
	Checks []health.Row `json:"checks"`
	// Floor is the noise of the baseline against itself, absent without an experiment.
	Floor []compare.Floor `json:"floor,omitempty"`
}

// examineJSON writes the checks, and of an experiment the noise of its baseline, as JSON.
func (c examiner) examineJSON(ctx context.Context, s *session.Study, o aaOptions) error {
	rows, err := c.examine(ctx, s)
	if err != nil {
		return err
	}
	b, ended := examinedBrief(rows)
	if s == nil || ended != nil {
		return cmp.Or(answered(c.Out, b, examination{Checks: rows}), ended)
	}
	aa, err := s.AgainstItself(o.blocks, o.measure)
	if err != nil {
		return err
	}
	return c.measure(ctx, aa, func(_ *session.Run, r *answer.Report, _ *compare.Run) error {
		x := examination{Checks: rows}
		for _, f := range r.Floor {
			if slices.Contains(aaMetrics, f.Metric) {
				x.Floor = append(x.Floor, f)
			}
			if f.Metric == aaMetrics[0] && f.Detectable != nil {
				b.Metric, b.Unit, b.Figure = f.Metric, f.Unit, &stats.Interval{Estimate: *f.Detectable}
			}
		}
		if b.Subject = s.Experiment.Metadata.Name; x.Floor == nil {
			ended = errors.New("the baseline could not be measured against itself: every trial failed or was invalid")
			b.Verdict, b.Reason, b.ExitCode = compare.Verdict(compare.Breached), ended.Error(), console.Code(ended)
		}
		return cmp.Or(answered(c.Out, b, x), ended)
	})
}

// examinedBrief is the answer of the checks, with an error if a run cannot work.
func examinedBrief(rows []health.Row) (b answer.Brief, ended error) {
	b = answer.Brief{Sentence: "Runs work here.", Verdict: compare.Verdict(compare.Holds)}
	for _, least := range []health.Verdict{health.Warn, health.Fail} {
		for _, r := range rows {
			if r.Verdict == least {
				b.Reason = r.Name + ": " + r.Detail
				if least == health.Fail {
					ended = errors.New("a run cannot work: " + b.Reason)
					b.Sentence, b.Verdict, b.ExitCode = "A run cannot work here.", compare.Verdict(compare.Breached), console.Code(ended)
				}
				break
			}
		}
	}
	return b, ended
}

// shortPhases lists the measure phases, of the file and of the A/A run, that are too short for the counter refresh interval.
func shortPhases(file, aa experiment.Phases, refresh time.Duration) (all []string) {
	least := runner.MinMeasure(refresh)
	if short := runner.ShortMeasure(file, refresh); short != "" {
		all = append(all, fmt.Sprintf("in the experiment: %s\n  hint: set phases.measure to %v or more", short, least))
	}
	if short := runner.ShortMeasure(aa, refresh); short != "" {
		all = append(all, fmt.Sprintf("in these trials: %s\n  hint: --measure %v", short, least))
	}
	return all
}

// aaRow is a metric of the A/A run, as text, "?" if unknown.
type aaRow struct{ title, mean, shows, blocks, detect string }

func aaRows(r *answer.Report, run *compare.Run, o aaOptions) (rows []aaRow) {
	for _, name := range aaMetrics {
		m, _ := metric.Lookup(name)
		unit, _ := m.Display()
		row := aaRow{m.Title(), "?", "?", "?", "?"}
		if e, ok := r.Treatments[0].Metrics[name]; ok {
			row.mean = fmt.Sprintf("%.3g %s", e.Estimate, unit)
			row.shows, row.blocks = smallest(r, name, unit, e.Estimate)
			if n, ok := run.BlocksToDetect(r.Treatments[1].ID, name, o.share); ok {
				row.detect = fmt.Sprint(n)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// writeAA prints the smallest detectable differences. A run without a usable pair is an error.
func writeAA(w io.Writer, rows []aaRow, r *answer.Report, o aaOptions) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(t, "\tmean\tsmallest detectable difference\tblocks for ±2 %%\tblocks to detect %s\n", percents(o.share))
	known := false
	for _, row := range rows {
		known = known || row.mean != "?"
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", row.title, row.mean, row.shows, row.blocks, row.detect)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, `
Detectable: found with 80 %% power, with %s of %v, as the only comparison.
Longer trials and more blocks detect smaller differences; ±2 %% is the %.0f %% interval, computed from
these few pairs. For the comparisons of the file: tare plan FILE --detect 3%%.
`, printable.Counted(o.blocks, "block"), o.measure, 100*r.Confidence)
	for _, x := range report.Warnings(r) {
		if x.Invalidates || x.Withholds || x.Code == "aa-differs" || x.Code == "failed-trials" || x.Code == "invalid-trials" || x.Code == "generator-late" {
			fmt.Fprintf(w, "\n! %s: %s\n  hint: %s\n", x.Code, x.Message, x.Hint)
		}
	}
	if !known {
		return errors.New("the baseline could not be measured against itself: every trial failed or was invalid")
	}
	return nil
}

// smallest is the smallest difference of a metric the pairs could show, and how
// many blocks an interval of ±2 % would take.
func smallest(r *answer.Report, name, unit string, mean float64) (shows, blocks string) {
	shows, blocks = "?", "?"
	for _, f := range r.Floor {
		if f.Metric != name || f.Difference == nil || !(mean > 0) {
			continue
		}
		if f.Detectable != nil {
			shows = fmt.Sprintf("%.2g %s (%.1f %%)", *f.Detectable, unit, 100**f.Detectable/mean)
		}
		if half, ok := f.Difference.HalfWidth(); ok {
			if n, ok := stats.PairsFor(math.Abs(half), f.N, halfWidth*mean, r.Confidence); ok {
				blocks = fmt.Sprint(n)
			}
		}
	}
	return shows, blocks
}
