package answer

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
)

// importWarnings are the unknowns of an import: the noise between equal
// treatments, the application's cost without a mesh, and whether the machine
// changed from one mesh to the next.
func importWarnings(run *compare.Run) []figures.Warning {
	ws := []figures.Warning{}
	if run.Assumed {
		ws = append(ws, figures.Warning{Code: "no-baseline",
			Message: "no treatment is a baseline, such as --mesh none: what each adds is unknown; they are compared with one another, " + compare.LevelText(run.File.Baseline[experiment.MeshFactor]) + " as the baseline",
			Hint:    "choose another with --baseline mesh=NAME"})
	}
	if meshes, changes := sequence(run); meshes > 1 && changes < meshes {
		ws = append(ws, figures.Warning{Code: "not-interleaved",
			Message: fmt.Sprintf("the treatments (%d) were measured one after another: every difference includes other changes over that time, and no interval covers them", meshes),
			Hint:    "interleave them in random order, as tare run does"})
	}
	return append(ws, figures.Warning{Code: "no-floor", Message: "the baseline was not measured twice: the noise is unknown",
		Hint: "import the same treatment twice, under two names, and compare them"})
}

// sequence counts the meshes, and how often one followed another in time.
func sequence(run *compare.Run) (meshes, changes int) {
	seen := map[string]bool{}
	last := ""
	for _, r := range slices.SortedFunc(slices.Values(run.Records), func(x, y result.Record) int { return x.Started.Compare(y.Started) }) {
		m := compare.LevelText(r.Factors[experiment.MeshFactor])
		if r.Started.IsZero() || r.Factors[experiment.MeshFactor] == nil {
			continue
		}
		if last != "" && m != last {
			changes++
		}
		seen[m], last = true, m
	}
	return len(seen), changes
}
