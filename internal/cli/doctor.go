package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/cli/health"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/stats"
)

func newDoctorCommand(c *CommandLine) *cobra.Command {
	o, all, format := aaOptions{blocks: 5, measure: 2 * time.Second, detect: "3%"}, false, "text"
	cmd := &cobra.Command{
		Use:   "doctor [FILE]",
		Short: "Check this machine or cluster, and estimate the smallest detectable difference",
		Long: `doctor checks this machine for the needs of a run (addresses, files, meters,
tare-agent) and for noise (other processes, frequency scaling, steal time, limits,
timer lateness), and for installed programs: proxies and load generators. It downloads
nothing. Checks that passed share a line; --all prints them with their details.

With an experiment file it also runs the baseline against itself for about a
minute. It prints the smallest detectable difference, and the number of blocks for
an interval of ±2 %. If the experiment runs on a cluster, the cluster is checked:
permission to use it, RBAC permissions, nodes, image, meter.

Exit codes: 0 runs work, perhaps with warnings; 1 a run cannot work; 2 an invalid file.`,
		Example: `  tare doctor
  tare doctor examples/quickstart.yaml
  tare doctor examples/quickstart.yaml --blocks 10 --measure 10s`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var s *session.Study
			if len(args) == 1 { // a mistake in the file is reported first
				var err error
				if s, err = c.Read(cmd.Context(), args[0], o.ExperimentOptions); err != nil {
					return err
				}
			}
			for _, flag := range []string{"set", "mesh", "kubeconfig", "context", "blocks", "measure", "detect"} {
				if len(args) == 0 && cmd.Flags().Changed(flag) {
					return hint.Usage(fmt.Errorf("--%s needs an experiment file", flag), "give the file: tare doctor FILE")
				}
			}
			if err := o.check(); err != nil {
				return err
			}
			share, err := (&detectOptions{detect: o.detect}).relative()
			if err != nil {
				return err
			}
			o.share = share
			if s != nil {
				if err := c.program.Runs(s.Experiment); err != nil {
					return err
				}
			}
			if format == "json" {
				return examiner{c}.examineJSON(cmd.Context(), s, o)
			}
			if err := c.Examine(cmd.Context(), s, all); err != nil || s == nil {
				return err
			}
			return examiner{c}.againstItself(cmd.Context(), s, o)
		},
	}
	o.Register(cmd)
	o.RegisterCluster(cmd)
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "print every check, also those that passed")
	choice(cmd, &format, "format", "format of the checks: text or json", []string{"text", "json"})
	f.IntVar(&o.blocks, "blocks", o.blocks, "`number` of blocks of the measurement of noise, at least 3")
	f.DurationVar(&o.measure, "measure", o.measure, "measure `duration` of each of its trials, at least 1s")
	f.StringVar(&o.detect, "detect", o.detect, "print the number of blocks that detects a difference of this `share` with 80 % power")
	return cmd
}

// examined is the input of the checks.
type examined struct {
	line    *CommandLine
	fitness meter.Fitness
	unread  error // error of reading fitness
}

// examinePeriod is how long the machine is observed.
const examinePeriod = time.Second

// Examine checks the needs of s, and prints the checks that need attention, or all. A nil s
// checks this machine.
func (c *CommandLine) Examine(ctx context.Context, s *session.Study, all bool) error {
	rows, err := c.examine(ctx, s)
	if err != nil {
		return err
	}
	return health.Write(c.Out, rows, all)
}

func (c *CommandLine) examine(ctx context.Context, s *session.Study) ([]health.Row, error) {
	x := &examined{line: c}
	here := asked(s)
	if here >= forLoad {
		x.fitness, x.unread = meter.Examine(ctx, examinePeriod)
	}
	if x.unread != nil && ctx.Err() != nil {
		return nil, x.unread
	}
	rows := make([]health.Row, 0, len(doctorChecks))
	for _, d := range doctorChecks {
		if d.where > here {
			continue
		}
		f := d.look(ctx, x)
		if f.Verdict == health.Fail && !d.fatal {
			f.Verdict = health.Warn
		}
		if f.Hint == "" {
			f.Hint = d.hint
		}
		rows = append(rows, health.Row{Name: d.name, Finding: f})
	}
	if here == forTrials {
		for _, p := range fetch.Known() {
			rows = append(rows, health.Row{Name: p.Name, Finding: lookFor(ctx, p)})
		}
		for _, name := range slices.Sorted(maps.Keys(fetch.Packages)) {
			f := health.Finding{}
			if found, err := fetch.Find(ctx, name, fetch.Options{Offline: true}); err != nil {
				f = health.Finding{Verdict: health.Absent, Detail: "not installed", Hint: hint.Of(err)}
			} else {
				f.Detail = found.Path
			}
			rows = append(rows, health.Row{Name: name, Finding: f})
		}
	}
	if here >= forLoad {
		rows = append(rows, generatorFindings(ctx, c.program.Generators)...)
	}
	if here < forTrials {
		rows = append(rows, c.kubernetes.Examine(ctx, s)...)
	}
	return rows, nil
}

