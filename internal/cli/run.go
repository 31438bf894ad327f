package cli

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/result"
)

type runOptions struct {
	ExperimentOptions
	out    string // results directory
	resume string // results directory of an earlier run
	plain  bool
	dry    bool // print what would be done
	report reportOptions
	// sourceShown: the application's source was printed before.
	sourceShown bool
	// finish prints the result. Nil means the report.
	finish func(dir string, o reportOptions) error
	// undecided is the outcome of an undecided gate: pass, fail, or empty for its own exit code.
	undecided string
	// gatesOnly makes trials that failed or are invalid no reason for an exit code, if each treatment has a valid one:
	// the gates take account of them.
	gatesOnly bool
	// hints changes the hints of messages, for a command without a file. Nil keeps them.
	hints func(string) string
	// bisect: the exit codes have the meaning that git bisect gives them.
	bisect bool
	// interrupted is the message of the first interrupt, "" for the message of a run that keeps its records.
	interrupted string
}

func newRunCommand(c *CommandLine) *cobra.Command {
	o := runOptions{report: defaultReport()}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run an experiment and print the report",
		Long: `run runs the trials of an experiment file one after another and prints the report.
It keeps all measurements in a results directory, from which ` + "`tare report`" + `
computes the same report again. FILE may be the name of an example, such as quickstart.

On a terminal a screen shows the plan, the interval so far, rates, latencies and CPU:
arrows choose a trial, Enter shows it, l shows the log, s sorts, Space pauses. With
--plain or no terminal there are lines.

The first interrupt (Ctrl-C, or q) removes the running trial and keeps every finished
one; --resume continues from there. Exit codes: 0 done; 1 failed; 2 an invalid file; 3
finished, but some trials failed or were invalid; 4 an expectation or a gate does not
hold; 5 a gate is undecided; 130 interrupted.`,
		Example: `  tare run quickstart
  tare run examples/quickstart.yaml
  tare run examples/quickstart.yaml --set blocks=20 --out runs/mine
  tare run --resume runs/mine
  tare run experiment.yaml --mesh ./my-mesh.yaml
  tare run experiment.yaml --set platform.kind=kubernetes --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.resume != "" {
				return cobra.MaximumNArgs(1)(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.resume != "" && o.out != "" {
				return hint.Usage(errors.New("--out and --resume exclude each other"), "a resumed run continues in its own directory")
			}
			file := filepath.Join(o.resume, result.ExperimentFile)
			if len(args) == 1 {
				file = args[0]
			}
			if !o.dry {
				c.program.Sweep()
			}
			return runCommand{c}.run(cmd.Context(), file, o)
		},
	}
	o.Register(cmd)
	o.RegisterCluster(cmd)
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "results `directory`; default runs/<name>-<UTC time>")
	f.StringVar(&o.resume, "resume", "", "continue the interrupted run in `DIR`; FILE may be omitted, and must be unchanged")
	f.BoolVar(&o.dry, "dry-run", false, "run nothing: print manifests and commands of one trial of each treatment (kubernetes)")
	f.BoolVar(&o.plain, "plain", false, "plain lines instead of a screen")
	choice(cmd, &o.report.format, "format", "report format, as in tare report", formatNames())
	undecidedFlag(cmd, &o.undecided)
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagDirname("resume")
	return cmd
}

// undecidedFlag adds the flag of the outcome of undecided gates.
func undecidedFlag(cmd *cobra.Command, outcome *string) {
	choice(cmd, outcome, "undecided", "`outcome` of an undecided gate: pass, as one that holds, or fail, as a breached one; default: exit code 5", outcomes)
}

type runCommand struct{ *CommandLine }

// run reads an experiment file, runs it and prints the report.
func (c runCommand) run(ctx context.Context, file string, o runOptions) error {
	o.Resumed = o.resume
	study, err := c.Read(ctx, file, o.ExperimentOptions)
	if err != nil {
		return err
	}
	return c.runStudy(ctx, study, o)
}
