package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/stats"
)

// planForms are the forms of a plan, the default first.
var planForms = report.Safe(
	report.Form[*session.Study]{Name: "text", Write: func(w io.Writer, s *session.Study) error { return writePlanText(w, s, false) }},
	report.Form[*session.Study]{Name: "trials", Write: func(w io.Writer, s *session.Study) error { return writePlanText(w, s, true) }},
	report.Form[*session.Study]{Name: "json", Write: func(w io.Writer, s *session.Study) error { return report.WriteAnswered(w, plannedBrief(s), s.Plan) }},
)

// plannedBrief is the answer of a plan: its trials and their time.
func plannedBrief(s *session.Study) answer.Brief {
	p, takes := s.Plan, s.Plan.Expected
	if s.Times != nil {
		takes = s.Times.All
	}
	return answer.Brief{Verdict: answer.Planned, Subject: p.Experiment, Minutes: takes.Minutes(),
		Sentence: fmt.Sprintf("%s × %s = %s, about %v.", printable.Counted(len(p.Treatments), "treatment"), printable.Counted(p.Blocks, "block"), printable.Counted(len(p.Trials), "trial"), experiment.Duration(takes.Round(time.Second)))}
}

func newPlanCommand(c *CommandLine) *cobra.Command {
	var o ExperimentOptions
	var d detectOptions
	names := report.Names(planForms)
	format, purpose := names[0], ""
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Print the trials of an experiment, their order and duration",
		Long: `plan reads an experiment file and prints its treatments with their baselines, its
faults, changes and expectations, and the expected time. --format trials adds the
trials in order. It starts nothing and writes nothing. The same file and seed give the same plan on
every machine. A file without a seed gets a fresh one: --set seed=N repeats its plan.

With --detect it prints how many blocks show a difference of a given size four times
in five, and with --within what a given time shows. The spread is that of earlier
runs of the experiment under the same conditions.

With --for curve it prints the command of a run for tare size and tare forecast: the
rates, between the lowest and the highest one of the file, and the blocks
(repetitions) that --within has time for.`,
		Example: `  tare plan examples/quickstart.yaml
  tare plan examples/quickstart.yaml --set blocks=20 --set 'factors.rate=[500, 1000]'
  tare plan examples/quickstart.yaml --detect 3% --within 5m
  tare plan examples/quickstart.yaml --set 'factors.rate=[100, 2000]' --for curve --within 10m
  tare plan examples/quickstart.yaml --format json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.Read(cmd.Context(), args[0], o)
			if err != nil {
				return err
			}
			if format != names[0] && purpose != "" || format == "trials" && d.asked() {
				return hint.Usage(fmt.Errorf("--format %s is of the plan", format), "leave it out with --for; --detect and --within have json")
			}
			d.json = format == "json"
			if purpose != "" {
				return precisionPlanner{c}.planCurve(args[0], o, s, d)
			}
			if d.asked() {
				return precisionPlanner{c}.detect(s, d)
			}
			s.ReadTrialTimes(result.RunsDir)
			if short := s.ShortMeasure(); short != "" {
				c.Notef("%s", short)
			}
			for _, missing := range s.MissingPrograms(cmd.Context()) {
				c.Notef("%v: %s", missing, hint.Of(missing))
			}
			return report.Write(c.Out, s, planForms, format)
		},
	}
	o.Register(cmd)
	o.RegisterCluster(cmd)
	d.register(cmd)
	choice(cmd, &purpose, "for", "`curve`: print the rates and blocks that a curve for tare size needs, between the rates of the file, in the time of --within", []string{"curve"})
	choice(cmd, &format, "format", "format of the plan: "+strings.Join(names, ", "), names)
	return cmd
}

var orderWords = map[string]string{
	experiment.OrderBalanced: "random, each treatment in each position and after each other one equally often",
	plan.ByMesh:              "the trials of one mesh run together within a block",
	experiment.OrderOnce:     "the trials of one mesh run together",

	experiment.OrderInterleaved: "the treatments of a comparison are deployed at once, and the load moves between them in time slices",
}

// writePlanText writes the plan, with a line for each trial if they are asked for.
func writePlanText(w io.Writer, s *session.Study, trials bool) error {
	p := s.Plan
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s × %s = %s, %s\n", p.Experiment, printable.Counted(len(p.Treatments), "treatment"),
		printable.Counted(p.Blocks, "block"), printable.Counted(len(p.Trials), "trial"), seedWords(s))
	switch {
	case p.Until == experiment.UntilValid:
		fmt.Fprintf(&b, "ends at %d blocks of valid trials; at most\n", p.MinBlocks)
	case p.Until != "":
		fmt.Fprintf(&b, "ends after block %d or later once %s is reached; at most\n", p.MinBlocks, p.Until)
	}
	if words := orderText(s); words != "" {
		fmt.Fprintf(&b, "%s\n", words)
	}
	b.WriteString(timeWords(s))
	for _, line := range searchLines(p) {
		fmt.Fprintln(&b, line)
	}
	if few := compare.TooFewBlocks(p, s.Experiment.Confidence); few != nil {
		what := "any interval"
		if p.Blocks >= stats.MinN {
			what = fmt.Sprintf("%d comparisons, even of ten standard deviations", few.Tests)
		}
		fmt.Fprintf(&b, "too few blocks for %s: %d needed\n", what, few.Needed)
	}
	b.WriteString("\n")

	if p.Way != "" {
		fmt.Fprintf(&b, "%s\n\n", p.Way)
	}
	if text := sourceText(s); text != "" {
		fmt.Fprintf(&b, "%s\n", text)
	}
	variants := s.Variants()
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		fmt.Fprintf(&b, "variant %s: %s\n", name, variants[name])
	}
	if len(variants) > 0 {
		b.WriteString("\n")
	}
	factors := factorNames(p)
	var rows [][]string
	for _, t := range p.Treatments {
		row := []string{t.ID, against(p, t)}
		for _, f := range factors {
			row = append(row, experiment.PrintLevel(f, t.Factors[f]))
		}
		rows = append(rows, row)
	}
	if err := console.Table(&b, append([]string{"TREATMENT", "COMPARED WITH"}, factors...), rows); err != nil {
		return err
	}

	if err := writeTimeline(&b, s.Experiment); err != nil {
		return err
	}
	if !trials {
		fmt.Fprintf(&b, "\n`--format trials` lists the %s in order.\n", printable.Counted(len(p.Trials), "trial"))
		_, err := io.WriteString(w, b.String())
		return err
	}
	fmt.Fprintf(&b, "\nThe trials in order:\n\n")
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
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

// writeTimeline writes faults and changes of each measure phase, and the conditions of each trial.
func writeTimeline(b *strings.Builder, e *experiment.Experiment) error {
	if c := e.Changes; e.Changing() {
		fmt.Fprintf(b, "\n%s in each trial, one every %v: %s\n", printable.Counted(c.Count, "change"), c.Every, strings.Join(c.Kinds, ", "))
		if c.Probe.Rate > 0 {
			fmt.Fprintf(b, "A probe of %v requests/s over %d connections shows their effect.\n", c.Probe.Rate, c.Probe.Connections)
		}
	}
	if line := e.Background.String(); line != "" {
		fmt.Fprintf(b, "\n%s\n", line)
	}
	if len(e.Faults) > 0 {
		fmt.Fprintf(b, "\nFaults in each trial, from the start of the measure phase of %v:\n\n", e.Phases.Measure)
		tw := tabwriter.NewWriter(b, 0, 0, 3, ' ', 0)
		fmt.Fprintln(tw, "AT\tFAULT\tTARGET\tHEALED\tREPEATED")
		for _, f := range e.Faults {
			healed, repeated := "at the end", "-"
			if f.For > 0 {
				healed = fmt.Sprintf("after %v", f.For)
			}
			if f.Count > 1 {
				repeated = fmt.Sprintf("%d times, every %v", f.Count, f.Every)
			}
			fmt.Fprintf(tw, "%v\t%s\t%v\t%s\t%s\n", f.At, f.Action(), f.Target, healed, repeated)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	if len(e.Expect) > 0 {
		fmt.Fprintf(b, "\nEach trial must meet:\n\n")
		for _, condition := range e.Expect {
			fmt.Fprintf(b, "  %s\n", condition)
		}
	}
	return nil
}

// searchLines describe the searches for the highest rate, one line each.
func searchLines(p *plan.Plan) (lines []string) {
	for _, t := range p.Treatments {
		c := t.Levels.Capacity
		if c.Objective == "" {
			continue
		}
		line := fmt.Sprintf("%v of each trial search for the highest rate that meets %s: %d probes of %v; the measure phase has %v of that rate",
			experiment.Duration(c.SearchTime().Round(time.Second)), c.Objective, c.Probes, c.Length, c.Share)
		lines = lists.Add(lines, line)
	}
	return lines
}

// factorNames are the columns: the factors that the file names, in its order of fields.
func factorNames(p *plan.Plan) []string {
	return lists.Where(experiment.FactorNames(), func(f string) bool { _, ok := p.Treatments[0].Factors[f]; return ok })
}

// against names the baseline of a treatment.
func against(p *plan.Plan, t plan.Treatment) string {
	switch {
	case t.Control:
		return t.Baseline + " (again: a difference is noise)"
	case t.Reference:
		return t.Baseline + " (standard weight)"
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

func timeWords(s *session.Study) string {
	if most := s.PrewarmTime(); most > 0 {
		return measureWords(s) + fmt.Sprintf("at most %s more if the CPU of a request falls, as with a JIT compiler (phases.prewarm)\n", spoken(most))
	}
	return measureWords(s)
}

// measureWords are the time without loads before the warm-up.
func measureWords(s *session.Study) string {
	p := s.Plan
	if l := s.Times; l != nil {
		return fmt.Sprintf("about %v, %v per trial (estimate from %s of %s)\n", experiment.Duration(l.All.Round(time.Second)), experiment.Duration(l.Trial.Round(100*time.Millisecond)),
			printable.Counted(l.Trials, "trial"), printable.Counted(l.Runs, "earlier run"))
	}
	text := fmt.Sprintf("about %v, %v per trial\n", experiment.Duration(p.Expected.Round(time.Second)), experiment.Duration(p.TrialTime.Round(100*time.Millisecond)))
	if n := p.MeshChanges; n > 0 {
		text += fmt.Sprintf("%v of it to install and uninstall meshes, %s\n", experiment.Duration(time.Duration(n)*session.MeshChange), printable.Counted(n, "time"))
	}
	return text
}

// orderText describes the order of the trials, and why they are not interleaved.
func orderText(s *session.Study) string {
	words := orderWords[s.Plan.Order]
	switch {
	case words == "":
		return ""
	case s.Plan.Order == experiment.OrderInterleaved && s.Experiment.Batch != nil:
		words = "the programs of a block, and an empty one, are executed in turn"
	}
	words = fmt.Sprintf("order %s: %s", s.Experiment.Order, words)
	if s.NotInterleaved != "" {
		words += "\nnot interleaved: " + s.NotInterleaved
	}
	return words
}

// planCurve prints rates and blocks for a curve, with the bands that they give, and the commands.
func (c precisionPlanner) planCurve(file string, o ExperimentOptions, s *session.Study, d detectOptions) error {
	if d.within <= 0 {
		return hint.Usage(errors.New("--for curve needs the time of the run"), "write --within 10m")
	}
	from, to, n := ratesOf(s)
	if n < 2 {
		return hint.Usage(errors.New("a curve needs its lowest and its highest rate"), "write --set 'factors.rate=[100, 2000]'")
	}
	deviations, source := predict.Assumed, "assumed; --from RUN takes those of an earlier run"
	if len(d.from) > 0 {
		var err error
		if deviations, err = deviationsOf(d.from[0]); err != nil {
			return err
		}
		source = "as in " + d.from[0]
	}
	perRate := s.Plan.TrialTime * time.Duration(len(s.Plan.Treatments)) / time.Duration(n)
	design, ok := predict.BestDesign(from, to, deviations, func(rates int) int { return int(d.within / (perRate * time.Duration(rates))) }, s.Experiment.Confidence)
	if !ok {
		return hint.Usage(fmt.Errorf("%v is too short for a curve: a block of 4 rates takes %v, and 3 are needed", experiment.Duration(d.within), experiment.Duration((4*perRate).Round(time.Second))), "allow more with --within, or shorten phases.measure")
	}
	rates := lists.Map(design.Rates, func(rate float64) string { return report.Level(rate) })
	took := perRate * time.Duration(len(design.Rates)*design.Blocks)
	fmt.Fprintf(c.Out, "A curve from %s to %s requests/s: %d rates in %s, %v.\n", rates[0], rates[len(rates)-1], len(rates), printable.Counted(design.Blocks, "block"), experiment.Duration(took.Round(time.Second)))
	fmt.Fprintf(c.Out, "At the least certain rate the average CPU has ±%s and one more deployment ±%s, if deployments differ by %s\nand trials of one by %s (%s).\n\n",
		percents(design.Mean), percents(design.Another), percents(deviations.Deployment), percents(deviations.Trial), source)
	fmt.Fprintf(c.Out, "  tare run %s%s --set 'factors.rate=[%s]' --set blocks=%d --out runs/curve\n  tare size --from runs/curve --rate N\n",
		printable.Line(printable.ShellWord(file)), o.flags("factors.rate=", "blocks="), strings.Join(rates, ", "), design.Blocks)
	return nil
}

// flags are the flags of the plan, as a shell takes them, without settings that begin with a prefix.
func (o ExperimentOptions) flags(without ...string) (text string) {
	for _, file := range o.Meshes {
		text += " --mesh " + printable.ShellWord(file)
	}
	for _, set := range o.Set {
		if !slices.ContainsFunc(without, func(prefix string) bool { return strings.HasPrefix(set, prefix) }) {
			text += " --set " + printable.ShellWord(set)
		}
	}
	return printable.Line(text)
}

// ratesOf returns the ends of the rates of a plan, and how many there are.
func ratesOf(s *session.Study) (from, to float64, n int) {
	seen := map[float64]bool{}
	for _, t := range s.Plan.Treatments {
		rate, numeric := t.Factors[experiment.RateFactor].(float64)
		if !numeric || seen[rate] {
			continue
		}
		seen[rate] = true
		if n++; n == 1 {
			from, to = rate, rate
		}
		from, to = min(from, rate), max(to, rate)
	}
	return from, to, n
}

func deviationsOf(dir string) (predict.Deviations, error) {
	d, err := result.Open(dir)
	if err != nil {
		return predict.Deviations{}, err
	}
	defer d.Close()
	run, err := compare.Read(d, compare.Options{})
	if err != nil {
		return predict.Deviations{}, err
	}
	found, err := predict.DeviationsOf(run)
	if err != nil {
		return found, fmt.Errorf("%s: %w", dir, err)
	}
	return found, nil
}

// detectOptions are the flags of `tare plan` about what a run can show.
type detectOptions struct {
	detect string        // a share, such as 3%
	within time.Duration // time of a run
	from   []string      // results directories
	json   bool          // write JSON
}

func (o *detectOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.detect, "detect", "", "print the blocks and minutes that detect a difference of this `share`, such as 3%, with 80 % power")
	f.DurationVar(&o.within, "within", 0, "print the smallest detectable difference of a run of this `duration`")
	f.StringArrayVar(&o.from, "from", nil, "earlier run to take the spread from, a results `directory`; default: runs of the same conditions in runs/; may be repeated")
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

// precisionPlanner plans blocks from the noise of earlier runs.
type precisionPlanner struct{ *CommandLine }

// fewBlocks are enough to show the spread.
const fewBlocks = 4

// detect prints what runs of the study can show.
func (c precisionPlanner) detect(s *session.Study, o detectOptions) error {
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
		return hint.Usage(errors.New("no earlier run of this experiment under these conditions was found in runs/"),
			fmt.Sprintf("run it with --set blocks=%d first (about %v); --from DIR names a run", fewBlocks, (fewBlocks*s.BlockTime()).Round(time.Second)))
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
	fmt.Fprintf(&b, "\nShares are of the treatment's mean, or of the ratio for response times. The level is the first of Holm's steps.\n")
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
