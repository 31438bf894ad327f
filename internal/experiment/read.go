package experiment

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load/template"
)

// Known lists the names that an experiment may use. The main program passes all variants in, with the user's own. An
// empty list disables the check of its names.
type Known struct {
	Meshes []string
	// Definition returns a mesh definition by name. Nil means that options of meshes are not checked.
	Definition func(name string) (mesh.Definition, bool)
	// Versions lists the versions of a sidecar's program that can be downloaded. Nil means that versions are not checked.
	Versions   func(program string) []string
	Generators []string
	Platforms  []string
	Meters     []string // of a cluster
	Protocols  []string
	// Programs are those that services may have.
	Programs app.Programs
	// Draw returns the seed of a file that has none. Nil means 1.
	Draw func() uint64
	// Order returns the order of a file that has neither seed nor order. Nil means random. The experiment is
	// complete but for the order, and may have mistakes.
	Order func(*Experiment) string
	// Topologies are the names that Topology finds, for hints.
	Topologies []string
	// Topology finds a topology by name or file. Nil means [app.Load] with Programs.
	Topology func(nameOrPath string) (app.Topology, error)
	// Objects reads the objects of an application's manifests or namespace. Nil means that they are not read:
	// only the file's services are known.
	Objects func(*Experiment) (*manifest.Set, error)
	// Recorded: the file is part of results, which may come from others. No file that it names is read.
	Recorded bool
	// Targets reads a file of requests. Nil means that load.targets is refused. texts reads the files of expressions.
	// Nil means that braces are text. instants: the requests keep the file's instants.
	Targets func(path string, texts *template.Reader, instants bool) ([]Request, error)
}

// topologies lists the names of topologies.
func (k Known) topologies() []string {
	if k.Topologies == nil {
		return app.Names()
	}
	return k.Topologies
}

// Read reads, defaults and validates an experiment file. Overrides are
// "key=value" of `--set`, applied before validation. The error is a
// [strict.Problems] with every mistake, or the error of reading the file.
func Read(path string, known Known, overrides ...string) (*Experiment, error) {
	data, err := strict.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Decode(path, data, known, overrides...)
}

// Decode is [Read] for the content of a file. name is the file in errors, and
// topology files are relative to it.
func Decode(name string, data []byte, known Known, overrides ...string) (*Experiment, error) {
	doc, err := strict.Parse(name, data)
	if err != nil {
		return nil, err
	}
	for _, o := range overrides {
		if err := doc.Set(o); err != nil {
			return nil, err
		}
	}
	e := defaults()
	doc.Decode(e)
	if known.Recorded {
		e.readEarlier()
	}
	e.complete(doc)
	e.findServices(doc, known, filepath.Dir(name))
	readTargets(e, doc, known, filepath.Dir(name))
	completeRate(e, doc)
	if known.Draw != nil && !doc.Has("seed") {
		if e.Seed = known.Draw(); known.Order != nil && !doc.Has("order") {
			e.Order = known.Order(e)
		}
	}
	e.completeSlices(doc)
	validate(doc, e, known, filepath.Dir(name))
	if err := doc.Err(); err != nil {
		return nil, err
	}
	if err := e.absolutePrograms(filepath.Dir(name)); err != nil {
		return nil, err
	}
	return e, nil
}

// readEarlier gives values in results of version v1alpha1 their present names.
func (e *Experiment) readEarlier() {
	if e.APIVersion == "tare.dev/v1alpha1" {
		e.APIVersion = APIVersion
	}
	if e.Order == "turns" {
		e.Order = OrderByMesh
	}
}

// DefaultLevels are the levels of the factors that e does not name.
func (e *Experiment) DefaultLevels() Levels {
	l := DefaultLevels()
	l.Generator = cmp.Or(e.Load.Generator, l.Generator)
	return l
}

// defaults is the experiment of an empty file. The file is decoded over it, so
// that a zero in the file remains a zero.
func defaults() *Experiment {
	return &Experiment{
		Platform:    Platform{Kind: "local"},
		Application: Application{},
		Load:        Load{Generator: "tare", Arrivals: "poisson", Timeout: Duration(10 * time.Second), Workers: 1},
		Phases: Phases{Warmup: Duration(5 * time.Second), Measure: Duration(30 * time.Second), Drain: Duration(2 * time.Second),
			Idle: Idle{CPU: 0.1, Deadline: Duration(time.Minute)}},
		Blocks:     Fixed(6),
		Seed:       1,
		Probe:      true,
		Confidence: 0.95,
		Validity:   Validity{ErrorRatio: 0.001, RateShortfall: 0.005, Unattributed: 0.01, GeneratorCPU: 0.9},
	}
}

// complete fills in the defaults that depend on other fields.
func (e *Experiment) complete(doc *strict.Document) {
	if len(LevelsOf[string](e.Factors, "topology")) == 0 && e.Application.Topology == "" && len(e.Application.Services) == 0 && !e.Application.IsOwn() && !e.Application.Source.IsSet() && !doc.Has("application.services") && !doc.Has("application.topology") {
		e.Application.Topology = "echo"
	}
	if e.Baseline == nil && !doc.Has("baseline") && slices.Contains(e.meshes(), "none") {
		e.Baseline = Baseline{"mesh": "none"}
	}
	e.completeSearches()
}

// YAML renders the experiment with its defaults filled in. Decoding it gives the same experiment.
func (e *Experiment) YAML() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("render experiment %s: %w", e.Metadata.Name, err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("render experiment %s: %w", e.Metadata.Name, err)
	}
	return b.Bytes(), nil
}

// inline is the topology in the experiment file itself.
func (e *Experiment) inline() app.Topology {
	if e.Application.IsOwn() {
		return app.Topology{Name: e.Metadata.Name, Entry: app.OwnName, Services: []app.Service{{Name: app.OwnName, Own: e.Application.Own}}}
	}
	return app.Topology{Name: e.Metadata.Name, Entry: e.Application.Entry, Services: e.Application.Services, Chart: e.Application.Chart, Source: e.Application.Source}
}
