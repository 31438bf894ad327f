package meshes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Choice is the settings and options of one mesh.
type Choice struct {
	Settings mesh.Settings
	Options  Options
}

// Batches keeps the meshes of the current trials installed: one for a batch of trials under it, or several for trials
// that are deployed at once. A mesh stays installed between trials. [Batches.End] removes the rest.
type Batches struct {
	cluster *cluster.Cluster
	choose  func(name string) Choice
	report  func(string)

	turn    chan struct{} // full while a trial installs or removes a mesh, one after another
	current []*Batch
	swept   bool // abandoned installations of dead runs have been removed
}

// Batch is one installed mesh.
type Batch struct {
	*Mesh
	choose       func(name string) Choice
	preinstalled bool // before the run: it is not removed
	failed       bool // its installation failed, and could not be removed
	applied      map[string][]byte
	archive      func(name string, content []byte) error // nil: into applied
}

// NewBatches takes the choice of each mesh from choose, and reports progress to report.
func NewBatches(c *cluster.Cluster, choose func(name string) Choice, report func(string)) *Batches {
	return &Batches{cluster: c, choose: choose, report: report, turn: make(chan struct{}, 1)}
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
				return conflict(i, name)
			}
		}
	}
	return nil
}

// Foreign returns the namespaces of the meshes that tare did not install. It refuses, before the first trial, a mesh that
// cannot be used as it is.
func (b *Batches) Foreign(ctx context.Context, all []mesh.Definition) (namespaces []string, err error) {
	for _, d := range all {
		if d.Kubernetes == nil {
			continue
		}
		batch, err := b.prepare(d)
		if err != nil {
			return nil, err
		}
		foreign, err := adopter{batch.instance}.adopt(ctx)
		if err != nil {
			return nil, err
		}
		if foreign != nil {
			namespaces = append(namespaces, batch.k.Namespace)
		}
	}
	return namespaces, nil
}

// Ready prepares the cluster for a trial under d: it installs d unless it is installed, and removes meshes of earlier
// trials. Those that may coexist with d stay if other trials are deployed beside this one. A user's installation
// (`tare mesh install`) of d is used. One of another mesh is an error, because it would be measured with d.
func (b *Batches) Ready(ctx context.Context, d mesh.Definition, beside bool) (*Batch, error) {
	unlock, err := b.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := b.end(ctx, func(other *Batch) bool {
		return !other.failed && (other.definition.Name == d.Name || beside && mesh.Coexist(other.definition, d) == nil)
	}); err != nil {
		return nil, err
	}
	if i := b.index(d.Name); i >= 0 {
		return b.current[i], nil
	}
	batch, err := b.prepare(d)
	if err != nil {
		return nil, err
	}
	if b.cluster.DryRun() {
		b.current = append(b.current, batch)
		return batch, newInstaller(batch.instance).recordSteps(ctx)
	}
	others, exists, err := b.installedMeshes(ctx, d)
	if err != nil {
		return nil, err
	}
	if len(others) > 0 {
		return nil, conflict(others[0], d.Name)
	}
	if foreign, err := (adopter{batch.instance}).adopt(ctx); err != nil {
		return nil, err
	} else if foreign != nil {
		exists = true
		b.report(fmt.Sprintf("mesh %s %s runs in namespace %s, and tare did not install it: it is used as it is", d.Name, foreign.version, batch.k.Namespace))
		if err := (adopter{batch.instance}).archive(); err != nil {
			return nil, err
		}
	}
	if !exists {
		if _, err := batch.Install(ctx); err != nil {
			if batch.failed = errors.As(err, new(*Unremoved)); batch.failed {
				b.current = append(b.current, batch) // the next trial, or the end of the run, removes it
			}
			return nil, err
		}
	}
	batch.preinstalled = exists
	b.current = append(b.current, batch)
	return batch, nil
}

