package cli

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/importer"
	"github.com/tare-mesh/tare/internal/result"
)

type importOptions struct {
	importer.Options
	out    string
	report string // format, "" for none
}

func newImportCommand(c *CommandLine) *cobra.Command {
	var o importOptions
	var names []string
	list := ""
	for _, s := range importSources() {
		names = append(names, s.Name)
		list += fmt.Sprintf("\n  %-21s %s", s.Name, s.Doc)
	}
	cmd := &cobra.Command{
		Use:   "import SOURCE PATH…",
		Short: "Turn results of other tools into a results directory",
		Long: `import converts results of other tools to a results directory for report and
compare. Values that a source does not contain stay unknown. A run with damaged
files becomes a failed or invalid trial that names file and line; the others are
imported.

Sources:` + list,
		Example: `  tare import great-sidecar-debate V1/Data/ambient V1/Data/linkerd --out runs/debate
  tare import great-sidecar-debate V1/Data/* --out runs/debate --report
  tare import fortio results/*.json --mesh istio --out runs/fortio`,
		ValidArgs: names,
		Args:      cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("warmup") && !cmd.Flags().Changed("tail") {
				o.Warmup, o.Tail = 0, 0 // the source's own
			}
			return resultsImport{c}.importResults(args[0], args[1:], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "the results `directory` to make; it must be empty or absent")
	choice(cmd, &o.report, "report", "print the report instead of the name of the results directory, in a `format` of tare report such as --report=json, and write its page", formatNames())
	f.Lookup("report").NoOptDefVal = defaultReport().format
	f.StringVar(&o.Mesh, "mesh", "", "level of the factor mesh for all files; default: the `name` of each file's directory")
	f.DurationVar(&o.Warmup, "warmup", 60*time.Second, "cut from sampled figures after the load is first seen; negative: nothing")
	f.DurationVar(&o.Tail, "tail", 30*time.Second, "cut from sampled figures before the load is last seen; negative: nothing")
	f.Float64Var(&o.Rate, "rate", 0, "intended requests per second, if the files do not contain them")
	f.BoolVar(&o.Corrected, "corrected", false, "latencies count from the intended start (oha --latency-correction); the files do not contain this")
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

type resultsImport struct{ *CommandLine }

func (c resultsImport) importResults(source string, paths []string, o importOptions) error {
	i := slices.IndexFunc(importSources(), func(s importer.Source) bool { return s.Name == source })
	if i < 0 {
		return hint.Usage(fmt.Errorf("unknown source %q", source), "`tare import --help` lists the sources")
	}
	if !(o.Rate >= 0) || math.IsInf(o.Rate, 0) { // NaN is neither
		return hint.Usage(fmt.Errorf("--rate is %v", o.Rate), "write the requests per second, such as 500")
	}
	study, err := importSources()[i].Read(paths, o.Options)
	if err != nil {
		return fmt.Errorf("import %s: %w", source, err)
	}
	failed, invalid := study.Failed()
	if failed == len(study.Trials) {
		c.listImport(study)
		return errors.New("import: no run could be read, so there are no results")
	}
	env := result.Environment{Time: time.Now().UTC(), Tare: console.Version(), Command: append([]string{"tare", "import", source}, paths...)}
	if err := importer.Write(o.out, study, env); err != nil {
		return fmt.Errorf("import %s: %w", source, err)
	}
	c.listImport(study)
	c.Notef("imported %s", printable.Counted(len(study.Trials), "run"))
	var ended error
	if failed+invalid > 0 {
		ended = &console.ExitError{Code: console.Incomplete}
	}
	return cmp.Or(c.showImport(o, console.Code(ended)), ended)
}

// showImport prints the name of the results directory or, with --report, its report, which also becomes a page.
func (c resultsImport) showImport(o importOptions, exit int) error {
	if o.report == "" {
		fmt.Fprintln(c.Out, o.out)
		return nil
	}
	c.Notef("results in %s", o.out)
	if err := writeReport(c.Out, o.out, reportOptions{format: o.report, exit: exit}); err != nil {
		return err
	}
	return reporter(c).page(o.out, defaultReport())
}

// listImport lists imported, skipped and unusable runs.
func (c resultsImport) listImport(s *importer.Study) {
	for i := range s.Trials {
		r := &s.Trials[i].Record
		if r.Error != "" {
			c.Notef("failed: %s", r.Error)
		}
		for _, w := range r.Warnings {
			if !w.Invalidates {
				continue
			}
			c.Notef("invalid: %s", w.Message)
			if w.Hint != "" {
				fmt.Fprintf(c.Err, "hint: %s\n", printable.Text(w.Hint))
			}
		}
	}
	for _, skipped := range s.Skipped {
		c.Notef("skipped: %s", skipped)
	}
}
