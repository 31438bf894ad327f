package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/platform/local"
	"github.com/tare-mesh/tare/internal/run/runner"
)

// platformVariant is one kind of platform for trials.
type platformVariant struct {
	name, doc string
	open      func(context.Context, *CommandLine, Opening) (*Opened, error)
	// refresh is the expected counter refresh interval. 0 means that counters are current at every reading.
	refresh time.Duration
	// overhead is about how much longer a trial takes than on this machine, without waiting for counters.
	overhead time.Duration
}

// Opening is the input for opening a platform.
type Opening struct {
	Experiment *experiment.Experiment
	Results    string // the run's directory
	Notices    *Notices
}

// Opened is a platform with everything that belongs to it.
type Opened struct {
	Platform    platform.Platform
	Meter       meter.Meter
	Timing      runner.Timing
	Environment result.Environment // of the place where the trials run
	// End removes what the run shares between its trials. Nil removes nothing.
	End func(context.Context) error
}

// refreshOf is the expected counter refresh interval of an experiment.
// 0 means that counters are current at every reading.
func (v platformVariant) refreshOf(x *experiment.Experiment) time.Duration {
	if x.ByNodeAgent() {
		return 0
	}
	return v.refresh
}

// prolong adds what the platform takes to p's expected times.
func (v platformVariant) prolong(x *experiment.Experiment, p *plan.Plan) {
	more := v.overhead
	if refresh := v.refreshOf(x); refresh > 0 {
		more += runner.RefreshExtra(x.Phases, refresh)
	}
	p.TrialTime += more
	p.Expected += more * time.Duration(len(p.Trials))
}

// sweep removes what killed runs left on this machine, once in a process.
func (c *CommandLine) sweep() {
	c.sweeping.Do(func() { local.Sweep(func(line string) { c.Notef("%s", line) }) })
}

func openLocal(_ context.Context, c *CommandLine, o Opening) (*Opened, error) {
	c.sweep()
	if err := errors.Join(cpusExist(o.Experiment.Platform.CPUs), connectionsFit(o.Experiment.Factors)); err != nil {
		return nil, err
	}
	m, err := c.catalog.newMeter()
	if err != nil {
		return nil, err
	}
	return &Opened{
		Platform:    local.New(local.Options{AgentPath: generator.AgentPath(), FetchProgram: c.fetchProgram, ProgramAt: programAt, ProgramOf: c.programOf}).Declare(),
		Meter:       m,
		Environment: meter.Host(),
	}, nil
}

// cpusExist refuses processors that this machine does not have, or that this process
// may not use. Another machine may have them: only a run can check it.
func cpusExist(pinned map[string]string) error {
	allowed, err := proc.AllowedCPUs()
	if err != nil {
		return nil // pinning reports its own error
	}
	var errs []error
	for _, plane := range slices.Sorted(maps.Keys(pinned)) {
		cpus, err := proc.ParseCPUs(pinned[plane])
		if err != nil {
			return fmt.Errorf("platform.cpus.%s: %w", plane, err)
		}
		missing := slices.DeleteFunc(cpus, func(cpu int) bool { return slices.Contains(allowed, cpu) })
		if len(missing) > 0 { // the start of each task would fail
			slices.Sort(missing)
			errs = append(errs, fmt.Errorf("platform.cpus.%s: this process may not use %s of the processors %s", plane, listed(slices.Compact(missing)), pinned[plane]))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return hint.Usage(errors.Join(errs...), "processors that it may use: "+listed(allowed))
}

// ownFiles is about how many descriptors the load process needs beside its connections.
const ownFiles = 32

// connectionsFit refuses more connections than this process may open files. Another machine may allow more.
func connectionsFit(f experiment.Factors) error {
	for i, n := range experiment.LevelsOf[int](f, "connections") {
		if err := filesFit(fmt.Sprintf("factors.connections[%d]", i), n); err != nil {
			return err
		}
	}
	return nil
}

// filesFit refuses more connections than one process may open files.
func filesFit(field string, connections int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(connections)+ownFiles <= uint64(limit.Max) {
		return nil // without a limit, the load reports its own error
	}
	return hint.Usage(fmt.Errorf("%s: %d connections and %d other files are more than the %d files that a process may open (ulimit -n)", field, connections, ownFiles, limit.Max),
		fmt.Sprintf("raise the limit to %d (ulimit -n, as root above ulimit -Hn), or lower the connections", connections+ownFiles))
}

// listed prints processors as taskset does: 0-3,6.
func listed(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		k := i
		for k+1 < len(cpus) && cpus[k+1] == cpus[k]+1 {
			k++
		}
		if k == i {
			parts = append(parts, fmt.Sprint(cpus[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", cpus[i], cpus[k]))
		}
		i = k + 1
	}
	return strings.Join(parts, ",")
}

// meshChange is about how long it takes to install a mesh, or to uninstall it and check that nothing is left.
const meshChange = 20 * time.Second

// changes adds the time to install and uninstall meshes, in the order of p's trials, to p's expected time. Meshes of
// rounds stay installed beside each other.
func changes(meshes map[string]mesh.Definition, p *plan.Plan) {
	of := map[string]string{}
	for _, t := range p.Treatments {
		if d := meshes[t.Levels.Mesh]; d.Kubernetes != nil {
			of[t.ID] = d.Name
		}
	}
	change := func() {
		p.Expected += meshChange
		p.MeshChanges++
	}
	installed := map[string]bool{}
	for _, t := range append(slices.Clone(p.Trials), plan.Trial{}) {
		next := of[t.Treatment]
		for name := range installed {
			if t.Round == 0 && name != next {
				delete(installed, name)
				change()
			}
		}
		if next != "" && !installed[next] {
			installed[next] = true
			change()
		}
	}
}

// Notices are messages for the user: shown in the live view while there is one, otherwise on standard error.
type Notices struct {
	mu   sync.Mutex
	to   io.Writer
	view result.Sink
}

// NewNotices are messages on a stream.
func NewNotices(to io.Writer) *Notices { return &Notices{to: to} }

// show sets the view. Nil means none.
func (n *Notices) show(view result.Sink) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.view = view
}

// Post shows one message.
func (n *Notices) Post(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.view == nil {
		fmt.Fprintln(n.to, "tare: "+s)
		return
	}
	_ = n.view.Event(result.Event{Time: time.Now(), Kind: result.KindLog, Message: s})
}
