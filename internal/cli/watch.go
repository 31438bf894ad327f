package cli

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/live"
)

func newWatchCommand(c *CommandLine) *cobra.Command {
	plain := false
	cmd := &cobra.Command{
		Use:   "watch [DIR]",
		Short: "Show a run of another terminal",
		Long: `watch shows the screen of tare run for a results directory that another tare
writes, or the last screen of a run that has ended. watch only reads the directory.
Without DIR it takes the newest run in runs/.

Keys: q ends, arrows choose a trial, Enter shows it, c shows its cluster, l the log,
s sorts, Space pauses.`,
		Example: `  tare watch
  tare watch runs/mine --plain`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := c.orNewest(args)
			if err != nil {
				return err
			}
			return c.watch(cmd.Context(), args[0], plain)
		},
	}
	cmd.Flags().BoolVar(&plain, "plain", false, "plain lines instead of a screen")
	return cmd
}

func (c *CommandLine) watch(ctx context.Context, path string, plain bool) error {
	d, err := result.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	options := live.Options{Plain: plain, In: c.In, Plan: d.Plan(), Analyze: reportsOf(d)}
	ctx, end := context.WithCancel(ctx)
	defer end()
	options.Interrupt = end
	view := live.New(c.Err, options)
	defer view.Close()
	defer c.atInterrupt(false, view.Leave, "")()
	_ = view.Event(d.Opening(measureOf(d)))
	if err = live.Follow(ctx, d, view); err == nil {
		_ = view.Event(result.Event{Time: time.Now(), Kind: result.KindEnd})
		view.Wait()
	}
	if errors.Is(err, context.Canceled) {
		return nil // as asked for
	}
	return err
}

// reportsOf returns the report on the first blocks of a run.
func reportsOf(d *result.Dir) func(block int) (*answer.Report, error) {
	return func(block int) (*answer.Report, error) {
		return answer.Analyze(d, compare.Options{Blocks: block})
	}
}

// measureOf is the length of the measure phase. 0 means that the experiment file cannot be read any more.
func measureOf(d *result.Dir) time.Duration {
	x, err := experiment.ReadRecord(filepath.Join(d.Path(), result.ExperimentFile))
	if err != nil {
		return 0
	}
	return time.Duration(x.Phases.Measure)
}
