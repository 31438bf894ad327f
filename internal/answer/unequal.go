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

// abilities are the features of meshes, in words.
var abilities = []struct {
	words string
	has   func(mesh.Provides) bool
}{
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
	lacks := map[string][]string{}
	for _, ability := range abilities {
		some := slices.ContainsFunc(slices.Collect(maps.Values(of)), ability.has)
		for name, p := range of {
			if some && !ability.has(p) {
				lacks[name] = append(lacks[name], ability.words)
			}
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	list := printable.Texts(slices.Sorted(maps.Keys(lacks)), func(name string) string { return name + " lacks " + strings.Join(lacks[name], ", ") })
	return []figures.Warning{{Code: "unequal-meshes", Message: "the meshes have different features: " + strings.Join(list, "; "),
		Hint: "compare meshes with the same features, or mention the missing ones"}}
}
