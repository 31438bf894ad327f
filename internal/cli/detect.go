package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/stats"
)

// detectOptions are the flags of `tare plan` about what a run can show.
type detectOptions struct {
	detect string        // a share, such as 3%
	within time.Duration // time of a run
	from   []string      // results directories
	pilot  bool
	json   bool // write JSON
}

func (o *detectOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.detect, "detect", "", "print the blocks and minutes that detect a difference of this `share`, such as 3%, with 80 % power")
	f.DurationVar(&o.within, "within", 0, "print the smallest detectable difference of a run of this `duration`")
	f.StringArrayVar(&o.from, "from", nil, "earlier run to take the spread from, a results `directory`; default: runs of the same conditions in runs/; may be repeated")
	f.BoolVar(&o.pilot, "pilot", false, "without an earlier run, run 4 blocks first to measure the spread")
	_ = cmd.MarkFlagDirname("from")
}

func (o *detectOptions) asked() bool { return o.detect != "" || o.within > 0 }

// relative is the difference to detect. 0 means that none is asked for.
func (o *detectOptions) relative() (float64, error) {
	if o.detect == "" { // --within alone
		return 0, nil
	}
	var s experiment.Share
	if err := s.UnmarshalScalar(o.detect); err != nil || !(s > 0) || s > 10 {
		return 0, hint.Usage(fmt.Errorf("--detect is %q", o.detect), "write a share above 0, such as 3%")
	}
	return float64(s), nil
}

// precisionPlanner plans blocks from the noise of earlier runs or of a pilot.
type precisionPlanner struct{ *CommandLine }

// detect prints what runs of the study can show.
func (c precisionPlanner) detect(ctx context.Context, s *session.Study, o detectOptions) error {
	share, err := o.relative()
	if err != nil {
		return err
	}
	runs, err := s.Earlier(o.from)
	if err != nil {
		return err
	}
	source := printable.Counted(len(runs), "earlier run")
	if len(runs) == 0 {
		if !o.pilot {
			return hint.Usage(errors.New("no earlier run of this experiment under these conditions was found in runs/"),
				fmt.Sprintf("--pilot runs %d blocks first (about %v); --from DIR names a run", session.PilotBlocks, (time.Duration(session.PilotBlocks)*s.BlockTime()).Round(time.Second)))
		}
		dir, remove, err := c.pilot(ctx, s)
		if err != nil {
			return err
		}
		defer func() { _ = remove() }()
		runs, source = []*result.Dir{dir}, fmt.Sprintf("a pilot of %d blocks", session.PilotBlocks)
	}
	defer func() {
		for _, d := range runs {
			d.Close()
		}
	}()
	found, err := compare.Sensitivities(s.Plan, runs, s.Experiment.Confidence)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return hint.New("`tare doctor` checks this machine; --from names a run with more blocks",
			"%s: no comparison of this plan has %d valid pairs", source, stats.MinN)
	}
	if o.json {
		return c.answerSensitivities(s, found, share, o.within)
	}
	return c.writeSensitivities(s, found, source, share, o.within)
}

// pilot runs a few blocks in a directory that remove deletes.
func (c precisionPlanner) pilot(ctx context.Context, s *session.Study) (_ *result.Dir, remove func() error, err error) {
	if s.Experiment.Platform.Kind == mesh.OnKubernetes {
		return nil, nil, hint.Usage(fmt.Errorf("--pilot: %w on platform %s", errors.ErrUnsupported, mesh.OnKubernetes), "run the experiment with --set blocks=4, and name it with --from")
	}
	short, err := s.Pilot()
	if err != nil {
		return nil, nil, err
	}
	_, dir, remove, err := runCommand(c).temporarily(ctx, short, runOptions{})
	return dir, remove, err
}

