package experiment

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
)

// Names are the names that an experiment may use, with the user's own. An empty list disables the check of its names.
type Names struct {
	Meshes []string
	// Definitions of the meshes, by name. Nil means that options of meshes are not checked.
	Definitions map[string]mesh.Definition
	// Versions are the versions of a sidecar's program that can be downloaded. Nil means that versions are not checked.
	Versions   map[string][]string
	Generators []string
	Platforms  []string
	Meters     []string // of a cluster
	Protocols  []string
	Topologies []string // nil: the embedded ones
}

func (n Names) topologies() []string {
	if n.Topologies == nil {
		return app.Names()
	}
	return n.Topologies
}

// File is a decoded experiment file. The document has the places of its fields, and its mistakes so far.
type File struct {
	*strict.Document
	Experiment *Experiment
}

// Parse decodes, completes and validates a file. It reads no file that this one names. The error is a [strict.Problems].
func Parse(name string, data []byte, names Names, overrides ...string) (*Experiment, error) {
	f, err := Decode(name, data, overrides...)
	if err != nil {
		return nil, err
	}
	return f.valid(names)
}

// valid returns the experiment, completed, unless the file has a mistake.
func (f *File) valid(names Names) (*Experiment, error) {
	f.Complete()
	if err := f.Validate(names); err != nil {
		return nil, err
	}
	return f.Experiment, nil
}

// ReadRecord reads the experiment file of a results directory. No file that it names is read: it may come from others.
func ReadRecord(path string) (*Experiment, error) {
	data, err := strict.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := DecodeRecord(path, data)
	if err != nil {
		return nil, err
	}
	return f.valid(Names{})
}

// DecodeRecord is [Decode] for the experiment file of a results directory, which another version may have written: unknown
// fields are ignored.
func DecodeRecord(path string, data []byte) (*File, error) {
	doc, err := strict.Parse(path, data)
	if err != nil {
		return nil, err
	}
	doc.Lenient = true
	f := &File{doc, defaults()}
	doc.Decode(f.Experiment)
	if f.Experiment.Load.Arrivals == "recorded" { // at recorded instants, until November 2026
		f.Experiment.Load.Arrivals = load.Constant
	}
	if f.Experiment.Platform.Expose == "portForward" { // through the API server, until November 2026
		f.Experiment.Platform.Expose = exposures[0]
	}
	return f, nil
}

const pricesKind = "Prices"

// Decode decodes the content of a file over the defaults. name is the file in errors. Overrides are "key=value" of
// `--set`. The file then has the mistakes of types and unknown fields, which [File.Validate] returns. An error reports
// that it cannot be decoded at all.
func Decode(name string, data []byte, overrides ...string) (*File, error) {
	doc, err := strict.Parse(name, data)
	if err != nil {
		return nil, err
	}
	if kind, _ := doc.Text("kind"); kind == pricesKind { // every other field would be a mistake too
		doc.Report("kind", fmt.Sprintf("found %q, expected %q", kind, Kind), "a file of prices is for tare report DIR --cost FILE, and tare size --prices FILE")
		return nil, doc.Err()
	}
	for _, o := range overrides {
		if err := doc.Set(o); err != nil {
			return nil, err
		}
	}
	f := &File{doc, defaults()}
	doc.Decode(f.Experiment)
	return f, nil
}

// Complete fills in the defaults that depend on other fields. The files and objects that the file names are read before.
func (f *File) Complete() {
	e := f.Experiment
	if a := &e.Application; a.Source.IsSet() {
		switch {
		case len(a.Services) == 0 && a.Entry != "": // the objects are unknown here
			a.Services = []app.Service{{Name: a.Entry}}
		case len(a.Services) == 1 && a.Entry == "":
			a.Entry = a.Services[0].Name
		}
	} else if len(e.applications()) == 0 && a.Topology == "" && len(a.Services) == 0 && !a.IsOwn() && !f.Has("application.services") && !f.Has("application.topology") {
		a.Topology = "echo"
	}
	if e.Baseline == nil && !f.Has("baseline") {
		e.Baseline = e.defaultBaseline()
	}
	f.completeSoak()
	f.completeBatch()
	e.completeSearches()
	f.completeSlices()
	f.completeChanges()
}

// completeSoak makes the soak the measure phase.
func (f *File) completeSoak() {
	e := f.Experiment
	if e.Phases.Soak <= 0 {
		return
	}
	if !f.Has("phases.measure") {
		e.Phases.Measure = e.Phases.Soak
	}
	if !f.Has("blocks") {
		e.Blocks = Fixed(1)
	}
}

// Validate returns every mistake of the file as a [strict.Problems], or nil. It changes nothing. A file that names others
// has had them read before. The order of the rules decides which of two contradicting fields is reported.
func (f *File) Validate(names Names) error {
	v := validation{f.Document.Clone(), f.Experiment, names}
	v.header()
	v.bounds()
	platformRules{v}.validate()
	applicationRules{v}.validate()
	applicationRules{v}.variants()
	platformRules{v}.workloads()
	factorRules{v}.factors()
	meshRules{v}.validate()
	loadRules{v}.validate()
	scheduleRules{v}.validate()
	factorRules{v}.baseline()
	faultRules{v}.validate()
	changeRules{v}.validate()
	backgroundRules{v}.validate()
	startRules{v}.validate()
	batchRules{v}.validate()
	return v.doc.Err()
}

