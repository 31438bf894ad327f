package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
)

// detectOptions are the flags of `tare plan` about what a run can show.
type detectOptions struct {
	detect string        // a share, such as 3%
	within time.Duration // time of a run
	from   []string      // results directories
	pilot  bool
	plain  bool
}

func (o *detectOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.detect, "detect", "", "print the blocks and minutes that detect a difference of this `share`, such as 3%, with 80 % power")
	f.DurationVar(&o.within, "within", 0, "print the smallest detectable difference of a run of this `duration`")
	f.StringArrayVar(&o.from, "from", nil, "earlier run to take the spread from, a results `directory`; default: runs of the same conditions in runs/; may be repeated")
	f.BoolVar(&o.pilot, "pilot", false, "without an earlier run, run 4 blocks first to measure the spread")
	f.BoolVar(&o.plain, "plain", false, "plain lines instead of a screen, for --pilot")
	_ = cmd.MarkFlagDirname("from")
}

// asked reports whether any of the questions is asked.
func (o *detectOptions) asked() bool { return o.detect != "" || o.within > 0 }

// share is the difference to detect. 0 means that none is asked for.
func (o *detectOptions) share() (float64, error) {
	if o.detect == "" { // --within alone
		return 0, nil
	}
	var s experiment.Share
	if err := s.UnmarshalScalar(o.detect); err != nil || !(s > 0) || s > 10 {
		return 0, hint.Usage(fmt.Errorf("--detect is %q", o.detect), "write a share above 0, such as 3%")
	}
	return float64(s), nil
}

// pilotBlocks of a pilot: the fewest that give three degrees of freedom.
const pilotBlocks = 4

// mostEarlier bounds the earlier runs that are read.
const mostEarlier = 20

// precisionPlanner plans blocks from the noise of earlier runs or of a pilot.
type precisionPlanner struct{ *CommandLine }

// detect prints what runs of the study can show.
func (c precisionPlanner) detect(ctx context.Context, s *Study, o detectOptions) error {
	share, err := o.share()
	if err != nil {
		return err
	}
	runs, err := c.earlier(s, o.from)
	if err != nil {
		return err
	}
	source := printable.Counted(len(runs), "earlier run")
	if len(runs) == 0 {
		if !o.pilot {
			return hint.Usage(errors.New("no earlier run of this experiment under these conditions was found in runs/"),
				fmt.Sprintf("--pilot runs %d blocks first (about %v); --from DIR names a run", pilotBlocks, (time.Duration(pilotBlocks)*blockTime(s)).Round(time.Second)))
		}
		dir, remove, err := c.pilot(ctx, s, o.plain)
		if err != nil {
			return err
		}
		defer remove()
		runs, source = []*result.Dir{dir}, fmt.Sprintf("a pilot of %d blocks", pilotBlocks)
	}
	defer func() {
		for _, d := range runs {
			d.Close()
		}
	}()
	found, err := analysis.Sensitivities(s.Plan, runs, s.Experiment.Confidence)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return hint.New("`tare doctor` checks this machine; --from names a run with more blocks",
			"%s: no comparison of this plan has %d valid pairs", source, stats.MinN)
	}
	if err := c.writeSensitivities(s, found, source, share, o.within); err != nil || s.Plan.Slices == nil {
		return err
	}
	fmt.Fprintln(c.Out)
	return s.allocation(c.Out, runs, share)
}