func conflict(installed Installation, name string) error {
	return hint.New(installed.remedy()+"; a run installs and removes its meshes itself",
		"mesh %s is installed in the cluster, and would be measured with %s", installed.Mesh, name)
}

// prepare returns a mesh whose archive is buffered until a trial's directory is known.
func (b *Batches) prepare(d mesh.Definition) (*Batch, error) {
	chosen := b.choose(d.Name)
	batch := &Batch{choose: b.choose, applied: map[string][]byte{}}
	chosen.Options.Report = b.report
	chosen.Options.Archive = func(name string, content []byte) error {
		if batch.archive != nil {
			return batch.archive(name, content)
		}
		batch.applied[name] = slices.Clone(content)
		return nil
	}
	var err error
	batch.Mesh, err = New(b.cluster, d, chosen.Settings, chosen.Options)
	return batch, err
}

// installedMeshes lists the installed meshes other than d and the current ones, and reports whether d is installed. The first call removes
// meshes of dead runs.
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
		case i.is(d) && i.Incomplete:
			return nil, false, hint.New("wait for that process; if it has ended: "+i.remedy(), "mesh %s is incomplete: it is being installed or uninstalled by %s", i.Mesh, i.Owner)
		case i.is(d):
			exists = true
		case b.index(i.Mesh) >= 0: // of trials beside this one
		default:
			others = append(others, i)
		}
	}
	b.swept = true
	return others, exists, nil
}

// index is the position of a mesh among the current ones, or -1.
func (b *Batches) index(name string) int {
	return slices.IndexFunc(b.current, func(o *Batch) bool { return o.definition.Name == name })
}

// removeAbandoned removes the mesh of a dead run, by the definition of that name.
func (b *Batches) removeAbandoned(ctx context.Context, i Installation, d mesh.Definition) error {
	if !i.is(d) {
		var err error
		if d, err = i.Definition(); err != nil {
			return hint.New("remove it with its definition: `tare mesh uninstall "+i.Mesh+" --mesh FILE`", "mesh %s is a leftover of %s: %w", i.Mesh, i.Origin(), err)
		}
	}
	m, err := New(b.cluster, d, i.Settings(), Options{Report: b.report})
	if err != nil {
		return err
	}
	b.report(fmt.Sprintf("removing mesh %s, a leftover of %s", i.Mesh, i.Origin()))
	return m.Uninstall(ctx, true)
}

// Archive keeps the applied manifests of the mesh, and its running configuration.
func (b *Batch) Archive(ctx context.Context, namespace string, to func(name string, content []byte) error) error {
	b.archive = to
	defer func() { b.archive = nil }()
	for _, name := range slices.Sorted(maps.Keys(b.applied)) {
		if err := to(name, b.applied[name]); err != nil {
			return fmt.Errorf("archive %s: %w", name, err)
		}
	}
	return b.Mesh.Archive(ctx, namespace)
}

// End removes the current meshes, except those installed before the run.
func (b *Batches) End(ctx context.Context) error {
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return b.end(ctx, func(*Batch) bool { return false })
}

// lock waits until no other trial installs or removes a mesh, or until ctx ends.
func (b *Batches) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case b.turn <- struct{}{}:
		return func() { <-b.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the mesh of another trial: %w", context.Cause(ctx))
	}
}

// end removes the current meshes that are not kept.
func (b *Batches) end(ctx context.Context, keep func(*Batch) bool) error {
	for i := len(b.current) - 1; i >= 0; i-- {
		m := b.current[i]
		if keep(m) {
			continue
		}
		switch {
		case m.preinstalled:
		case b.cluster.DryRun():
			(&uninstaller{instance: m.instance}).recordSteps()
		default:
			// It stays current until it is removed, so that another attempt is possible.
			if err := m.Uninstall(ctx, true); err != nil {
				return err
			}
		}
		b.current = slices.Delete(b.current, i, i+1)
	}
	return nil
}