// place is the use of this machine. Each includes the ones above it.
type place int

const (
	forNothing place = iota // tare alone runs here, the trials on a cluster
	forLoad                 // the load is sent from here
	forTrials               // all of a trial runs here
)

// asked returns the use that an experiment makes of this machine.
func asked(s *session.Study) place {
	switch {
	case s == nil || s.Experiment.Platform.Kind != mesh.OnKubernetes:
		return forTrials
	case s.Experiment.Outside():
		return forLoad
	}
	return forNothing
}

// doctorChecks in the order in which they are printed.
var doctorChecks = []struct {
	name  string
	where place // the least that this machine is used for
	fatal bool  // a run cannot work if the check fails
	hint  string
	look  func(context.Context, *examined) health.Finding
}{
	{"system", forNothing, false, "processes are metered on Linux", lookSystem},
	{"meters", forLoad, true, "tare run needs Linux and /proc", lookMeters},
	{"tare-agent", forLoad, true, "build it with `make build`, or install it with tare by `go install` of cmd/...; keep it beside tare", lookAgent},
	{"addresses", forTrials, true, "assign 127.0.0.0/8 to lo: every pod of a run has its own address there", lookAddresses},
	{"open files", forNothing, true, "raise the limit: ulimit -n 65536", lookFiles},
	{"processors", forLoad, false, "load generator, application and proxy share CPUs: lower the rate, and run more blocks", lookProcessors},
	{"CPU limit", forLoad, false, "raise the CPU limit of the control group (container, session)", lookLimit},
	{"frequency governor", forLoad, false, "set it to performance: cpupower frequency-set -g performance", lookGovernor},
	{"load average", forLoad, false, "wait until the machine is idle", lookLoad},
	{"other processes", forLoad, false, "stop other programs while you measure", lookOthers},
	{"steal", forLoad, false, "the hypervisor took CPU from this VM: use one with dedicated CPUs", lookSteal},
	{"CPU pressure", forLoad, false, "tasks wait for a CPU: stop other programs", lookPressure},
	{"timer lateness", forLoad, false, "the load generator wakes late: reserve a CPU for it (platform.cpus)", lookLateness},
}

// generatorFindings has a line for each generator except tare's own.
func generatorFindings(ctx context.Context, all []generator.Generator) []health.Row {
	var rows []health.Row
	for _, s := range generator.FindAll(ctx, all) {
		r := health.Row{Name: "generator " + s.Name, Finding: health.Finding{Verdict: health.OK, Detail: s.Found.Version + ", " + s.Found.Path, Hint: ""}}
		if s.Err != nil {
			r.Finding = health.Finding{Verdict: health.Absent, Detail: "not installed", Hint: hint.Of(s.Err)}
		}
		rows = append(rows, r)
	}
	return rows
}

func lookSystem(context.Context, *examined) health.Finding {
	h := meter.Host()
	parts := []string{h.OS + "/" + h.Arch}
	for _, p := range []string{h.Kernel, h.CPUModel} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if h.MemoryMB > 0 {
		parts = append(parts, fmt.Sprintf("%.1f GB", float64(h.MemoryMB)/1000))
	}
	f := health.Finding{Detail: strings.Join(parts, ", ")}
	if runtime.GOOS != "linux" {
		f.Verdict = health.Warn
	}
	return f
}

// Limits of a quiet machine. Each is far below the overhead of a sidecar.
const (
	busyOthers     = 0.10 // cores
	stolenShare    = 0.01
	pressureShare  = 0.10
	lateWaking     = 200 * time.Microsecond // p99
	enoughFiles    = 1024
	plentyOfFiles  = 8192
	namesOfTheBusy = 3
)

func lookMeters(_ context.Context, x *examined) health.Finding {
	if _, err := x.line.program.NewMeter(); err != nil {
		return health.Finding{Verdict: health.Fail, Detail: err.Error(), Hint: hint.Of(err)}
	}
	return health.Finding{Detail: "processes can be read to the nanosecond"}
}

