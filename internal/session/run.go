package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/runner"
)

// Opening is the input for opening a platform.
type Opening struct {
	Experiment *experiment.Experiment
	Results    string       // the run's directory
	Version    string       // of tare
	Note       func(string) // receives lines for the user
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

// Run is a study with an open platform and results directory.
type Run struct {
	*Opened
	Dir *result.Dir

	study      *Study
	generators map[string]generator.Generator // by the level of the factor generator
	notices    *notices
}

// Results returns the directory of a new run: out, by default one below runs/.
func (s *Study) Results(out string) string {
	return cmp.Or(out, newDir(s.Experiment.Metadata.Name, time.Now().UTC()))
}

// Open finds the programs and secrets of a study. Then it opens the platform, and the directory of a new run, or with resume the directory of an earlier one. An error leaves no directory behind.
func (s *Study) Open(ctx context.Context, path string, resume bool) (*Run, error) {
	if err := generator.CheckAgent(ctx, s.Program.Version); err != nil {
		return nil, err
	}
	generators, err := s.generators()
	if err != nil {
		return nil, err
	}
	if err := generator.Missing(generator.FindAll(ctx, used(s.Plan, generators))); err != nil {
		return nil, err
	}
	if err := runner.CheckSecrets(s.Experiment); err != nil {
		return nil, err
	}
	n := &notices{note: s.Program.Note}
	on, err := s.Program.platform(s.Experiment.Platform.Kind).Open(ctx, Opening{Experiment: s.Experiment, Results: path, Version: s.Program.Version, Note: n.post})
	if err != nil {
		return nil, err
	}
	if err := runner.Refused(s.Experiment, s.Meshes, on.Platform); err != nil {
		return nil, err
	}
	dir, err := s.openResults(path, resume, on.Environment)
	if err != nil {
		return nil, err
	}
	s.ReadTrialTimes(filepath.Dir(path))
	return &Run{Opened: on, Dir: dir, study: s, generators: generators, notices: n}, nil
}

// generators returns the load generators of an experiment, by the level of the factor generator.
func (s *Study) generators() (map[string]generator.Generator, error) {
	all := s.Program.GeneratorsByName()
	if s.Experiment.Platform.Kind != mesh.OnKubernetes || s.Experiment.Outside() {
		return all, nil
	}
	return s.Program.Kubernetes.Generators(s.Experiment, all)
}

func used(p *plan.Plan, all map[string]generator.Generator) (used []generator.Generator) {
	levels := lists.Set(p.Treatments, func(t plan.Treatment) string { return t.Levels.Generator })
	names := lists.Where(slices.Sorted(maps.Keys(all)), func(name string) bool { return levels[name] })
	return lists.Map(names, func(name string) generator.Generator { return all[name] })
}

// newDir returns a directory for results that does not exist: a second run of one second has the suffix -2.
func newDir(name string, now time.Time) string {
	base := filepath.Join(result.RunsDir, name+"-"+now.Format("20060102T150405Z"))
	dir := base
	for n := 2; ; n++ {
		if _, err := os.Lstat(dir); err != nil {
			return dir
		}
		dir = fmt.Sprintf("%s-%d", base, n)
	}
}

// openResults makes the directory of a new run, or opens the directory of an earlier one.
func (s *Study) openResults(path string, resume bool, env result.Environment) (*result.Dir, error) {
	text, err := s.Experiment.YAML()
	if err != nil {
		return nil, err
	}
	env.Time = time.Now().UTC()
	env.Tare = s.Program.Version
	env.Command = os.Args
	env.Platform = s.Experiment.Platform.Kind
	if env.Meshes, err = s.meshDigests(); err != nil {
		return nil, err
	}
	env.Provides = s.provides()
	env.Variants = s.Variants()
	env.Options = s.options()
	if resume {
		return result.Resume(path, text, env)
	}
	return result.Create(path, text, s.Plan, env)
}

// notices are lines for the user: shown in the live view while there is one.
type notices struct {
	mu   sync.Mutex
	note func(string)
	view result.Sink
}

// show sets the view. Nil means none.
func (n *notices) show(view result.Sink) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.view = view
}

func (n *notices) post(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.view == nil {
		n.note(line)
		return
	}
	_ = n.view.Event(result.Event{Time: time.Now(), Kind: result.KindLog, Message: line})
}

// RunOptions are the options of [Run.Trials].
type RunOptions struct {
	View result.Sink // shows the events of the run
	// Resume are arguments of the command that resumes the run, besides its directory.
	Resume []string
	// Kill ends at the second interrupt. Nil never ends.
	Kill context.Context
}

// Trials runs the trials that have no record yet.
func (r *Run) Trials(ctx context.Context, o RunOptions) (_ runner.Summary, err error) {
	s := r.study
	topologies, err := s.Topologies()
	if err != nil {
		return runner.Summary{}, err
	}
	r.notices.show(o.View)
	defer r.notices.show(nil)
	if r.End != nil {
		// The mesh is uninstalled in spite of a first interrupt. After a second one the next run uninstalls it.
		late := cmp.Or(o.Kill, context.WithoutCancel(ctx))
		defer func() { err = errors.Join(err, r.End(late)) }()
	}
	services := &runner.Services{}
	if stop, err := serveServices(ctx, r.Dir.Path(), services); err != nil {
		r.notices.post(fmt.Sprintf("services cannot be changed by hand: %v", err))
	} else {
		defer stop()
	}
	planned := s.Program.platform(s.Experiment.Platform.Kind).refreshOf(s.Experiment)
	if s.Times != nil {
		planned = 0 // earlier trials had the interval of their cluster
	}
	return runner.Run(ctx, runner.Config{
		Experiment: s.Experiment,
		Topologies: topologies,
		Meshes:     s.Meshes,
		Platform:   r.Platform,
		Generators: r.generators,
		Meter:      r.Meter,
		Timing:     r.Timing,
		Dir:        r.Dir,
		TrialTime:  s.Expected() / time.Duration(max(1, len(s.Plan.Trials))),
		Refresh:    planned,
		Stop:       orUnstartable(r.Dir, stopRule(r.Dir, s.Experiment, r.notices.post)),
		Resume:     Command(s.definitions, append([]string{"--resume", r.Dir.Path()}, o.Resume...)...),
		Sinks:      []result.Sink{o.View},
		Kill:       o.Kill,
		Services:   services,
	})
}

// Command returns the command line of `tare run` with files of mesh definitions, for a person to copy.
func Command(definitions []string, args ...string) string {
	words := append([]string{"run"}, args...)
	for _, file := range definitions {
		words = append(words, "--mesh", file)
	}
	return proc.Command{Path: "tare", Args: words}.String()
}
