package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load/template"
	"github.com/tare-mesh/tare/internal/run/runner"
)

// ExperimentOptions are the flags of every command that reads an experiment file.
type ExperimentOptions struct {
	Set    []string // key=value
	Meshes []string // files of mesh definitions

	// recorded: the file is that of results. The files and objects that it names are not read: they may have changed, and the
	// file may come from others.
	recorded bool
	quiet    bool                               // the caller prints the notes, as of a file that is read several times
	draw     func() (seed uint64, order string) // of a file without a seed, nil for a fresh seed and the default order
}

// drawSeed is a fresh seed, short enough to be typed.
func drawSeed() uint64 { return 1 + rand.Uint64N(1e9) }

func (o *ExperimentOptions) Register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.Set, "set", nil, "override a field of the file, such as `blocks=3` or factors.rate=[100,200]; may be repeated")
	f.StringArrayVar(&o.Meshes, "mesh", nil, "add a mesh definition from a `file`, to be used by the name in it; may be repeated")
	_ = cmd.MarkFlagFilename("mesh", "yaml", "yml")
}

// ChooseMeshes compares the embedded meshes that --mesh names, instead of those of the file. All other values are files.
func (o *ExperimentOptions) ChooseMeshes() {
	names, known := []string{"none"}, mesh.Names()
	o.Meshes = slices.DeleteFunc(o.Meshes, func(value string) bool {
		if !slices.Contains(known, value) {
			return false
		}
		if !slices.Contains(names, value) {
			names = append(names, value)
		}
		return true
	})
	if len(names) > 1 {
		o.Set = append(o.Set, "factors.mesh=["+strings.Join(names, ", ")+"]")
	}
}

// Study is an experiment file with everything it refers to.
type Study struct {
	Experiment *experiment.Experiment
	Plan       *plan.Plan
	Meshes     map[string]mesh.Definition // by name
	Drawn      bool                       // the file has no seed

	definitions    []string          // files of meshes
	changed        []mesh.Definition // variants, and meshes with settings of the file
	trialTimes     *trialTimes       // times by earlier trials, nil for those of the plan
	notInterleaved string            // why the default order is not interleaved, "" if it is, or the file has an order
	notes          []string          // about the file, for the person who runs it
}