func lookAgent(ctx context.Context, x *examined) health.Finding {
	path, err := exec.LookPath(generator.AgentPath())
	if err = cmp.Or(err, generator.CheckAgent(ctx, x.line.program.Version)); err != nil {
		return health.Finding{Verdict: health.Fail, Detail: err.Error(), Hint: hint.Of(err)}
	}
	return health.Finding{Detail: path}
}

// lookAddresses listens on several addresses in 127.0.0.0/8, where each pod of a run has its own.
func lookAddresses(context.Context, *examined) health.Finding {
	for _, ip := range []string{"127.0.0.1", "127.83.1.2", "127.254.254.254"} {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			return health.Finding{Verdict: health.Fail, Detail: err.Error()}
		}
		_ = l.Close()
	}
	return health.Finding{Detail: "127.0.0.0/8 can be listened on"}
}

func lookFiles(context.Context, *examined) health.Finding {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return health.Finding{Detail: "unknown: " + err.Error()}
	}
	f := health.Finding{Detail: fmt.Sprintf("%d a process", uint64(l.Cur))}
	switch {
	case uint64(l.Cur) < enoughFiles:
		f.Verdict = health.Fail
	case uint64(l.Cur) < plentyOfFiles:
		f.Verdict = health.Warn
	}
	return f
}

func lookProcessors(context.Context, *examined) health.Finding {
	n := meter.Host().CPUs
	return health.WarnIf(n < health.FewProcessors, "%s", printable.Counted(n, "CPU"))
}

func lookLimit(_ context.Context, x *examined) health.Finding {
	f := x.fitness
	if x.unread != nil {
		return unknown(x)
	}
	held := ""
	if f.Throttled != nil && *f.Throttled > 0 {
		held = fmt.Sprintf("; throttled %d times during the check", *f.Throttled)
	}
	if f.Quota == nil {
		return health.WarnIf(held != "", "none%s", held)
	}
	return health.WarnIf(held != "" || *f.Quota < float64(meter.Host().CPUs), "%.2g cores%s", *f.Quota, held)
}

func lookGovernor(_ context.Context, x *examined) health.Finding {
	g := meter.Host().Governor
	if g == "" {
		return unknown(x)
	}
	return health.WarnIf(g != "performance", "%s", g)
}

func lookLoad(_ context.Context, x *examined) health.Finding {
	if x.fitness.Load == nil {
		return unknown(x)
	}
	return health.WarnIf(*x.fitness.Load > 0.5*float64(meter.Host().CPUs), "%.2f over the last minute", *x.fitness.Load)
}

func lookOthers(_ context.Context, x *examined) health.Finding {
	if x.unread != nil {
		return unknown(x)
	}
	total := 0.0
	var who []string
	for i, p := range x.fitness.Busy {
		total += p.Cores
		if i < namesOfTheBusy {
			who = append(who, fmt.Sprintf("%s (%d) %.2f", p.Name, p.PID, p.Cores))
		}
	}
	if who == nil {
		return health.Finding{Detail: "none that uses CPU"}
	}
	return health.WarnIf(total > busyOthers, "%.2f cores: %s", total, strings.Join(who, ", "))
}

func lookSteal(_ context.Context, x *examined) health.Finding {
	if x.fitness.Steal == nil {
		return unknown(x)
	}
	return health.WarnIf(*x.fitness.Steal > stolenShare, "%.1f %% of CPU", 100**x.fitness.Steal)
}

func lookPressure(_ context.Context, x *examined) health.Finding {
	if x.fitness.Pressure == nil {
		return unknown(x)
	}
	return health.WarnIf(*x.fitness.Pressure > pressureShare, "some task waited for a CPU %.1f %% of the time", 100**x.fitness.Pressure)
}

func lookLateness(_ context.Context, x *examined) health.Finding {
	p50, ok := x.fitness.LatenessAt(0.5)
	if !ok {
		return unknown(x)
	}
	p99, _ := x.fitness.LatenessAt(0.99)
	most, _ := x.fitness.LatenessAt(1)
	return health.WarnIf(p99 > lateWaking, "p50 %v, p99 %v, max %v, of %d wake-ups",
		p50.Round(time.Microsecond), p99.Round(time.Microsecond), most.Round(time.Microsecond), len(x.fitness.Lateness))
}

// unknown is the finding for a fact that this system does not report.
func unknown(x *examined) health.Finding {
	if x.unread != nil {
		return health.Finding{Verdict: health.Warn, Detail: x.unread.Error()}
	}
	return health.Finding{Detail: "unknown on this system"}
}

