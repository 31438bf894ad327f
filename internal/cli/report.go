package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/verify"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/show/series"
)

func newReportCommand(c *CommandLine) *cobra.Command {
	o := defaultReport()
	cmd := &cobra.Command{
		Use:   "report [DIR]",
		Args:  cobra.MaximumNArgs(1),
		Short: "Print the report of a results directory, from its raw records",
		Long: `report computes every figure from the raw records in a results directory: the cost
of each treatment, its difference to the baseline with an interval and a verdict,
the noise, and warnings with hints. It runs nothing, and works during a run.
The text has at most 40 lines; --all has the rest.
Without DIR it takes the newest run in runs/.

--push sends the figures to a database, each second of load, and trials, phases and
faults for annotations. For old runs, set out_of_order_time_window in Prometheus. The dashboard
templates/grafana.json shows them.

Formats:
` + formatList(),
		Example: `  tare report
  tare report runs/quickstart-20260301T120000Z
  tare report runs/quickstart-20260301T120000Z --all
  tare report runs/quickstart-20260301T120000Z --cost examples/prices.yaml
  tare report runs/quickstart-20260301T120000Z --format json -o report.json
  tare report runs/quickstart-20260301T120000Z --push http://127.0.0.1:9090/api/v1/write`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if findFormat(o.format, report.Options{}).Export == nil {
				if err := outfile.Check(o.output); err != nil {
					return hint.Usage(err, "")
				}
			}
			args, err := c.orNewest(args)
			if err != nil {
				return err
			}
			if o.push.url != "" {
				return reporter{c}.pushReport(cmd, args[0], o)
			}
			return reporter{c}.report(args[0], o)
		},
	}
	f := cmd.Flags()
	choice(cmd, &o.format, "format", "report format: "+strings.Join(formatNames(), ", "), formatNames())
	f.StringVarP(&o.output, "output", "o", "", "write to this `file` instead of standard output; a directory for formats that are one")
	f.BoolVar(&o.all, "all", false, "show every section and metric, not only the 40 most important lines")
	f.StringVar(&o.metric, "metric", "", "show only metrics of this `pattern`, such as "+metric.Memory+" or '"+metric.Latency+"/p9*' (text and markdown)")
	f.StringVar(&o.method, "method", "", "method from trials to figures: "+methodNames()+" (default: the most precise that the results allow)")
	f.StringSliceVar(&o.baseline, "baseline", nil, "compare with these `factor=level` instead of the experiment's baseline, such as mesh=linkerd")
	f.StringVar(&o.same, "same-within", "", "distinguish equivalence within a `margin` of the ratio, such as 2%, from no difference shown")
	f.BoolVar(&o.ladder, "ladder", false, "add what each treatment adds to the one before it, in the order of factors.mesh")
	f.StringVar(&o.cost, "cost", "", "price the result with the prices and scenarios in a `file` such as examples/prices.yaml")
	_ = cmd.MarkFlagFilename("cost", "yaml", "yml")
	o.push.register(cmd)
	names := lists.Map(attributions(), func(a mesh.Attribution) string { return a.Name })
	f.StringVar(&o.attribution, "attribution", "", "assign tasks to control plane, data plane and other planes with this `classification`: "+strings.Join(names, ", ")+", or a file")
	_ = cmd.RegisterFlagCompletionFunc("attribution", cobra.FixedCompletions(names, cobra.ShellCompDirectiveDefault))
	return cmd
}

func formatNames() []string {
	return lists.Map(reportFormats(report.Options{}), func(f report.Format) string { return f.Name })
}

func formatList() string {
	var b strings.Builder
	for _, f := range reportFormats(report.Options{}) {
		fmt.Fprintf(&b, "  %-21s %s\n", f.Name, f.Doc)
	}
	return strings.TrimRight(b.String(), "\n")
}

type reporter struct{ *CommandLine }

func (c reporter) report(dir string, o reportOptions) error {
	if f := findFormat(o.format, report.Options{}); f.Export != nil {
		return exportReport(f, dir, o)
	}
	if inside, name := filepath.Split(o.output); name != pageFile || filepath.Clean(inside) != filepath.Clean(dir) {
		err := c.writeTo(o.output, func(w io.Writer) error { return writeReport(w, dir, o) })
		if _, missing := os.Stat(filepath.Join(dir, pageFile)); err == nil && missing == nil && o.output == "" && o.format == defaultReport().format {
			c.showPage(dir)
		}
		return err
	}
	var b bytes.Buffer
	if err := writeReport(&b, dir, o); err != nil {
		return err
	}
	return result.Add(dir, pageFile, b.Bytes()) // its manifest lists the page
}

type reportOptions struct {
	format string
	output string // file, empty for standard output
	all    bool
	metric string // pattern of the metrics shown, empty for the headline ones
	// method and baseline override the experiment's. Empty means no override.
	method   string
	baseline []string
	cost     string // file of prices, empty for none
	// attribution classifies tasks again: the name or the file of a classification. Empty means as the run had them.
	attribution string
	same        string // margin that counts as the same, empty for the experiment's
	ladder      bool   // what each treatment adds to the one before it
	exit        int    // exit code of the command
	push        pushOptions
}