func (v validation) header() {
	v.fixed("apiVersion", v.e.APIVersion, APIVersion)
	v.fixed("kind", v.e.Kind, Kind)
	if v.e.Metadata.Name == "" {
		v.report("metadata.name", "add metadata: {name: my-experiment}", "the name is missing")
	}
	var levels []string
	for _, f := range Table {
		for _, l := range f.levels(v.e.Factors[f.Name]) {
			levels = append(levels, PrintLevel(f.Name, l.Value))
		}
	}
	// The file names its levels, and --set leaves some out.
	set := slices.ContainsFunc(Table, func(f Factor) bool { return v.doc.Has("factors."+f.Name) && v.doc.At("factors."+f.Name).Line == 0 })
	for _, level := range sortedKeys(v.e.Metadata.Names) {
		if path := "metadata.names." + level; !set && !slices.Contains(levels, level) && v.doc.Sound("factors") {
			v.report(path, strict.DidYouMean(level, levels), "no factor has a level %q", clip(level))
		}
	}
}

// fixed reports a field that does not have its only possible value.
func (v validation) fixed(path, value, want string) {
	switch {
	case !v.doc.Has(path):
		v.report(path, "write "+path+": "+want, "missing, expected %q", want)
	case value != want:
		v.report(path, "write "+path+": "+want, "found %q, expected %q", clip(value), want)
	}
}

// SetOrder sets the order of a file without one, and the defaults that depend on it.
func (f *File) SetOrder(order string) {
	f.Experiment.Order = order
	f.completeSlices()
}

// DefaultLevels are the levels of the factors that e does not name.
func (e *Experiment) DefaultLevels() Levels {
	l := DefaultLevels()
	l.Generator = cmp.Or(e.Load.Generator, l.Generator)
	l.BackgroundServices, l.BackgroundChanges, l.BackgroundProxies, l.BackgroundPods = e.Background.Services, e.Background.Changes, e.Background.Proxies, e.Background.Pods
	return l
}

// defaults is the experiment of an empty file. The file is decoded over it, so
// that a zero in the file remains a zero.
func defaults() *Experiment {
	return &Experiment{
		Platform:    Platform{Kind: "local"},
		Application: Application{},
		Load:        Load{Generator: "tare", Arrivals: "poisson", Timeout: Duration(10 * time.Second), Workers: 1},
		Phases: Phases{Prewarm: Duration(2 * time.Minute), Warmup: Duration(5 * time.Second), Measure: Duration(30 * time.Second), Drain: Duration(2 * time.Second),
			Idle: Idle{CPU: 0.1, Deadline: Duration(time.Minute)}},
		Blocks:     Fixed(6),
		Seed:       1,
		Confidence: 0.95,
		Validity:   Validity{ErrorRatio: DefaultErrorRatio, RateShortfall: 0.005, Unattributed: DefaultUnattributed, GeneratorCPU: 0.9},
	}
}

// YAML renders the experiment with its defaults filled in. Decoding it gives the same experiment.
func (e *Experiment) YAML() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(e), enc.Close()); err != nil {
		return nil, fmt.Errorf("render experiment %s: %w", e.Metadata.Name, err)
	}
	return b.Bytes(), nil
}

// inline is the topology in the experiment file itself.
func (e *Experiment) inline() app.Topology {
	if e.Application.IsOwn() {
		return ownTopology(e.Metadata.Name, e.Application.Own)
	}
	return app.Topology{Name: e.Metadata.Name, Entry: e.Application.Entry, Services: e.Application.Services, Chart: e.Application.Chart, Source: e.Application.Source}
}

// Bounds of fields. They catch typing errors and do not restrict large experiments.
const (
	MaxTrials = 10_000

	maxConnections = 32_768 // more than the ephemeral ports of one address on Linux
	maxReplicas    = 1000
	maxBodySize    = Size(1 << 30)
	maxPhase       = Duration(24 * time.Hour)
	minMeasure     = Duration(time.Second)
	minSoak        = Duration(10 * time.Second)
	maxTimeout     = Duration(60 * time.Second) // the upper end of the histograms
	maxSeed        = 1<<53 - 1                  // exact in every JSON reader
	maxCPU         = 1023                       // CPU_SETSIZE of Linux
	maxLevels      = 1000
)

// validation is the state that all rules share.
type validation struct {
	doc   *strict.Document
	e     *Experiment
	names Names
}

func clip(s string) string { return printable.Clip(s, 60) }

// onClusters reports fields that the local platform does not have.
func (v validation) onClusters(paths ...string) {
	refuse(v, "", paths, "remove it, or write platform: {kind: kubernetes}", "it applies to clusters, and the platform is local")
}

// refuse reports each of the fields that the file has.
func refuse(v validation, under string, fields []string, hint, message string) {
	for _, field := range fields {
		if v.doc.Has(under + field) {
			v.report(under+field, hint, "%s", message)
		}
	}
}

// report adds a mistake, unless the same field has one already.
func (v validation) report(path, hint, format string, args ...any) {
	if v.doc.Sound(path) {
		v.doc.Report(path, fmt.Sprintf(format, args...), hint)
	}
}

func (v validation) local() bool { return v.e.Platform.Kind == mesh.OnLocal }

// definition returns a mesh's definition, if definitions are known.
func (v validation) definition(name string) (mesh.Definition, bool) {
	d, err := v.e.Definition(name, v.names.Definitions)
	return d, err == nil
}

// meshesOf lists the levels of the factor mesh, or its default.
func meshesOf(e *Experiment) []string {
	return levelsOr(e, MeshFactor, DefaultLevels().Mesh)
}
