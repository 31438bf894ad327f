package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/live"
)

func newWatchCommand(c *CommandLine) *cobra.Command {
	plain, speed := false, 1.0
	cmd := &cobra.Command{
		Use:   "watch [DIR]",
		Short: "Show a run of another terminal, or replay a finished run",
		Long: `watch shows the screen of tare run for a results directory that another tare
writes. A run that has ended is replayed. watch only reads the directory. Without DIR
it takes the newest run in runs/.

Keys: q ends, arrows choose a trial, Enter shows it, c shows its cluster, l the log,
Space pauses, + and - change the speed of a replay.`,
		Example: `  tare watch
  tare watch runs/mine --speed 10
  tare watch runs/mine --plain --speed 0`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(speed >= 0 && speed <= 1024) {
				return hint.Usage(fmt.Errorf("--speed is %v", speed), "write a number from 0 to 1024; 0 does not wait")
			}
			args, err := c.orNewest(args)
			if err != nil {
				return err
			}
			return c.watch(cmd.Context(), args[0], watchOptions{plain, speed, cmd.Flags().Changed("speed")})
		},
	}
	cmd.Flags().BoolVar(&plain, "plain", false, "plain lines instead of a screen")
	cmd.Flags().Float64Var(&speed, "speed", speed, "replay from the beginning, at this `multiple` of real time; 0 does not wait")
	return cmd
}

type watchOptions struct {
	plain  bool
	speed  float64
	replay bool // even if the run is under way
}

func (c *CommandLine) watch(ctx context.Context, path string, o watchOptions) error {
	d, err := result.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	ended, err := d.Ended()
	if err != nil {
		return err
	}
	options := live.Options{Plain: o.plain, In: c.In, Plan: d.Plan(), Analyze: reportsOf(d)}
	if ended || o.replay {
		options.Player = live.NewPlayer(o.speed)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	options.Interrupt = end
	view := live.New(c.Err, options)
	defer view.Close()
	defer c.atInterrupt(false, view.Leave, "")()
	_ = view.Event(d.Opening(measureOf(d)))
	if options.Player != nil {
		err = options.Player.Play(ctx, d.Replay(), view)
	} else {
		err = live.Follow(ctx, d, view)
	}
	if err == nil {
		_ = view.Event(result.Event{Time: options.Now(), Kind: result.KindEnd})
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