// defaultReport are the options of tare report without flags.
func defaultReport() reportOptions { return reportOptions{format: "text"} }

// writeReport analyses the results in dir and writes the answer to w. `tare run`
// ends with it, so that both print the same from the same files.
func writeReport(w io.Writer, dir string, o reportOptions) error {
	f, err := reportFormat(o, console.Columns(w), console.Color(w))
	if err != nil {
		return err
	}
	a, err := analyse(dir, o)
	if err != nil {
		return err
	}
	defer a.Dir.Close()
	return f.WriteTo(w, a)
}

// analyse opens a results directory and computes its report. Close the directory after use.
func analyse(dir string, o reportOptions) (answer.Analysis, error) {
	d, err := result.Open(dir)
	if err != nil {
		return answer.Analysis{}, err
	}
	base, err := levelsOf(o.baseline)
	var margin experiment.Share
	if err == nil && o.same != "" {
		if e := margin.UnmarshalScalar(o.same); e != nil {
			err = hint.Usage(fmt.Errorf("--same-within: %w", e), "write it as --same-within 2%")
		}
	}
	attribute, wrong := attributionOf(o.attribution)
	if err == nil {
		err = wrong
	}
	if err == nil {
		a := answer.Analysis{Dir: d, Options: compare.Options{Attribute: attribute, Method: compare.Method(o.method), Baseline: base, SameWithin: float64(margin), Ladder: o.ladder}}
		a.Report, err = answer.Analyze(d, a.Options)
		if err == nil {
			err = addCost(d, a.Report, o.cost)
		}
		if err == nil {
			return a, nil
		}
	}
	_ = d.Close()
	return answer.Analysis{}, err
}

// checkForRun refuses, before a run, a report that cannot be written after it.
func (o reportOptions) checkForRun() error {
	f, err := reportFormat(o, 0, false)
	if err != nil {
		return err
	}
	if f.Export != nil {
		return hint.Usage(fmt.Errorf("format %s is a directory of files", f.Name), "run, and then write it with `tare report DIR --format "+f.Name+" -o DIR`")
	}
	return nil
}

// attributionOf reassigns tasks to planes. Nil means no change.
func attributionOf(nameOrPath string) (func(mesh.Task) mesh.Task, error) {
	if nameOrPath == "" {
		return nil, nil
	}
	a, err := mesh.LoadAttribution(nameOrPath, attributions())
	if err != nil {
		return nil, hint.InvalidFile(err)
	}
	return a.Attribute, nil
}

// reportFormat finds the format asked for, to be laid out for width columns. 0 means no limit.
func reportFormat(o reportOptions, width int, color bool) (report.Format, error) {
	f := findFormat(o.format, report.Options{All: o.all, Metric: o.metric, Width: width, Color: color, ExitCode: o.exit})
	switch {
	case o.metric == "":
	case o.format != "text" && o.format != "markdown":
		return f, hint.Usage(fmt.Errorf("--metric with format %s", o.format), "formats text and markdown have it")
	case !slices.ContainsFunc(metric.All(), func(m metric.Metric) bool { return metric.Matches(o.metric, m.Name) }) &&
		!slices.ContainsFunc(metric.Rows(), func(r metric.Row) bool { return r.Routes && metric.Matches(o.metric, r.Name) }):
		return f, hint.Usage(fmt.Errorf("no metric matches %q", o.metric), "`tare list metrics` lists them; * stands for any text")
	}
	return f, nil
}

func findFormat(name string, o report.Options) report.Format {
	all := reportFormats(o)
	return all[slices.IndexFunc(all, func(f report.Format) bool { return f.Name == name })]
}

// addCost works out the cost where a file of prices is given.
func addCost(d *result.Dir, r *answer.Report, file string) error {
	if file == "" {
		return nil
	}
	p, err := answer.ReadPrices(file)
	if err != nil {
		return hint.InvalidFile(err)
	}
	published, err := report.References()
	if err != nil {
		return err
	}
	return r.AddCost(d, *p, published)
}

func methodNames() string {
	return strings.Join(lists.Map(compare.Methods(), func(m compare.Method) string { return string(m) }), ", ")
}

// levelsOf reads factor=level.
func levelsOf(flags []string) (map[string]string, error) {
	levels := map[string]string{}
	for _, f := range flags {
		name, level, ok := strings.Cut(f, "=")
		if !ok || name == "" || level == "" {
			return nil, hint.Usage(fmt.Errorf("--baseline %q is not factor=level", f), "write it as --baseline mesh=linkerd")
		}
		levels[name] = level
	}
	return levels, nil
}

// pageFile is the report of a run as a page, in its results directory.
const pageFile = "report.html"

// page writes the report of a run beside its results, and shows its path.
func (c reporter) page(dir string, o reportOptions) error {
	o.format = pageFormat().Name
	var b bytes.Buffer
	if err := writeReport(&b, dir, o); err != nil {
		return fmt.Errorf("write the report as a page: %w", err)
	}
	if err := result.Add(dir, pageFile, b.Bytes()); err != nil {
		return fmt.Errorf("write the report as a page: %w", err)
	}
	c.showPage(dir)
	return nil
}