// earlier opens the runs that are named, or those in runs/ of the same experiment and machine. The runs
// may differ in the fields of free.
func (c precisionPlanner) earlier(s *Study, named []string, free ...string) (runs []*result.Dir, err error) {
	now, err := c.conditions(s)
	if err != nil {
		return nil, err
	}
	paths := named
	if len(named) == 0 {
		plans, err := filepath.Glob(filepath.Join("runs", "*", result.PlanFile))
		if err != nil {
			return nil, err
		}
		for _, p := range plans {
			paths = append(paths, filepath.Dir(p))
		}
	}
	for _, p := range slices.Backward(paths) { // names end with their time: the newest first
		d, err := result.Open(p)
		if err != nil {
			if len(named) > 0 {
				return runs, err
			}
			continue // a directory of another kind is not searched for
		}
		obstacles, err := analysis.ConditionsOf(d).Obstacles(now)
		obstacles = slices.DeleteFunc(obstacles, func(x analysis.Distinction) bool { return slices.Contains(free, x.What) })
		if err != nil || len(obstacles) > 0 || d.Plan().Experiment != s.Plan.Experiment || len(runs) == mostEarlier {
			d.Close()
			if len(named) > 0 && len(obstacles) > 0 {
				return runs, hint.Usage(fmt.Errorf("%s was run under other conditions: %s", p, obstacles[0]), "plan from a run of this experiment on this machine")
			}
			continue
		}
		runs = append(runs, d)
	}
	return runs, nil
}

// conditions are those of a run that would begin now on this machine.
func (c precisionPlanner) conditions(s *Study) (analysis.Conditions, error) {
	text, err := s.Experiment.YAML()
	if err != nil {
		return analysis.Conditions{}, err
	}
	env := meter.Host()
	env.Platform = s.Experiment.Platform.Kind
	if env.Meshes, err = s.meshDigests(); err != nil {
		return analysis.Conditions{}, err
	}
	return analysis.Conditions{Name: "the plan", Environment: env, Experiment: text}, nil
}

// blockTime is the expected time of a block.
func blockTime(s *Study) time.Duration {
	return s.Plan.TrialTime * time.Duration(len(s.Plan.Treatments))
}

// pilot runs a few blocks in a directory that remove deletes.
func (c precisionPlanner) pilot(ctx context.Context, s *Study, plain bool) (_ *result.Dir, remove func(), err error) {
	if s.Experiment.Platform.Kind == mesh.OnKubernetes {
		return nil, nil, hint.Usage(fmt.Errorf("--pilot: %w on platform %s", errors.ErrUnsupported, mesh.OnKubernetes), "run the experiment with --set blocks=4, and name it with --from")
	}
	short, err := s.first(pilotBlocks)
	if err != nil {
		return nil, nil, err
	}
	if err := generator.Missing(generator.FindAll(ctx, short.used(c.catalog.byName()))); err != nil {
		return nil, nil, err
	}
	tmp, err := os.MkdirTemp("", "tare-pilot-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a directory for the pilot: %w", err)
	}
	remove = func() { _ = os.RemoveAll(tmp) }
	on, err := runCommand(c).begin(ctx, short, runOptions{out: filepath.Join(tmp, "run")})
	if err != nil {
		remove()
		return nil, nil, err
	}
	_, err = runCommand(c).carryOut(ctx, short, on, runOptions{plain: plain})
	if err = errors.Join(err, on.dir.Close()); err == nil {
		var d *result.Dir
		if d, err = result.Open(on.dir.Path()); err == nil {
			return d, remove, nil
		}
	}
	remove()
	return nil, nil, err
}

// first is the study with another number of blocks.
func (s *Study) first(blocks int) (*Study, error) {
	x := *s.Experiment
	x.Blocks = experiment.Fixed(blocks)
	p, err := plan.Expand(&x)
	if err != nil {
		return nil, err
	}
	return &Study{Experiment: &x, Plan: p, Meshes: s.Meshes}, nil
}

// writeSensitivities prints a line for each comparison and metric.
func (c precisionPlanner) writeSensitivities(s *Study, found []analysis.Sensitivity, source string, share float64, within time.Duration) error {
	var b strings.Builder
	block := blockTime(s)
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

func percents(share float64) string { return fmt.Sprintf("%.2g %%", 100*share) }

func showsWords(x analysis.Sensitivity, blocks int) string {
	d, ok := x.Shows(blocks)
	if !ok {
		return fmt.Sprintf("nothing below %d blocks", stats.MinN)
	}
	return percents(d)
}

// blocksWords are the blocks for a share, up to those for the upper end of the spread, and their time.
func blocksWords(x analysis.Sensitivity, share float64, block time.Duration) []string {
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
