package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer/effective"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
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

// configuredTrials are read of each treatment: what differs between them is not part of the configuration.
const configuredTrials = 3

// configurations compares the treatments of a mesh, or of a program of the user, with the treatments of its variants, at the first
// levels of other factors.
func configurations(run *compare.Run, provenance func(trial string) string) (all []Configuration) {
	if len(run.Environment.Variants) == 0 && len(run.File.Applications) == 0 {
		return nil
	}
	read, unread := map[string][]effective.Configuration{}, map[string]error{}
	configurationsOf := func(t plan.Treatment) []effective.Configuration {
		if c, done := read[t.ID]; done {
			return c
		}
		var trials []effective.Configuration
		for _, trial := range run.Trials {
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
	for i, b := range run.Plan.Treatments {
		for _, t := range run.Plan.Treatments[:i] {
			if !related(run, t, b) {
				continue
			}
			differences, known := effective.Compare(configurationsOf(t), configurationsOf(b))
			failed := cmp.Or(unread[t.ID], unread[b.ID])
			if !known && failed == nil {
				continue
			}
			c := Configuration{A: t.ID, B: b.ID, Differences: differences, Versions: [2]string{programOf(run, t.Levels.Mesh), programOf(run, b.Levels.Mesh)}}
			if undumped := effective.Undumped(configurationsOf(t), configurationsOf(b)); !known {
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

// related reports whether two treatments are of one mesh and its variants, or of two programs of the user, and one is the
// origin or the baseline of the other. Both are the first of their kind in the plan.
func related(run *compare.Run, a, b plan.Treatment) bool {
	levelOf := func(l experiment.Levels) string { return l.Mesh }
	if a.Levels.Mesh == b.Levels.Mesh {
		levelOf = func(l experiment.Levels) string { return l.Application }
	}
	first := func(t plan.Treatment) bool {
		i := slices.IndexFunc(run.Plan.Treatments, func(o plan.Treatment) bool { return levelOf(o.Levels) == levelOf(t.Levels) })
		return run.Plan.Treatments[i].ID == t.ID
	}
	x, y := levelOf(a.Levels), levelOf(b.Levels)
	if a.Control || b.Control || x == y || !first(a) || !first(b) {
		return false
	}
	_, ownX := run.File.Applications[x]
	_, ownY := run.File.Applications[y]
	if a.Levels.Mesh != b.Levels.Mesh && family(run, x) != family(run, y) || a.Levels.Mesh == b.Levels.Mesh && !(ownX && ownY) {
		return false
	}
	return origin(run, x) == y || origin(run, y) == x || a.Baseline == b.ID || b.Baseline == a.ID
}

// family is the mesh that a variant comes from. A mesh is its own family.
func family(run *compare.Run, name string) string {
	for range run.Environment.Variants {
		name = origin(run, name)
	}
	return name
}

// programOf returns the version of a mesh's program. A variant without its own runs the program of the mesh it comes
// from. Empty means unknown, as on clusters.
func programOf(run *compare.Run, name string) string {
	for range run.Environment.Variants {
		if version := run.Environment.Versions[name]; version != "" {
			return version
		}
		name = origin(run, name)
	}
	return run.Environment.Versions[name]
}

// origin is the mesh or variant that a variant comes from. For a mesh it is the mesh itself.
func origin(run *compare.Run, name string) string {
	if text, is := run.Environment.Variants[name]; is {
		name, _, _ = strings.Cut(text, " with ")
	}
	return name
}

// sameConfigurations warn of treatments that turn out the same.
func sameConfigurations(all []Configuration) (ws []figures.Warning) {
	for _, c := range all {
		if c.Same {
			ws = append(ws, figures.Warning{Code: "treatments-same", Message: fmt.Sprintf("%s and %s had the same effective configuration: their difference is noise", c.A, c.B),
				Hint: "check that the setting takes effect: compare the configuration dumps in provenance/"})
		}
	}
	return ws
}
