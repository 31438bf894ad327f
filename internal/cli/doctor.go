package cli

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/health"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
)

func newDoctorCommand(c *CommandLine) *cobra.Command {
	o := aaOptions{blocks: 5, measure: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "doctor [FILE]",
		Short: "Say whether this machine is fit to measure on, and how small a difference it can show",
		Long: `doctor examines this machine: what a run needs (addresses, files, meters, the
program that plays the services), what makes measurements noisy (other processes,
frequency scaling, other guests of the host, limits, late wakings), and which
programs are here: Envoy, without fetching it, and the load generators.

With the file of an experiment it also runs the baseline of that experiment
against itself, for about a minute, and says the smallest difference that this
machine can show, and how many blocks an interval of ±2 % would take. Where the
experiment runs on a cluster it is the cluster that is examined: whether it may be
used, the rights, the nodes, the image, the meter.

Exit codes: 0 it is fit, or only noisy; 1 a run cannot work here; 2 an invalid file.`,
		Example: `  tare doctor
  tare doctor examples/quickstart.yaml
  tare doctor examples/quickstart.yaml --blocks 10 --measure 10s`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var s *Study
			if len(args) == 1 { // a mistake in the file is said at once
				var err error
				if s, err = c.Read(args[0], o.ExperimentOptions); err != nil {
					return err
				}
			}
			if err := o.check(); err != nil {
				return err
			}
			if s != nil {
				if err := c.needs(s.Experiment); err != nil {
					return err
				}
			}
			if err := c.Examine(cmd.Context(), s); err != nil || s == nil {
				return err
			}
			return c.againstItself(cmd.Context(), s, o)
		},
	}
	o.register(cmd)
	f := cmd.Flags()
	f.IntVar(&o.blocks, "blocks", o.blocks, "`number` of blocks of the A/A run, at least 3")
	f.DurationVar(&o.measure, "measure", o.measure, "how long each of its trials is measured, at least 1s")
	f.BoolVar(&o.plain, "plain", false, "plain lines instead of a live one")
	return cmd
}

// examined is what the checks look at.
type examined struct {
	line    *CommandLine
	fitness meter.Fitness
	unread  error // why there is no fitness
}

// examinePeriod is how long the machine is watched.
const examinePeriod = time.Second

// Examine makes every check of what s needs, or of this machine where there is none, and prints a line each.
func (c *CommandLine) Examine(ctx context.Context, s *Study) error {
	x := &examined{line: c}
	here := asked(s)
	if here >= forLoad {
		x.fitness, x.unread = meter.Examine(ctx, examinePeriod)
	}
	if x.unread != nil && ctx.Err() != nil {
		return x.unread
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
	}
	if here >= forLoad {
		rows = append(rows, generatorFindings(ctx, c.catalog.generators)...)
	}
	if here < forTrials {
		rows = append(rows, c.kubernetes.Examine(ctx, s.Experiment)...)
	}
	return health.Write(c.Out, rows)
}

// place is what this machine is wanted for, each with all that is above it.
type place int

const (
	forNothing place = iota // tare alone runs here, the trials on a cluster
	forLoad                 // the load is sent from here
	forTrials               // all of a trial runs here
)

// asked is what an experiment wants of this machine.
func asked(s *Study) place {
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
	{"tare-agent", forLoad, true, "build it with `make build`; it lies beside tare", lookAgent},
	{"addresses", forTrials, true, "every pod of a run has an address of its own in 127.0.0.0/8: let the loopback interface have them all", lookAddresses},
	{"open files", forNothing, true, "raise the limit: ulimit -n 65536", lookFiles},
	{"processors", forLoad, false, "load generator, application and proxy have to share: lower the rate, and run more blocks", lookProcessors},
	{"CPU limit", forLoad, false, "give the control group (container, session) as many cores as there are", lookLimit},
	{"frequency governor", forLoad, false, "set it to performance: cpupower frequency-set -g performance", lookGovernor},
	{"load average", forLoad, false, "wait until the machine has come to rest", lookLoad},
	{"other processes", forLoad, false, "end what need not run while you measure", lookOthers},
	{"steal", forLoad, false, "the hypervisor gives this machine's CPU to others: use one with processors of its own", lookSteal},
	{"CPU pressure", forLoad, false, "tasks wait for a processor: end what need not run", lookPressure},
	{"timer lateness", forLoad, false, "a sleeping thread wakes late, and the load generator with it: give it a processor of its own (platform.cpus)", lookLateness},
}

// generatorFindings are a line for each generator but tare's own.
func generatorFindings(ctx context.Context, all []generator.Generator) []health.Row {
	var rows []health.Row
	for _, s := range generator.FindAll(ctx, all) {
		r := health.Row{Name: "generator " + s.Name, Finding: health.Finding{Verdict: health.OK, Detail: s.Found.Version + ", " + s.Found.Path, Hint: ""}}
		if s.Err != nil {
			r.Finding = health.Finding{Verdict: health.Absent, Detail: "not on this machine", Hint: hint.Of(s.Err)}
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
