package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/runner"
)

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
