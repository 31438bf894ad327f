package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// experimentOptions are the flags of every command that reads an experiment file.
type experimentOptions struct {
	set    []string // key=value
	meshes []string // files of mesh definitions
}

func (o *experimentOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.set, "set", nil, "override a field of the file, such as `blocks=3` or factors.rate=[100,200]; may be repeated")
	f.StringArrayVar(&o.meshes, "mesh", nil, "add a mesh definition from a `file`, to be used by the name in it; may be repeated")
	_ = cmd.MarkFlagFilename("mesh", "yaml", "yml")
}

// study is an experiment file that was read, with all it refers to.
type study struct {
	experiment *experiment.Experiment
	plan       *plan.Plan
	meshes     map[string]mesh.Definition // by name
}

// read reads an experiment file and expands it.
func (c *cli) read(file string, o experimentOptions) (*study, error) {
	definitions, err := mesh.Collect(o.meshes...)
	if err != nil {
		return nil, readable(err)
	}
	s := &study{meshes: map[string]mesh.Definition{}}
	known := c.knownNames()
	known.Meshes = nil
	for _, d := range definitions {
		s.meshes[d.Name] = d
		known.Meshes = append(known.Meshes, d.Name)
	}
	known.Definition = func(name string) (mesh.Definition, bool) { d, ok := s.meshes[name]; return d, ok }
	if s.experiment, err = experiment.Read(file, known, o.set...); err != nil {
		return nil, readable(err)
	}
	if s.plan, err = plan.Expand(s.experiment); err != nil {
		return nil, err
	}
	if err := runner.Suited(s.experiment, s.plan, c.catalog.byName()); err != nil {
		return nil, err
	}
	runner.Prolong(s.experiment, s.plan, c.catalog.byName())
	c.catalog.platform(s.experiment.Platform.Kind).prolong(s.experiment, s.plan)
	changes(s.meshes, s.plan)
	return s, nil
}

// topologies are the applications under test, by the level of the factor; by no name where it is none.
func (s *study) topologies() (map[string]app.Topology, error) {
	all := map[string]app.Topology{}
	for _, t := range s.plan.Treatments {
		topology, err := s.experiment.TopologyOf(t.Levels)
		if err != nil {
			return nil, err
		}
		all[t.Levels.Topology] = topology
	}
	return all, nil
}

// meshDigests are the SHA-256 of the definitions that the plan uses, so that
// two runs can be told apart in which one name means two things.
func (s *study) meshDigests() (map[string]string, error) {
	digests := map[string]string{}
	for _, t := range s.plan.Treatments {
		name := t.Levels.Mesh
		definition, ok := s.meshes[name]
		if _, done := digests[name]; done || !ok {
			continue
		}
		b, err := json.Marshal(definition)
		if err != nil {
			return nil, fmt.Errorf("digest of mesh %s: %w", name, err)
		}
		sum := sha256.Sum256(b)
		digests[name] = hex.EncodeToString(sum[:])
	}
	return digests, nil
}

// provides is what each mesh of the plan does for its users.
func (s *study) provides() map[string]mesh.Provides {
	all := map[string]mesh.Provides{}
	for _, t := range s.plan.Treatments {
		all[t.Levels.Mesh] = s.meshes[t.Levels.Mesh].Provides
	}
	return all
}

// knownNames are the names that an experiment file may use.
func (c *cli) knownNames() experiment.Known {
	known := experiment.Known{
		Meshes:     mesh.Names(),
		Protocols:  app.Protocols(),
		Topologies: app.Names(),
	}
	for _, p := range c.catalog.platforms {
		known.Platforms = append(known.Platforms, p.name)
	}
	for _, m := range c.catalog.meters {
		known.Meters = append(known.Meters, m.name)
	}
	for _, g := range c.catalog.generators {
		known.Generators = append(known.Generators, g.Name())
	}
	return known
}

// readable gives every mistake in a file its hint, below it. What else goes wrong
// in reading is the user's mistake too: tare needs nothing but the file.
func readable(err error) error {
	var problems strict.Problems
	if errors.As(err, &problems) {
		return invalidFile{problems}
	}
	return usageError{err, ""} // no such file, or an override that is none
}

// invalidFile prints the mistakes of a file with their hints.
type invalidFile struct{ strict.Problems }

func (e invalidFile) Unwrap() error { return e.Problems }

func (e invalidFile) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 { // the first has it from printError
			b.WriteString("tare: ")
		}
		fmt.Fprintln(&b, p.Error())
		if p.Hint != "" {
			fmt.Fprintln(&b, "hint: "+p.Hint)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
