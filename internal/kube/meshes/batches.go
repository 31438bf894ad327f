package meshes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// Choice is what was chosen of one mesh.
type Choice struct {
	Settings mesh.Settings
	Options  Options
}

// Batches has one mesh at a time in a cluster, as the trials of a run ask for it. A mesh that goes from one trial to the
// next is left standing; the last one goes with [Batches.End].
type Batches struct {
	cluster *cluster.Cluster
	choose  func(name string) Choice
	report  func(string)

	now     *Mesh
	lent    bool // it was there before, and stays
	swept   bool // what dead runs had installed has been looked for
	applied map[string][]byte
	to      func(name string, content []byte) error // where the archive goes now; nil: into applied
}

// NewBatches asks choose what was chosen of a mesh, and tells report what is done and waited for.
func NewBatches(c *cluster.Cluster, choose func(name string) Choice, report func(string)) *Batches {
	return &Batches{cluster: c, choose: choose, report: report}
}

// Possible refuses, before anything is done, meshes whose trials one that is installed for good would be in the way of.
func (t *Batches) Possible(ctx context.Context, names []string) error {
	all, err := Installed(ctx, t.cluster)
	if err != nil {
		return err
	}
	for _, i := range all {
		for _, name := range names {
			if name != i.Mesh && !i.Abandoned() {
				return inTheWay(i.Mesh, name)
			}
		}
	}
	return nil
}

func inTheWay(there, of string) error {
	return &Error{fmt.Errorf("mesh %s is installed in the cluster, and would be measured with %s", there, of),
		"`tare mesh uninstall " + there + "` takes it out; a run installs and removes its meshes itself"}
}

// Ready makes the cluster what a trial under d needs: other meshes are taken out whole, and d is put in unless it stands.
// One that was installed for good (`tare mesh install`) is used where it is d; another in the way is an error, since it
// would be measured with d.
func (t *Batches) Ready(ctx context.Context, d mesh.Definition) error {
	if t.now != nil && t.now.definition.Name == d.Name {
		return nil
	}
	if err := t.End(ctx); err != nil {
		return err
	}
	m, err := t.mesh(d)
	if err != nil {
		return err
	}
	if t.cluster.DryRun() {
		t.now, t.lent = m, false
		return m.recordInstall(ctx)
	}
	others, there, err := t.standing(ctx, d)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return inTheWay(others[0].Mesh, d.Name)
	}
	if !there {
		if _, err := m.Install(ctx); err != nil {
			return err
		}
	}
	t.now, t.lent = m, there
	return nil
}

// mesh prepares one whose archive is kept until a trial says where it belongs.
func (t *Batches) mesh(d mesh.Definition) (*Mesh, error) {
	chosen := t.choose(d.Name)
	t.applied = map[string][]byte{}
	chosen.Options.Report = t.report
	chosen.Options.Archive = func(name string, content []byte) error {
		if t.to != nil {
			return t.to(name, content)
		}
		t.applied[name] = slices.Clone(content)
		return nil
	}
	return New(t.cluster, d, chosen.Settings, chosen.Options)
}

// standing lists the meshes beside d that are in the cluster, and says whether d is. What dead runs had installed is
// taken out, once.
func (t *Batches) standing(ctx context.Context, d mesh.Definition) (others []Installation, there bool, err error) {
	all, err := Installed(ctx, t.cluster)
	if err != nil {
		return nil, false, err
	}
	for _, i := range all {
		switch {
		case i.Abandoned() && !t.swept:
			if err := t.sweep(ctx, i, d); err != nil {
				return nil, false, err
			}
		case i.Mesh == d.Name:
			there = true
		default:
			others = append(others, i)
		}
	}
	t.swept = true
	return others, there, nil
}

// sweep takes out what a dead run had installed, by the definition of that name.
func (t *Batches) sweep(ctx context.Context, i Installation, d mesh.Definition) error {
	if i.Mesh != d.Name {
		var err error
		if d, err = mesh.Load(i.Mesh); err != nil {
			return &Error{fmt.Errorf("mesh %s was left by run %s: %w", i.Mesh, i.Run, err), "take it out with its definition: `tare mesh uninstall " + i.Mesh + " --mesh FILE`"}
		}
	}
	m, err := New(t.cluster, d, i.Settings(), Options{Report: t.report})
	if err != nil {
		return err
	}
	t.report(fmt.Sprintf("removing mesh %s, which run %s had left in the cluster", i.Mesh, i.Run))
	return m.Uninstall(ctx, true)
}

var errNoTurn = errors.New("no mesh has its turn")

// Enter puts a namespace under the mesh whose turn it is, as [Mesh.Enter] does.
func (t *Batches) Enter(ctx context.Context, s cluster.Stamp, namespace string, e mesh.Enrolled) error {
	if t.now == nil {
		return errNoTurn
	}
	return t.now.Enter(ctx, s, namespace, e)
}

// Verify proves that the mesh whose turn it is is in force, as [Mesh.Verify] does.
func (t *Batches) Verify(ctx context.Context, target Target) ([]check.Check, error) {
	if t.now == nil {
		return nil, errNoTurn
	}
	return t.now.Verify(ctx, target)
}

// Archive keeps, by way of to, what was applied for the mesh whose turn it is and what now really runs of it.
func (t *Batches) Archive(ctx context.Context, namespace string, to func(name string, content []byte) error) error {
	if t.now == nil {
		return errNoTurn
	}
	t.to = to
	defer func() { t.to = nil }()
	for _, name := range slices.Sorted(maps.Keys(t.applied)) {
		if err := to(name, t.applied[name]); err != nil {
			return fmt.Errorf("keep %s: %w", name, err)
		}
	}
	return t.now.Archive(ctx, namespace)
}

// End takes out the mesh whose turn it was, unless it had been there before.
func (t *Batches) End(ctx context.Context) error {
	m := t.now
	if m == nil || t.lent {
		t.now = nil
		return nil
	}
	if t.cluster.DryRun() {
		m.recordUninstall()
		t.now = nil
		return nil
	}
	// It stays noted until it is gone, so that a second attempt finds it.
	if err := m.Uninstall(ctx, true); err != nil {
		return err
	}
	t.now = nil
	return nil
}
