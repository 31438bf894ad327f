package answer

import (
	"maps"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
)

// ability is a feature of meshes, in words.
type ability struct {
	words string
	has   func(mesh.Provides) bool
}

var abilities = []ability{
	{"mutual TLS", func(p mesh.Provides) bool { return p.MTLS }},
	{"L7 processing", func(p mesh.Provides) bool { return p.L7 }},
	{"retries", func(p mesh.Provides) bool { return p.Retries }},
	{"telemetry", func(p mesh.Provides) bool { return p.Telemetry }},
}

// unequal names the meshes of the run that do less than another one does: their figures are of less.
func unequal(run *compare.Run) []figures.Warning {
	if run.File.Ladder { // its steps are features
		return nil
	}
	of := maps.Clone(run.Environment.Provides)
	maps.DeleteFunc(of, func(_ string, p mesh.Provides) bool { return p == mesh.Provides{} }) // no mesh
	if slices.ContainsFunc(run.Plan.Treatments, func(t plan.Treatment) bool { return t.Reference }) {
		delete(of, experiment.ReferenceMesh) // it is not compared
	}
	abilities := slices.DeleteFunc(slices.Clone(abilities), func(a ability) bool { return !slices.ContainsFunc(slices.Collect(maps.Values(of)), a.has) })
	var order []string // of the missing features
	meshes := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		missing := slices.DeleteFunc(slices.Clone(abilities), func(a ability) bool { return a.has(of[name]) })
		if words := strings.Join(printable.Texts(missing, func(a ability) string { return a.words }), ", "); words != "" {
			if meshes[words] == nil {
				order = append(order, words)
			}
			meshes[words] = append(meshes[words], name)
		}
	}
	if order == nil {
		return nil
	}
	list := printable.Texts(order, func(words string) string {
		return printable.And(meshes[words]) + map[bool]string{true: " lacks ", false: " lack "}[len(meshes[words]) == 1] + words
	})
	return []figures.Warning{{Code: "unequal-meshes", Message: "the meshes have different features: " + strings.Join(list, "; "),
		Hint: "compare meshes with the same features, or mention the missing ones"}}
}
