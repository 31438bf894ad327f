package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// DryRun writes, as a stream of YAML, all objects that one trial of each treatment would create in the cluster, and the
// commands that do the same by hand. results is the run's directory.
func DryRun(ctx context.Context, s *session.Study, results string, to io.Writer) error {
	_, err := recorded(ctx, s, session.Opening{Experiment: s.Experiment, Results: results, Version: s.Program.Version, Note: s.Program.Note}, to)
	return err
}

// recorded does a dry run, prints it, and returns its steps.
func recorded(ctx context.Context, s *session.Study, o session.Opening, to io.Writer) ([]cluster.Step, error) {
	record := &cluster.Recorder{}
	on, err := connected(ctx, o, record)
	if err != nil {
		return nil, err
	}
	topologies, err := s.Topologies()
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriter(to)
	if err := writeSteps(out, "# Before the first trial\n", record.Steps()); err != nil {
		return nil, err
	}
	done := map[string]bool{}
	for _, trial := range s.Plan.Trials {
		if done[trial.Treatment] {
			continue
		}
		done[trial.Treatment] = true
		spec := platform.Spec{Trial: trial}
		for _, t := range s.Plan.Treatments {
			if t.ID == trial.Treatment {
				spec.Treatment = t
			}
		}
		spec.Mesh, spec.Topology = s.Meshes[spec.Treatment.Levels.Mesh], topologies[spec.Treatment.Levels.Application]
		before := len(record.Steps())
		load, err := dryTrial(ctx, s, on.Platform, spec)
		if err != nil {
			return nil, fmt.Errorf("trial %s: %w", trial.ID, err)
		}
		title := fmt.Sprintf("# Trial %d of %d: treatment %s, block %d\n", trial.Ordinal, len(s.Plan.Trials), trial.Treatment, trial.Block)
		if err := writeSteps(out, title, record.Steps()[before:]); err != nil {
			return nil, err
		}
		fmt.Fprintf(out, "# The load's standard input: %s\n", load)
	}
	before := len(record.Steps())
	if on.End != nil {
		if err := on.End(ctx); err != nil {
			return nil, err
		}
	}
	if err := writeSteps(out, "# After the last trial\n", record.Steps()[before:]); err != nil {
		return nil, err
	}
	return record.Steps(), out.Flush()
}

// writeSteps writes steps below a title, or nothing without any.
func writeSteps(out io.Writer, title string, steps []cluster.Step) error {
	if len(steps) == 0 {
		return nil
	}
	fmt.Fprint(out, title)
	var some cluster.Recorder
	for _, step := range steps {
		some.Add(step)
	}
	_, err := some.WriteTo(out)
	return err
}

// dryTrial goes through one trial, and returns the standard input of its load generator.
func dryTrial(ctx context.Context, s *session.Study, p platform.Platform, spec platform.Spec) (stdin []byte, err error) {
	d, err := p.Deploy(ctx, spec)
	if err != nil {
		return nil, err
	}
	g := s.Program.GeneratorsByName()[spec.Treatment.Levels.Generator]
	cmd, err := g.Command(runner.Profile(s.Experiment, spec.Treatment, g, d.Entry()))
	if err != nil {
		return nil, err
	}
	if cmd.Stdin != nil {
		if stdin, err = io.ReadAll(cmd.Stdin); err != nil {
			return nil, err
		}
	}
	if _, err := d.StartLoad(ctx, cmd); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(stdin), d.Remove(ctx)
}
