package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/examples"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/runner"
)

// Options select and change an experiment.
type Options struct {
	Set    []string // key=value
	Meshes []string // files of mesh definitions
	// Recorded: the file is part of results. The files and objects that it names are not read: they may have changed, and the
	// file may come from others.
	Recorded bool
	// Resumed is a results directory, whose seed and order a file without a seed gets.
	Resumed string
}

// Read reads an experiment file and expands it to a plan. If the file does not exist, or is a directory without one, its name may
// belong to an embedded example.
func (p *Program) Read(ctx context.Context, file string, o Options) (*Study, error) {
	data, err := strict.ReadFile(file)
	at, _ := os.Stat(file)
	dir := at != nil && at.IsDir()
	if inside := filepath.Join(file, result.ExperimentFile); dir {
		if _, err := os.Stat(inside); err == nil {
			return nil, hint.Usage(fmt.Errorf("%s is a directory", file), "name its experiment file: "+inside)
		}
	}
	if dir || errors.Is(err, fs.ErrNotExist) {
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		if file != name || !slices.Contains(examples.Names(), file) {
			help := "name a file, or an example of `tare list examples`"
			if near, ok := strict.Nearest(name, examples.Names()); ok {
				help = "did you mean the example `" + near + "`?"
			}
			return nil, hint.Usage(err, help)
		}
		data, err = examples.Read(file)
	}
	if err != nil {
		return nil, hint.InvalidFile(err)
	}
	return p.Decode(ctx, file, data, o)
}

// Decode is [Program.Read] for the content of a file.
func (p *Program) Decode(ctx context.Context, file string, data []byte, o Options) (*Study, error) {
	var f *experiment.File
	var err error
	if o.Recorded {
		f, err = experiment.DecodeRecord(file, data)
	} else {
		f, err = experiment.Decode(file, data, o.Set...)
	}
	if err != nil {
		return nil, hint.InvalidFile(err)
	}
	s, err := p.resolve(ctx, f, filepath.Dir(file), o)
	if err != nil {
		return nil, err
	}
	if err := s.validate(f, file); err != nil {
		return nil, err
	}
	return s, s.expand()
}

// resolve reads what a decoded file in dir refers to, and completes the experiment. Mistakes are added to the file. An
// error reports a mesh definition that cannot be read, or that this program lacks the Kubernetes libraries.
func (p *Program) resolve(ctx context.Context, f *experiment.File, dir string, o Options) (*Study, error) {
	definitions, err := mesh.Collect(o.Meshes...)
	if err != nil {
		return nil, hint.InvalidFile(err)
	}
	s := &Study{Program: p, Experiment: f.Experiment, Meshes: map[string]mesh.Definition{}, definitions: o.Meshes}
	for _, d := range definitions {
		s.Meshes[d.Name] = d
	}
	if !o.Recorded {
		r := references{f, f.Experiment, dir}
		s.unread = r.objects(ctx, p)
		if errors.Is(s.unread, ErrKubernetes) || errors.Is(s.unread, context.Canceled) {
			return nil, s.unread
		}
		r.topology()
		r.applications()
		r.targets(s.notef)
		r.bodies()
		r.paths()
	}
	f.Complete()
	if s.Drawn = !f.Has("seed"); s.Drawn {
		s.draw(f, o.Resumed)
	}
	return s, nil
}

// draw gives a file without a seed the seed of the run in the directory resumed, or a fresh one. A file without an order
// gets the order of that run, or the one that suits it.
func (s *Study) draw(f *experiment.File, resumed string) {
	s.Experiment.Seed = 1 + rand.Uint64N(1e9) // short enough to be typed
	order := experiment.OrderBalanced
	if resumed != "" {
		earlier, err := experiment.ReadRecord(filepath.Join(resumed, result.ExperimentFile))
		if err == nil { // opening the directory reports it
			s.Experiment.Seed, order = earlier.Seed, earlier.Order
		}
	}
	if f.Has("order") {
		return
	}
	if resumed == "" {
		order = s.chooseOrder()
	}
	f.SetOrder(order)
}

// chooseOrder returns the order of a file with neither seed nor order: interleaved where nothing forbids it.
func (s *Study) chooseOrder() string {
	s.NotInterleaved = s.Experiment.NotInterleaved()
	if p, err := plan.Expand(s.Experiment); err == nil {
		s.NotInterleaved = cmp.Or(s.NotInterleaved, p.NotInterleaved(), tooLarge(s.Experiment, p, meter.AvailableMemory()))
	}
	if s.NotInterleaved != "" {
		return experiment.OrderBalanced
	}
	return experiment.OrderInterleaved
}

// Memory of the processes of a deployment, bytes, estimated before anything is deployed: the memory of Envoy
// and of tare-agent under some load. The runner checks the real memory before each further deployment.
const (
	appMemory     = 24 << 20
	sidecarMemory = 48 << 20
	controlMemory = 160 << 20
	loadMemory    = 48 << 20
)

