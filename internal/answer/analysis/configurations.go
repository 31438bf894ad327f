package analysis

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tare-mesh/tare/internal/answer/effective"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// Configuration lists the differences between two treatments of one mesh and its variants, as they ran.
type Configuration struct {
	A string `json:"a"` // treatments
	B string `json:"b"`
	// Same: nothing differs, the programs included.
	Same        bool                   `json:"same"`
	Versions    [2]string              `json:"versions"` // of the programs, empty if unknown
	Differences []effective.Difference `json:"differences"`
	// NotCompared is what of the configuration is not among the differences, with the reason. Empty: nothing.
	NotCompared string `json:"notCompared,omitempty"`
}

// configuredTrials are read of each treatment: what differs between them is no configuration.
const configuredTrials = 3

// configurations compare the treatments of each mesh with those of its variants, at the first levels of other factors.
func (a *analysis) configurations(provenance func(trial string) string) (all []Configuration) {
	if len(a.run.environment.Variants) == 0 {
		return nil
	}
	read, unread := map[string][]effective.Configuration{}, map[string]error{}
	of := func(t plan.Treatment) []effective.Configuration {
		if c, done := read[t.ID]; done {
			return c
		}
		var trials []effective.Configuration
		for _, trial := range a.run.trials {
			if trial.Treatment != t.ID || trial.Error != "" || len(trials) == configuredTrials {
				continue
			}
			c, err := effective.Read(provenance(trial.ID))
			switch {
			case err != nil:
				unread[t.ID] = err
			case len(c) > 0:
				trials = append(trials, c)
			}
		}
		read[t.ID] = trials
		return trials
	}
	for i, b := range a.run.plan.Treatments {
		for _, t := range a.run.plan.Treatments[:i] {
			if !a.run.related(t, b) || !a.run.firstOfMesh(t) || !a.run.firstOfMesh(b) {
				continue
			}
			differences, known := effective.Compare(of(t), of(b))
			failed := cmp.Or(unread[t.ID], unread[b.ID])
			if !known && failed == nil {
				continue
			}
			c := Configuration{A: t.ID, B: b.ID, Differences: differences, Versions: [2]string{a.run.programOf(t.Levels.Mesh), a.run.programOf(b.Levels.Mesh)}}
			if undumped := effective.Undumped(of(t), of(b)); !known {
				c.NotCompared = failed.Error()
			} else if len(undumped) > 0 {
				c.NotCompared = strings.Join(undumped, ", ") + ": a trial has no configuration dump, which was too large or could not be read"
			}
			c.Same = len(differences) == 0 && c.NotCompared == "" && c.Versions[0] == c.Versions[1]
			all = append(all, c)
		}
	}
	return all
}

// related reports whether two treatments are of one mesh and its variants, and one is the origin or the baseline
// of the other.
func (d *run) related(a, b plan.Treatment) bool {
	x, y := a.Levels.Mesh, b.Levels.Mesh
	if a.Control || b.Control || x == y || d.family(x) != d.family(y) {
		return false
	}
	return d.origin(x) == y || d.origin(y) == x || a.Baseline == b.ID || b.Baseline == a.ID
}

// origin is the mesh or variant that a variant comes from. For a mesh it is the mesh itself.
func (d *run) origin(name string) string {
	if text, is := d.environment.Variants[name]; is {
		name, _, _ = strings.Cut(text, " with ")
	}
	return name
}

// family is the mesh that a variant comes from. A mesh is its own family.
func (d *run) family(name string) string {
	for range len(d.environment.Variants) {
		name = d.origin(name)
	}
	return name
}

// programOf is the version of a mesh's program. A variant without its own has that of the mesh it comes from. Empty: unknown,
// as on clusters.
func (d *run) programOf(name string) string {
	for range len(d.environment.Variants) + 1 {
		if version := d.environment.Versions[name]; version != "" {
			return version
		}
		name = d.origin(name)
	}
	return ""
}

// firstOfMesh reports whether t is the first treatment of its mesh in the plan.
func (d *run) firstOfMesh(t plan.Treatment) bool {
	for _, other := range d.plan.Treatments {
		if other.Levels.Mesh == t.Levels.Mesh {
			return other.ID == t.ID
		}
	}
	return false
}

// sameConfigurations warn of treatments that turn out the same.
func sameConfigurations(all []Configuration) (ws []Warning) {
	for _, c := range all {
		if c.Same {
			ws = append(ws, Warning{Code: "treatments-same", Message: fmt.Sprintf("%s and %s had the same effective configuration: their difference is noise", c.A, c.B),
				Hint: "check that the setting takes effect: compare the configuration dumps in provenance/"})
		}
	}
	return ws
}