// lookFor finds a program as a run does, but downloads nothing.
func lookFor(ctx context.Context, p fetch.Program) health.Finding {
	found, err := p.Find(ctx, fetch.Options{Offline: true})
	if err != nil {
		return health.Finding{Verdict: health.Absent, Detail: "not installed", Hint: hint.Of(err)}
	}
	from := found.Source
	if from == "cache" {
		if home, err := os.UserHomeDir(); err == nil {
			from = strings.Replace(found.Path, home, "~", 1)
		}
	}
	return health.Finding{Detail: found.Version + ", from " + from}
}

// aaOptions are the flags of the A/A run: a baseline against itself.
type aaOptions struct {
	ExperimentOptions
	blocks  int
	measure time.Duration
	detect  string  // a share, such as 3%
	share   float64 // detect as a number
}

func (o aaOptions) check() error {
	if o.blocks < stats.MinN || o.blocks > 1000 {
		return hint.Usage(fmt.Errorf("--blocks %d is not between %d and 1000", o.blocks, stats.MinN), "fewer blocks give no interval")
	}
	if o.measure < time.Second {
		return hint.Usage(fmt.Errorf("--measure %v is below 1s", o.measure), "")
	}
	return nil
}

// halfWidth is the interval for which blocks are estimated: ±2 % of the mean.
const halfWidth = 0.02

var aaMetrics = []string{metric.CPUPerRequest + "/total", metric.Latency + "/p50", metric.Latency + "/p99"}

type examiner struct{ *CommandLine }

// againstItself runs the baseline of s against itself, and prints what differences are detectable.
func (c examiner) againstItself(ctx context.Context, s *session.Study, o aaOptions) error {
	aa, err := s.AgainstItself(o.blocks, o.measure)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "\nThe baseline of %s against itself, %s, about %v:\n\n", s.Experiment.Metadata.Name,
		printable.Counted(len(aa.Plan.Trials), "trial"), aa.Plan.Expected.Round(time.Second))
	return c.measure(ctx, aa, func(run *session.Run, r *answer.Report, measured *compare.Run) error {
		if err := writeAA(c.Out, aaRows(r, measured, o), r, o); err != nil {
			return err
		}
		if counters := run.Platform.CounterRefresh; counters != nil {
			for _, short := range shortPhases(s.Experiment.Phases, aa.Experiment.Phases, counters.Refresh()) {
				fmt.Fprintf(c.Out, "\n! measure-short: %s\n", short)
			}
		}
		return nil
	})
}

// measure runs a baseline against itself, by the way every run goes, in a directory that is removed afterwards.
func (c examiner) measure(ctx context.Context, aa *session.Study, show func(*session.Run, *answer.Report, *compare.Run) error) (err error) {
	run, d, remove, err := runCommand(c).temporarily(ctx, aa, runOptions{interrupted: Undoing})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close(), remove()) }()
	r, err := answer.Analyze(d, compare.Options{})
	if err != nil {
		return err
	}
	measured, err := compare.Read(d, compare.Options{})
	if err != nil {
		return err
	}
	return show(run, r, measured)
}

// examination is the result of tare doctor as JSON.
type examination struct {
	Checks []health.Row `json:"checks"`
	// Floor is the noise of the baseline against itself, absent without an experiment.
	Floor []compare.Floor `json:"floor,omitempty"`
}

// examineJSON writes the checks, and of an experiment the noise of its baseline, as JSON.
func (c examiner) examineJSON(ctx context.Context, s *session.Study, o aaOptions) error {
	rows, err := c.examine(ctx, s)
	if err != nil {
		return err
	}
	b, ended := examinedBrief(rows)
	if s == nil || ended != nil {
		return cmp.Or(answered(c.Out, b, examination{Checks: rows}), ended)
	}
	aa, err := s.AgainstItself(o.blocks, o.measure)
	if err != nil {
		return err
	}
	return c.measure(ctx, aa, func(_ *session.Run, r *answer.Report, _ *compare.Run) error {
		x := examination{Checks: rows}
		for _, f := range r.Floor {
			if slices.Contains(aaMetrics, f.Metric) {
				x.Floor = append(x.Floor, f)
			}
			if f.Metric == aaMetrics[0] && f.Detectable != nil {
				b.Metric, b.Unit, b.Figure = f.Metric, f.Unit, &stats.Interval{Estimate: *f.Detectable}
			}
		}
		if b.Subject = s.Experiment.Metadata.Name; x.Floor == nil {
			ended = errors.New("the baseline could not be measured against itself: every trial failed or was invalid")
			b.Verdict, b.Reason, b.ExitCode = compare.Verdict(compare.Breached), ended.Error(), console.Code(ended)
		}
		return cmp.Or(answered(c.Out, b, x), ended)
	})
}

