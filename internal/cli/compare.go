package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/report"
)

type compareOptions struct {
	format     string
	output     outfile.File
	all        bool
	anyway     bool
	confidence float64
	gates      []string
	undecided  string
}

func newCompareCommand(c *CommandLine) *cobra.Command {
	o := compareOptions{format: "text"}
	names := report.Names(acrossForms(report.Options{}))
	cmd := &cobra.Command{
		Use:   "compare [BASE…] [NEW]",
		Short: "Compare a run with earlier ones, and check the changes against gates",
		Long: `compare pairs the treatments of results directories by the levels of their factors,
and prints each change with an interval. Runs under different conditions (machine,
kernel, load, phases, topology, mesh definition) are refused with a list of the
differences, unless --anyway is given. With one directory NEW is the newest run in runs/,
and without any it is compared with the run before it of the same experiment.

Runs of the same thing differ from day to day. With one BASE the intervals cover the
variation within the two runs only. With at least 3, such as those of the last nights,
the run is the unit and intervals cover the variation from run to run. From 8 runs in
all, it also prints where a headline metric of a treatment changes (change points).

A gate bounds the change of a metric, relative or absolute, of all treatments or
of the named ones:

  ` + metric.CPUPerRequest + `/data < +3%
  ` + metric.Latency + `/p99{mesh=envoy} < +0.5ms
  ` + metric.Rate + ` > -1%

A gate is breached if the whole interval is beyond the bound. It holds if the whole
interval is within. Otherwise, and with fewer than 3 BASE runs, it is undecided. Errors,
failed requests and timeouts are counted: one BASE run decides them. To compare two
builds now, use tare ab: it needs no earlier runs.

Exit codes: 0 every gate holds; 4 a gate is breached; 5 undecided (--undecided pass or
fail makes it 0 or 4); 1 the runs cannot be compared; 2 a mistake in a gate.`,
		Example: `  tare compare runs/before runs/after
  tare compare runs/nightly-* runs/new --gate '` + metric.CPUPerRequest + `/total < +3%' --format markdown
  tare compare runs/before runs/after --anyway --all`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				next, err := c.newest()
				if err != nil {
					return err
				}
				if len(args) == 0 {
					base, err := c.before(next)
					if err != nil {
						return err
					}
					args = []string{base}
				}
				if filepath.Clean(args[0]) == next {
					return hint.Usage(fmt.Errorf("%s is the newest run itself", next), "name two runs: tare compare BASE NEW")
				}
				args = append(args, next)
			}
			return comparer{c}.compare(args[:len(args)-1], args[len(args)-1], o)
		},
	}
	f := cmd.Flags()
	choice(cmd, &o.format, "format", "report format: "+strings.Join(names, ", "), names)
	f.VarP(&o.output, "output", "o", "write to this `file` instead of standard output")
	f.BoolVar(&o.all, "all", false, "show every metric, not only the headline ones")
	f.BoolVar(&o.anyway, "anyway", false, "compare runs under different conditions")
	f.Float64Var(&o.confidence, "confidence", 0, "confidence of intervals, such as 0.99; default: the experiment's")
	f.StringArrayVar(&o.gates, "gate", nil, "bound the change of a metric, such as `'rate > -1%'`; may be repeated")
	undecidedFlag(cmd, &o.undecided)
	return cmd
}

type comparer struct{ *CommandLine }

func (c comparer) compare(bases []string, next string, o compareOptions) error {
	gates, err := o.parse()
	if err != nil {
		return err
	}
	across, err := compareDirs(bases, next, o)
	if err != nil {
		return err
	}
	if err := across.Gate(gates); err != nil {
		return gateMistake(err)
	}
	ended := outcomeOfGates(across, o)
	if err := c.writeAcross(across, o, console.Code(ended)); err != nil {
		return err
	}
	c.noteGates(across, o)
	return ended
}

// parse checks the flags before anything is read.
func (o compareOptions) parse() ([]compare.Gate, error) {
	if o.confidence != 0 && !(o.confidence > 0.5 && o.confidence < 1) {
		return nil, hint.Usage(fmt.Errorf("--confidence is %v", o.confidence), "write a number above 0.5 and below 1, such as 0.95")
	}
	var gates []compare.Gate
	for _, text := range o.gates {
		g, err := compare.ParseGate(text)
		if err != nil {
			return nil, gateMistake(err)
		}
		gates = append(gates, g)
	}
	return gates, nil
}

