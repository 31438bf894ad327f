package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/health"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/session"
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