// tooLarge returns why the treatments of a comparison do not fit into memory at once: half of the free
// memory must be enough. free is 0 if it is unknown.
func tooLarge(e *experiment.Experiment, p *plan.Plan, free int64) string {
	for _, treatments := range p.AtOnce() {
		need := lists.Sum(treatments, func(t plan.Treatment) int64 { return memoryOf(e, t.Levels) })
		if free > 0 && need > free/2 {
			return fmt.Sprintf("%d treatments at once need about %d MiB of memory, more than half of the free %d MiB", len(treatments), need>>20, free>>20)
		}
	}
	return ""
}

// memoryOf estimates the memory of one deployment, bytes.
func memoryOf(e *experiment.Experiment, l experiment.Levels) int64 {
	topology, err := e.TopologyOf(l)
	if err != nil {
		return 0
	}
	pods := 0
	for _, service := range topology.Services {
		pods += cmp.Or(service.Replicas, l.Replicas)
	}
	need := int64(loadMemory) + int64(pods)*appMemory
	if l.Mesh != "none" {
		need += controlMemory + int64(pods+1)*sidecarMemory
	}
	return need
}

// validate returns the mistakes of the file, whose name is for those in gates. It changes nothing.
func (s *Study) validate(f *experiment.File, name string) error {
	if err := f.Validate(s.Program.namesWith(s.Meshes)); err != nil {
		if mistakes, _ := errors.AsType[strict.Problems](err); s.unread != nil && len(mistakes) == 1 {
			return s.unread
		}
		return hint.InvalidFile(err)
	}
	for i, text := range s.Experiment.Decide.Gates {
		if _, err := compare.ParseGate(text); err != nil {
			return hint.InvalidFile(hint.Wrap(fmt.Errorf("%s: decide.gates[%d]: %w", name, i, err), hint.Of(err)))
		}
	}
	return nil
}

// CheckSource refuses an application whose pods cannot start.
func (s *Study) CheckSource() error {
	if s.Experiment.Application.Objects == nil {
		return nil
	}
	fatal := s.Experiment.Application.Objects.Fatal()
	if len(fatal) == 0 {
		return nil
	}
	all := lists.Map(fatal, func(n manifest.Note) error { return errors.New(printable.Line(n.String())) })
	return hint.Usage(fmt.Errorf("pods of the application cannot start: %w", errors.Join(all...)), fatal[0].Hint)
}

// expand makes the plan of a valid experiment. It returns why the treatments cannot be run.
func (s *Study) expand() (err error) {
	if err := s.changeMeshes(); err != nil {
		return hint.InvalidFile(err)
	}
	if s.Plan, err = plan.Expand(s.Experiment); err != nil {
		return err
	}
	generators := s.Program.GeneratorsByName()
	if err := runner.Suited(s.Experiment, s.Plan, generators); err != nil {
		return err
	}
	runner.Prolong(s.Experiment, s.Plan, generators)
	s.Program.platform(s.Experiment.Platform.Kind).prolong(s.Experiment, s.Plan)
	if s.Experiment.Platform.Kind == mesh.OnKubernetes {
		addMeshChanges(s.Meshes, s.Plan)
	}
	return nil
}

// changeMeshes adds the variants of the file to the definitions, and replaces definitions that the file changes.
func (s *Study) changeMeshes() error {
	changed := map[string]mesh.Definition{}
	for _, name := range experiment.ChangedMeshes(s.Experiment) {
		d, err := s.Experiment.Definition(name, s.Meshes)
		if err != nil {
			return err
		}
		changed[d.Name] = d
	}
	maps.Copy(s.Meshes, changed)
	return nil
}

// prolong adds what the platform takes to p's expected times.
func (v Platform) prolong(x *experiment.Experiment, p *plan.Plan) {
	more := v.Overhead
	if refresh := v.refreshOf(x); refresh > 0 {
		more += runner.RefreshExtra(x.Phases, refresh)
	}
	p.TrialTime += more
	p.Expected += more * time.Duration(len(p.Trials))
}

// MeshChange is about how long it takes to install a mesh, or to uninstall it and check that nothing is left.
const MeshChange = 20 * time.Second

// addMeshChanges adds the time to install and uninstall meshes, in the order of p's trials, to p's expected time. Meshes of
// rounds stay installed beside each other.
func addMeshChanges(meshes map[string]mesh.Definition, p *plan.Plan) {
	of := map[string]string{}
	for _, t := range p.Treatments {
		if d := meshes[t.Levels.Mesh]; d.Kubernetes != nil {
			of[t.ID] = d.Name
		}
	}
	change := func() {
		p.Expected += MeshChange
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