// gateMistake makes a mistake in a gate a usage error with the hint of the first one, and leaves other errors.
func gateMistake(err error) error {
	mistake, ok := errors.AsType[*compare.GateError](err)
	if !ok {
		return err
	}
	return hint.Usage(err, mistake.Hint())
}

func compareDirs(bases []string, next string, o compareOptions) (*compare.Across, error) {
	dirs, closeAll, err := openAll(append(slices.Clone(bases), next))
	defer closeAll()
	if err != nil {
		return nil, err
	}
	across, err := compare.CompareRuns(dirs[:len(bases)], dirs[len(bases)], compare.AcrossOptions{Options: compare.Options{Confidence: o.confidence}, Anyway: o.anyway})
	if err == nil && len(dirs) >= compare.MinHistory {
		across.History, err = compare.Histories(dirs, historyAlpha, compare.Options{})
	}
	return across, err
}

// historyAlpha is the significance level of a change point in a series of runs.
const historyAlpha = 0.05

// histories finds the change points of a series of runs.
func histories(paths []string) (*compare.History, error) {
	dirs, closeAll, err := openAll(paths)
	defer closeAll()
	if err != nil {
		return nil, err
	}
	return compare.Histories(dirs, historyAlpha, compare.Options{})
}

// openAll opens results directories. closeAll is never nil.
func openAll(paths []string) (dirs []*result.Dir, closeAll func(), err error) {
	closeAll = func() {
		for _, d := range dirs {
			_ = d.Close()
		}
	}
	for _, path := range paths {
		d, err := result.Open(path)
		if err != nil {
			return dirs, closeAll, err
		}
		dirs = append(dirs, d)
	}
	return dirs, closeAll, nil
}

func (c comparer) writeAcross(a *compare.Across, o compareOptions, exit int) error {
	return c.writeTo(string(o.output), func(w io.Writer) error {
		return report.Write(w, a, acrossForms(report.Options{All: o.all, Width: console.Columns(w), ExitCode: exit}), o.format)
	})
}

// acrossForms are the forms of a comparison of two runs, the default first.
func acrossForms(o report.Options) []report.Form[*compare.Across] {
	return append(report.AcrossForms(o), report.Form[*compare.Across]{Name: pageFormat().Name, Doc: pageFormat().Doc, Write: page.WriteAcross})
}

// noteGates prints a line for each gate that does not hold.
func (c comparer) noteGates(a *compare.Across, o compareOptions) {
	undecided := 0
	for _, g := range a.Gates {
		switch g.Outcome {
		case compare.Breached:
			c.Notef("gate %q is breached by %s", g.Gate, g.Treatment)
		case compare.Undecided:
			undecided++
			c.Notef("gate %q is undecided for %s: %s", g.Gate, g.Treatment, g.Why)
		}
	}
	if undecided > 0 && outcomeOfGates(a, o) == nil {
		c.Notef("%d of %d gate checks are undecided, and pass (--undecided pass)", undecided, len(a.Gates))
	}
}

func outcomeOfGates(a *compare.Across, o compareOptions) error {
	count := map[compare.Outcome]int{}
	for _, g := range a.Gates {
		count[g.Outcome]++
	}
	breached, undecided := count[compare.Breached], count[compare.Undecided]
	switch {
	case breached > 0:
		return &console.ExitError{Err: fmt.Errorf("%d of %d gate checks are breached", breached, len(a.Gates)), Code: console.Gate}
	case undecided > 0 && o.undecided == "fail":
		return &console.ExitError{Err: fmt.Errorf("%d of %d gate checks are undecided, and --undecided is fail", undecided, len(a.Gates)), Code: console.Gate}
	case undecided > 0 && o.undecided != "pass":
		return &console.ExitError{Err: fmt.Errorf("%d of %d gate checks are undecided", undecided, len(a.Gates)), Code: console.Undecided}
	}
	return nil
}