// notef adds a note.
func (s *Study) notef(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// printNotes prints the notes of a study.
func (c *CommandLine) printNotes(s *Study) {
	for _, note := range s.notes {
		c.Notef("%s", note)
	}
}

// seedWords are the seed of the plan, and how to run the same plan again.
func (s *Study) seedWords() string {
	if !s.Drawn {
		return fmt.Sprintf("seed %d", s.Plan.Seed)
	}
	repeat := fmt.Sprintf("--set seed=%d", s.Plan.Seed)
	if s.Experiment.Order != "" {
		repeat += " --set order=" + s.Experiment.Order
	}
	return fmt.Sprintf("seed %d (random; repeat this plan with %s)", s.Plan.Seed, repeat)
}

// Read reads an experiment file and expands it to a plan.
func (c *CommandLine) Read(file string, o ExperimentOptions) (*Study, error) {
	data, err := strict.ReadFile(file)
	if err != nil {
		return nil, hint.InvalidFile(err)
	}
	return c.decode(file, data, o)
}

// decode is [CommandLine.Read] for the content of a file.
func (c *CommandLine) decode(file string, data []byte, o ExperimentOptions) (*Study, error) {
	definitions, err := mesh.Collect(o.Meshes...)
	if err != nil {
		return nil, hint.InvalidFile(err)
	}
	s := &Study{Meshes: map[string]mesh.Definition{}, definitions: o.Meshes}
	known := c.catalog.known()
	known.Meshes = nil
	for _, d := range definitions {
		s.Meshes[d.Name] = d
		known.Meshes = append(known.Meshes, d.Name)
	}
	known.Draw, known.Order = drawSeed, s.chooseOrder
	if o.draw != nil {
		seed, order := o.draw()
		known.Draw = func() uint64 { return seed }
		known.Order = func(*experiment.Experiment) string { return order }
	}
	draw := known.Draw
	known.Draw = func() uint64 {
		s.Drawn = true
		return draw()
	}
	var unread error // of the namespace of the application
	if known.Recorded = o.recorded; !o.recorded {
		known.Objects = func(x *experiment.Experiment) (set *manifest.Set, err error) {
			if set, err = c.objects(x); x.Application.Namespace != "" {
				unread = err
			}
			return set, err
		}
		known.Targets = func(path string, texts *template.Reader, instants bool) ([]experiment.Request, error) {
			return experimentTargets(path, texts, instants, s.notef)
		}
	}
	known.Definition = func(name string) (mesh.Definition, bool) { d, ok := s.Meshes[name]; return d, ok }
	if s.Experiment, err = experiment.Decode(file, data, known, o.Set...); err != nil {
		if mistakes := (strict.Problems)(nil); errors.Is(unread, context.Canceled) || unread != nil && errors.As(err, &mistakes) && len(mistakes) == 1 {
			return nil, unread // the cluster's answer is no mistake in the file
		}
		return nil, hint.InvalidFile(err)
	}
	find := known.Definition
	for _, name := range experiment.ChangedMeshes(s.Experiment) {
		d, err := s.Experiment.Definition(name, find)
		if err != nil {
			return nil, hint.InvalidFile(err)
		}
		s.changed = append(s.changed, d)
	}
	for _, d := range s.changed {
		s.Meshes[d.Name] = d
	}
	for i, text := range s.Experiment.Decide.Gates {
		if _, err := analysis.ParseGate(text); err != nil {
			return nil, hint.InvalidFile(hint.Wrap(fmt.Errorf("%s: decide.gates[%d]: %w", file, i, err), hint.Of(err)))
		}
	}
	if s.Plan, err = plan.Expand(s.Experiment); err != nil {
		return nil, err
	}
	if err := runner.Suited(s.Experiment, s.Plan, c.catalog.byName()); err != nil {
		return nil, err
	}
	runner.Prolong(s.Experiment, s.Plan, c.catalog.byName())
	c.catalog.platform(s.Experiment.Platform.Kind).prolong(s.Experiment, s.Plan)
	if s.Experiment.Platform.Kind == mesh.OnKubernetes {
		changes(s.Meshes, s.Plan)
	}
	if !o.quiet {
		c.printNotes(s)
	}
	return s, nil
}

// Topologies are the applications under test, by the level of the factor, or by no name where it is none.
func (s *Study) Topologies() (map[string]app.Topology, error) {
	all := map[string]app.Topology{}
	for _, t := range s.Plan.Treatments {
		topology, err := s.Experiment.TopologyOf(t.Levels)
		if err != nil {
			return nil, err
		}
		all[t.Levels.Topology] = topology
	}
	return all, nil
}

// meshDigests are the SHA-256 of the definitions in the plan: two runs may use one name for two definitions.
func (s *Study) meshDigests() (map[string]string, error) {
	digests := map[string]string{}
	for _, t := range s.Plan.Treatments {
		name := t.Levels.Mesh
		definition, ok := s.Meshes[name]
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

// variants describe the variants in the plan, by name.
func (s *Study) variants() map[string]string {
	all := map[string]string{}
	for _, t := range s.Plan.Treatments {
		if name := t.Levels.Mesh; s.Experiment.Meshes[name].From != "" {
			all[name] = s.Experiment.Changes(name)
		}
	}
	return all
}

// options are those of each mesh in the plan, chosen or by default.
func (s *Study) options() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, t := range s.Plan.Treatments {
		name := t.Levels.Mesh
		d := s.Meshes[name]
		switch {
		case s.Experiment.Platform.Kind == mesh.OnLocal && d.Local != nil:
			all[name] = d.Local.Sidecar.Chosen()
		case s.Experiment.Platform.Kind == mesh.OnKubernetes && d.Kubernetes != nil:
			if complete, err := d.Kubernetes.Complete(s.Experiment.MeshSettings(name).Settings()); err == nil {
				all[name] = complete.Options
			}
		}
	}
	return all
}

// provides lists the features of each mesh in the plan.
func (s *Study) provides() map[string]mesh.Provides {
	all := map[string]mesh.Provides{}
	for _, t := range s.Plan.Treatments {
		all[t.Levels.Mesh] = s.Meshes[t.Levels.Mesh].Provides
	}
	return all
}