// pageFormat is the report as one HTML file.
func pageFormat() report.Format {
	return report.Format{Name: "html", Doc: "one page with figures, complete in one file", WriteRun: writePage}
}

func writePage(w io.Writer, a answer.Analysis) error {
	verified, err := verify.Dir(a.Dir.Path(), verify.Options{Tare: console.Version(), Expand: planOf(), Judge: judgeOf})
	if err != nil {
		return err
	}
	return page.Write(w, page.Source{Analysis: a, Verified: verified})
}

// planOf returns a function that makes the plan of a recorded experiment file. meshes are files of definitions.
func planOf(meshes ...string) func(file string) (*plan.Plan, error) {
	return func(file string) (*plan.Plan, error) {
		s, err := session.NewProgram(console.Version(), nil).Read(context.Background(), file, session.Options{Meshes: meshes, Recorded: true})
		if err != nil {
			return nil, err
		}
		return s.Plan, nil
	}
}

// judgeOf returns a function that makes the validity checks of a recorded experiment file again.
func judgeOf(file string) (verify.Judge, error) {
	x, err := experiment.ReadRecord(file)
	if err != nil {
		return nil, err
	}
	return func(r *result.Record, rows []result.Slice, p50 time.Duration) ([]string, []result.Warning) {
		return runner.Recheck(x, r, rows, p50)
	}, nil
}

// showPage makes the path of a run's page the last line that the command prints.
func (c reporter) showPage(dir string) {
	c.lastLine = "Report with figures: " + printable.Line(filepath.Join(dir, pageFile))
}

// exportReport writes a format that is a directory of files.
func exportReport(f report.Format, dir string, o reportOptions) error {
	if o.output == "" {
		return hint.Usage(fmt.Errorf("format %s is a directory of files", f.Name), "add -o DIR")
	}
	if err := emptyDir(o.output); err != nil {
		return err
	}
	a, err := analyse(dir, o)
	if err != nil {
		return err
	}
	defer a.Dir.Close()
	return f.Export(o.output, a)
}

// emptyDir makes dir, or makes sure that nothing in it can be overwritten.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create %s: %w", dir, err)
		}
	case err != nil:
		return fmt.Errorf("read %s: %w", dir, err)
	case len(entries) > 0:
		return hint.Usage(fmt.Errorf("%s is not empty", dir), "give a new directory with -o")
	}
	return nil
}

type pushOptions struct {
	url, protocol string
	headers       []string
}

func (o *pushOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.url, "push", "", "send the figures and trials to the `URL` of a Prometheus remote write or OTLP receiver instead, by tare-kube")
	choice(cmd, &o.protocol, "push-protocol", "protocol of --push: "+strings.Join(series.Protocols(), " or ")+" (default: by the path of the URL)", series.Protocols())
	f.StringArrayVar(&o.headers, "push-header", nil, "header of --push, with secrets from the environment or a file: `\"Authorization: Bearer ${env:TOKEN}\"`; may be repeated")
}

// pushReport sends the report of a run. tare hands over to tare-kube.
func (c reporter) pushReport(cmd *cobra.Command, dir string, o reportOptions) error {
	t, err := o.push.target(cmd)
	if err != nil {
		return err
	}
	if c.kubernetes == nil {
		return c.handOver.run(c.handOver.args)
	}
	a, err := analyse(dir, o)
	if err != nil {
		return err
	}
	defer a.Dir.Close()
	all, err := series.Of(a)
	if err != nil {
		return err
	}
	t.Retrying = func(why string) { c.Notef("%s; trying again", why) }
	if err := c.kubernetes.Push(cmd.Context(), t, all); err != nil {
		return err
	}
	c.Notef("pushed %s of %s to %s", series.Count(all), a.Report.Experiment, t)
	return nil
}

// target checks the flags, and reads secrets.
func (o pushOptions) target(cmd *cobra.Command) (*series.Target, error) {
	for _, other := range []string{"format", "output"} {
		if cmd.Flags().Changed(other) {
			return nil, hint.Usage(fmt.Errorf("--push and --%s exclude each other", other), "run tare report twice")
		}
	}
	t, err := series.ParseTarget(o.url, series.Protocol(o.protocol))
	if err != nil {
		return nil, hint.Usage(fmt.Errorf("--push: %w", err), hint.Of(err))
	}
	t.Header = http.Header{}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, ":")
		name, value = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !ok || name == "" || strings.ContainsAny(name, " \t\r\n") {
			return nil, hint.Usage(errors.New("--push-header has no header's name"), `write it as --push-header "Authorization: Bearer ${env:TOKEN}"`)
		}
		full, err := experiment.WithSecrets(value)
		if err != nil {
			return nil, fmt.Errorf("--push-header %s: %w", name, err)
		}
		if full == value && session.SecretHeader(name) {
			return nil, hint.Usage(fmt.Errorf("--push-header %s has a value that other users of this machine can read", name), fmt.Sprintf(`write it as --push-header "%s: ${env:NAME}" or "${file:PATH}"`, name))
		}
		t.Header.Add(name, full)
	}
	return t, nil
}