// writeSensitivities prints a line for each comparison and metric.
func (c precisionPlanner) writeSensitivities(s *session.Study, found []compare.Sensitivity, source string, share float64, within time.Duration) error {
	var b strings.Builder
	block := s.BlockTime()
	fmt.Fprintf(&b, "Smallest detectable differences of this plan (80 %% power), from %s:\n\n", source)
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	heads := []string{"COMPARISON", "METRIC", "SPREAD OF A BLOCK", fmt.Sprintf("IN %d BLOCKS", s.Plan.Blocks)}
	if share > 0 {
		heads = append(heads, "FOR "+percents(share), "TIME")
	}
	blocks := int(within / block)
	if within > 0 {
		heads = append(heads, fmt.Sprintf("IN %v", experiment.Duration(within)))
	}
	fmt.Fprintln(tw, strings.Join(heads, "\t"))
	for _, x := range found {
		m, _ := metric.Lookup(x.Metric)
		row := []string{x.Treatment + " against " + x.Baseline, m.Title(),
			fmt.Sprintf("%s (%s to %s)", percents(x.Spread.Estimate), percents(*x.Spread.Low), percents(*x.Spread.High)), showsWords(x, s.Plan.Blocks)}
		if share > 0 {
			row = append(row, blocksWords(x, share, block)...)
		}
		if within > 0 {
			row = append(row, showsWords(x, blocks))
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\nShares are of the treatment's mean, or of the ratio for response times. The level is that of Holm's first step.\n")
	if within > 0 {
		fmt.Fprintf(&b, "%v is %s of %v.\n", experiment.Duration(within), printable.Counted(blocks, "block"), experiment.Duration(block.Round(time.Second)))
	}
	_, err := c.Out.Write([]byte(b.String()))
	return err
}

// answerSensitivities writes them as JSON. The answer is of the first one: the time for a share, or what a time shows.
func (c precisionPlanner) answerSensitivities(s *session.Study, found []compare.Sensitivity, share float64, within time.Duration) error {
	x, block := found[0], s.BlockTime()
	m, _ := metric.Lookup(x.Metric)
	b := answer.Brief{Verdict: compare.Insufficient, Subject: x.Treatment, Baseline: x.Baseline, Metric: x.Metric}
	if share > 0 {
		b.Sentence = fmt.Sprintf("A difference of %s in %s needs %s.", percents(share), m.Title(), strings.Join(blocksWords(x, share, block), ", "))
		if n, _, ok := x.Blocks(share); ok {
			b.Verdict, b.Minutes = answer.Planned, (time.Duration(n) * block).Minutes()
		}
	} else {
		b.Sentence = fmt.Sprintf("%v shows a difference of %s in %s.", experiment.Duration(within), showsWords(x, int(within/block)), m.Title())
		if d, ok := x.Shows(int(within / block)); ok {
			b.Verdict, b.Unit, b.Figure = answer.Planned, "%", &stats.Interval{Estimate: 100 * d}
		}
	}
	if b.Verdict == compare.Insufficient {
		b.Reason = b.Sentence
	}
	return answered(c.Out, b, struct {
		Sensitivities []compare.Sensitivity `json:"sensitivities"`
	}{found})
}

func showsWords(x compare.Sensitivity, blocks int) string {
	d, ok := x.Shows(blocks)
	if !ok {
		return fmt.Sprintf("nothing below %d blocks", stats.MinN)
	}
	return percents(d)
}

func percents(share float64) string {
	if share >= 1 {
		return fmt.Sprintf("%.0f %%", 100*share)
	}
	return fmt.Sprintf("%.2g %%", 100*share)
}

// blocksWords are the blocks for a share, up to those for the upper end of the spread, and their time.
func blocksWords(x compare.Sensitivity, share float64, block time.Duration) []string {
	n, high, ok := x.Blocks(share)
	if !ok {
		return []string{"over 100,000 blocks", ""}
	}
	words := printable.Counted(n, "block")
	if high > n {
		words += fmt.Sprintf(" (up to %d)", high)
	}
	return []string{words, experiment.Duration((time.Duration(n) * block).Round(time.Second)).String()}
}
