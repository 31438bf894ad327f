package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/app"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/mesh"
	"github.com/tare-mesh/tare/internal/plan"
	"github.com/tare-mesh/tare/internal/strict"
)

// planFormats are the ways to print a plan, the default first.
var planFormats = []struct {
	name  string
	write func(io.Writer, *plan.Plan) error
}{
	{"text", writePlanText},
	{"json", writePlanJSON},
}

// experimentOptions are the flags of every command that reads an experiment file.
type experimentOptions struct {
	set []string // key=value
}

func (o *experimentOptions) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&o.set, "set", nil, "override a field of the file, such as `blocks=3` or factors.rate=[100,200]; may be repeated")
}

func newPlanCommand(c *cli) *cobra.Command {
	var o experimentOptions
	var names []string
	for _, f := range planFormats {
		names = append(names, f.name)
	}
	format := names[0]
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Print what an experiment would run, in which order and for how long",
		Long: `plan reads an experiment file and prints its treatments, what each is compared
with, its trials in the order in which they would run, and the expected time. It
starts nothing and writes nothing. The same file gives the same plan on every machine.`,
		Example: `  tare plan examples/quickstart.yaml
  tare plan examples/quickstart.yaml --set blocks=10 --set 'factors.rate=[500, 1000]'
  tare plan examples/quickstart.yaml --format json`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, f := range planFormats {
				if f.name == format {
					_, p, err := c.plan(args[0], o)
					if err != nil {
						return err
					}
					return f.write(c.stdout, p)
				}
			}
			return usageError{fmt.Errorf("unknown format %q", format), "formats: " + strings.Join(names, ", ")}
		},
	}
	o.register(cmd)
	cmd.Flags().StringVar(&format, "format", format, "format of the plan: "+strings.Join(names, " or "))
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// plan reads an experiment file and expands it.
func (c *cli) plan(file string, o experimentOptions) (*experiment.Experiment, *plan.Plan, error) {
	e, err := experiment.Read(file, c.knownNames(), o.set...)
	if err != nil {
		return nil, nil, readable(err)
	}
	p, err := plan.Expand(e)
	return e, p, err
}

// knownNames are the names that an experiment file may use.
func (c *cli) knownNames() experiment.Known {
	known := experiment.Known{
		Meshes:     mesh.Names(),
		Platforms:  c.catalog.platforms,
		Protocols:  []string{"http1"},
		Topologies: app.Names(),
	}
	for _, g := range c.catalog.generators {
		known.Generators = append(known.Generators, g.Name())
	}
	return known
}

// readable gives every mistake in a file its hint, below it. What else goes wrong
// in reading is the user's mistake too: tare needs nothing but the file.
func readable(err error) error {
	var problems strict.Problems
	if errors.As(err, &problems) {
		return invalidFile{problems}
	}
	return usageError{err, ""} // no such file, or an override that is none
}

// invalidFile prints the mistakes of a file with their hints.
type invalidFile struct{ strict.Problems }

func (e invalidFile) Unwrap() error { return e.Problems }

func (e invalidFile) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 { // the first has it from printError
			b.WriteString("tare: ")
		}
		fmt.Fprintln(&b, p.Error())
		if p.Hint != "" {
			fmt.Fprintln(&b, "hint: "+p.Hint)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func writePlanJSON(w io.Writer, p *plan.Plan) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(p)
}

func writePlanText(w io.Writer, p *plan.Plan) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s × %s = %s, seed %d\n", p.Experiment, counted(len(p.Treatments), "treatment"),
		counted(p.Blocks, "block"), counted(len(p.Trials), "trial"), p.Seed)
	fmt.Fprintf(&b, "about %v, %v a trial\n\n", experiment.Duration(p.Expected.Round(time.Second)), experiment.Duration(p.TrialTime))

	factors := factorNames(p)
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, strings.Join(append([]string{"TREATMENT", "COMPARED WITH"}, factors...), "\t"))
	for _, t := range p.Treatments {
		row := []string{t.ID, against(p, t)}
		for _, f := range factors {
			row = append(row, shown(f, t.Factors[f]))
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}

	fmt.Fprintf(&b, "\nThe trials in order:\n\n")
	tw = tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "BLOCK\tTRIAL\tTREATMENT")
	for _, t := range p.Trials {
		fmt.Fprintf(tw, "%d\t%d\t%s\n", t.Block, t.Ordinal, t.Treatment)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// factorNames are the columns: the factors that the file names, in its order of fields.
func factorNames(p *plan.Plan) []string {
	var names []string
	for _, f := range experiment.FactorNames() {
		if _, ok := p.Treatments[0].Factors[f]; ok {
			names = append(names, f)
		}
	}
	return names
}

// against says in words what a treatment is compared with.
func against(p *plan.Plan, t plan.Treatment) string {
	switch {
	case t.Control:
		return t.Baseline + " (control: no difference expected)"
	case t.Baseline != "":
		return t.Baseline
	}
	for _, other := range p.Treatments {
		if other.Baseline == t.ID {
			return "is a baseline"
		}
	}
	return "nothing"
}

// shown writes a level as the experiment file does.
func shown(factor string, level any) string {
	number, ok := level.(float64)
	switch {
	case !ok:
		return fmt.Sprint(level)
	case strings.HasSuffix(factor, "Size"):
		return experiment.Size(number).String()
	}
	return strconv.FormatFloat(number, 'f', -1, 64)
}