// examinedBrief is the answer of the checks, with an error if a run cannot work.
func examinedBrief(rows []health.Row) (b answer.Brief, ended error) {
	b = answer.Brief{Sentence: "Runs work here.", Verdict: compare.Verdict(compare.Holds)}
	for _, least := range []health.Verdict{health.Warn, health.Fail} {
		for _, r := range rows {
			if r.Verdict == least {
				b.Reason = r.Name + ": " + r.Detail
				if least == health.Fail {
					ended = errors.New("a run cannot work: " + b.Reason)
					b.Sentence, b.Verdict, b.ExitCode = "A run cannot work here.", compare.Verdict(compare.Breached), console.Code(ended)
				}
				break
			}
		}
	}
	return b, ended
}

// shortPhases lists the measure phases, of the file and of the A/A run, that are too short for the counter refresh interval.
func shortPhases(file, aa experiment.Phases, refresh time.Duration) (all []string) {
	least := runner.MinMeasure(refresh)
	if short := runner.ShortMeasure(file, refresh); short != "" {
		all = append(all, fmt.Sprintf("in the experiment: %s\n  hint: set phases.measure to %v or more", short, least))
	}
	if short := runner.ShortMeasure(aa, refresh); short != "" {
		all = append(all, fmt.Sprintf("in these trials: %s\n  hint: --measure %v", short, least))
	}
	return all
}

// aaRow is a metric of the A/A run, as text, "?" if unknown.
type aaRow struct{ title, mean, shows, blocks, detect string }

func aaRows(r *answer.Report, run *compare.Run, o aaOptions) (rows []aaRow) {
	for _, name := range aaMetrics {
		m, _ := metric.Lookup(name)
		unit, _ := m.Display()
		row := aaRow{m.Title(), "?", "?", "?", "?"}
		if e, ok := r.Treatments[0].Metrics[name]; ok {
			row.mean = fmt.Sprintf("%.3g %s", e.Estimate, unit)
			row.shows, row.blocks = smallest(r, name, unit, e.Estimate)
			if n, ok := run.BlocksToDetect(r.Treatments[1].ID, name, o.share); ok {
				row.detect = fmt.Sprint(n)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// writeAA prints the smallest detectable differences. A run without a usable pair is an error.
func writeAA(w io.Writer, rows []aaRow, r *answer.Report, o aaOptions) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(t, "\tmean\tsmallest detectable difference\tblocks for ±2 %%\tblocks to detect %s\n", percents(o.share))
	known := false
	for _, row := range rows {
		known = known || row.mean != "?"
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", row.title, row.mean, row.shows, row.blocks, row.detect)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, `
Detectable: found with 80 %% power, with %s of %v, as the only comparison.
Longer trials and more blocks detect smaller differences; ±2 %% is the %.0f %% interval, computed from
these few pairs. For the comparisons of the file: tare plan FILE --detect 3%%.
`, printable.Counted(o.blocks, "block"), o.measure, 100*r.Confidence)
	for _, x := range report.Warnings(r) {
		if x.Invalidates || x.Withholds || x.Code == "aa-differs" || x.Code == "failed-trials" || x.Code == "invalid-trials" || x.Code == "generator-late" {
			fmt.Fprintf(w, "\n! %s: %s\n  hint: %s\n", x.Code, x.Message, x.Hint)
		}
	}
	if !known {
		return errors.New("the baseline could not be measured against itself: every trial failed or was invalid")
	}
	return nil
}

// smallest is the smallest difference of a metric the pairs could show, and how
// many blocks an interval of ±2 % would take.
func smallest(r *answer.Report, name, unit string, mean float64) (shows, blocks string) {
	shows, blocks = "?", "?"
	for _, f := range r.Floor {
		if f.Metric != name || f.Difference == nil || !(mean > 0) {
			continue
		}
		if f.Detectable != nil {
			shows = fmt.Sprintf("%.2g %s (%.1f %%)", *f.Detectable, unit, 100**f.Detectable/mean)
		}
		if half, ok := f.Difference.HalfWidth(); ok {
			if n, ok := stats.PairsFor(math.Abs(half), f.N, halfWidth*mean, r.Confidence); ok {
				blocks = fmt.Sprint(n)
			}
		}
	}
	return shows, blocks
}
