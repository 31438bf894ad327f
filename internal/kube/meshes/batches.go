package meshes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// Choice is the settings and options of one mesh.
type Choice struct {
	Settings mesh.Settings
	Options  Options
}

// Batches keeps at most one mesh installed, for batches of trials under the same mesh. A mesh stays installed between
// trials of its batch. [Batches.End] removes the last one.
type Batches struct {
	cluster *cluster.Cluster
	choose  func(name string) Choice
	report  func(string)

	current      *Mesh
	preinstalled bool // before the run: current is not removed
	swept        bool // abandoned installations of dead runs have been removed
	applied      map[string][]byte
	archive      func(name string, content []byte) error // nil: into applied
}

// NewBatches takes the choice of each mesh from choose, and reports progress to report.
func NewBatches(c *cluster.Cluster, choose func(name string) Choice, report func(string)) *Batches {
	return &Batches{cluster: c, choose: choose, report: report}
}

// Possible refuses, before anything is done, trials of meshes that a user's installation would affect.
func (b *Batches) Possible(ctx context.Context, names []string) error {
	all, err := Installed(ctx, b.cluster)
	if err != nil {
		return err
	}
	for _, i := range all {
		for _, name := range names {
			if name != i.Mesh && !i.Abandoned() {
				return conflict(i.Mesh, name)
			}
		}
	}
	return nil
}

func conflict(installed, name string) error {
	return hint.New("`tare mesh uninstall "+installed+"` removes it; a run installs and removes its meshes itself",
		"mesh %s is installed in the cluster, and would be measured with %s", installed, name)
}

// Ready prepares the cluster for a trial under d: it removes the mesh of the previous batch, and installs d unless it is
// installed. A user's installation (`tare mesh install`) of d is used. One of another mesh is an error, because it would
// be measured with d.
func (b *Batches) Ready(ctx context.Context, d mesh.Definition) error {
	if b.current != nil && b.current.definition.Name == d.Name {
		return nil
	}
	if err := b.End(ctx); err != nil {
		return err
	}
	m, err := b.prepare(d)
	if err != nil {
		return err
	}
	if b.cluster.DryRun() {
		b.current, b.preinstalled = m, false
		return newInstaller(m.instance).recordSteps(ctx)
	}
	others, exists, err := b.installedMeshes(ctx, d)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return conflict(others[0].Mesh, d.Name)
	}
	if !exists {
		if _, err := m.Install(ctx); err != nil {
			return err
		}
	}
	b.current, b.preinstalled = m, exists
	return nil
}

// prepare returns a mesh whose archive is buffered until a trial's directory is known.
func (b *Batches) prepare(d mesh.Definition) (*Mesh, error) {
	chosen := b.choose(d.Name)
	b.applied = map[string][]byte{}
	chosen.Options.Report = b.report
	chosen.Options.Archive = func(name string, content []byte) error {
		if b.archive != nil {
			return b.archive(name, content)
		}
		b.applied[name] = slices.Clone(content)
		return nil
	}
	return New(b.cluster, d, chosen.Settings, chosen.Options)
}

// installedMeshes lists the installed meshes other than d, and reports whether d is installed. The first call removes
// those of dead runs.
func (b *Batches) installedMeshes(ctx context.Context, d mesh.Definition) (others []Installation, exists bool, err error) {
	all, err := Installed(ctx, b.cluster)
	if err != nil {
		return nil, false, err
	}
	for _, i := range all {
		switch {
		case i.Abandoned() && !b.swept:
			if err := b.removeAbandoned(ctx, i, d); err != nil {
				return nil, false, err
			}
		case i.Mesh == d.Name:
			exists = true
		default:
			others = append(others, i)
		}
	}
	b.swept = true
	return others, exists, nil
}

// removeAbandoned removes the mesh of a dead run, by the definition of that name.
func (b *Batches) removeAbandoned(ctx context.Context, i Installation, d mesh.Definition) error {
	if i.Mesh != d.Name {
		var err error
		if d, err = mesh.Load(cmp.Or(i.From, i.Mesh)); err != nil {
			return hint.New("remove it with its definition: `tare mesh uninstall "+i.Mesh+" --mesh FILE`", "mesh %s is a leftover of run %s: %w", i.Mesh, i.Run, err)
		}
		d.Name = i.Mesh
	}
	m, err := New(b.cluster, d, i.Settings(), Options{Report: b.report})
	if err != nil {
		return err
	}
	b.report(fmt.Sprintf("removing mesh %s, a leftover of run %s", i.Mesh, i.Run))
	return m.Uninstall(ctx, true)
}

var errNoMesh = errors.New("no mesh is current")

// Enter puts a namespace under the current mesh, as [Mesh.Enter] does.
func (b *Batches) Enter(ctx context.Context, s cluster.Stamp, namespace string, e mesh.Enrolled) error {
	if b.current == nil {
		return errNoMesh
	}
	return b.current.Enter(ctx, s, namespace, e)
}

// Verify verifies the current mesh, as [Mesh.Verify] does.
func (b *Batches) Verify(ctx context.Context, target Target) ([]check.Check, error) {
	if b.current == nil {
		return nil, errNoMesh
	}
	return b.current.Verify(ctx, target)
}

// Archive keeps the applied manifests of the current mesh, and its running configuration.
func (b *Batches) Archive(ctx context.Context, namespace string, to func(name string, content []byte) error) error {
	if b.current == nil {
		return errNoMesh
	}
	b.archive = to
	defer func() { b.archive = nil }()
	for _, name := range slices.Sorted(maps.Keys(b.applied)) {
		if err := to(name, b.applied[name]); err != nil {
			return fmt.Errorf("archive %s: %w", name, err)
		}
	}
	return b.current.Archive(ctx, namespace)
}

// End removes the current mesh, unless it was installed before the run.
func (b *Batches) End(ctx context.Context) error {
	m := b.current
	if m == nil || b.preinstalled {
		b.current = nil
		return nil
	}
	if b.cluster.DryRun() {
		(&uninstaller{m.instance}).recordSteps()
		b.current = nil
		return nil
	}
	// It stays current until it is removed, so that another attempt is possible.
	if err := m.Uninstall(ctx, true); err != nil {
		return err
	}
	b.current = nil
	return nil
}
