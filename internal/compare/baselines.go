package compare

import (
	"maps"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
)

// imported is the platform of results that another tool measured.
const ImportPlatform = "import"

// methodFor is the requested method, or the one that suits the run.
func methodFor(run *Run, requested Method) (Method, error) {
	foreign := run.File.Platform.Kind == ImportPlatform
	switch {
	case requested == "" && (foreign || run.Plan.Order == experiment.OrderOnce):
		return Unpaired, nil
	case requested == "":
		return Paired, nil
	case !slices.Contains(Methods(), requested):
		return "", hint.New("methods: paired, unpaired, as-published", "unknown method %q", requested)
	case requested == Paired && foreign:
		return "", hint.New("leave the method out, or use unpaired", "imported runs were not interleaved: nothing pairs within blocks")
	case requested == AsPublished && !slices.ContainsFunc(run.Records, figures.IsSampled):
		return "", hint.New("leave the method out", "as-published needs imported results with sampled figures, and there are none")
	}
	return requested, nil
}

const (
	// Unpaired compares means of runs that were not interleaved.
	Unpaired Method = "unpaired"
	// AsPublished reduces sampled figures by the method of the project that published
	// them. Like that project, it gives no intervals and no comparisons.
	AsPublished Method = "as-published"
)

// Methods lists what [Options.Method] may be.
func Methods() []Method { return []Method{Paired, Unpaired, AsPublished} }

// settleBaselines makes the requested levels the baseline. Imported results
// without one are compared with the first mesh they name, so that something can
// be compared. A warning reports that this mesh is not a chosen baseline.
func settleBaselines(run *Run, requested map[string]string) error {
	if len(requested) == 0 {
		if run.File.Platform.Kind != ImportPlatform || slices.ContainsFunc(run.Plan.Treatments, func(t plan.Treatment) bool { return t.Baseline != "" }) {
			return nil
		}
		first, several := firstMesh(run)
		if !several {
			return nil
		}
		run.Assumed, requested = true, map[string]string{experiment.MeshFactor: first}
	}
	run.Plan.Treatments = slices.Clone(run.Plan.Treatments)
	found := false
	for i := range run.Plan.Treatments {
		t := &run.Plan.Treatments[i]
		if t.Control {
			continue
		}
		t.Baseline = ""
		for _, b := range run.Plan.Treatments {
			if !b.Control && b.ID != t.ID && levelsAre(b.Factors, requested) && equalBut(t.Factors, b.Factors, requested) {
				t.Baseline, found = b.ID, true
			}
		}
	}
	if !found {
		return hint.New("levels: "+run.levels(requested), "no treatment has the baseline %s and another treatment to compare", levelList(requested))
	}
	run.File.Baseline = map[string]any{}
	for _, t := range run.Plan.Treatments {
		if levelsAre(t.Factors, requested) {
			for f := range requested {
				run.File.Baseline[f] = t.Factors[f]
			}
		}
	}
	return nil
}

func firstMesh(run *Run) (first string, several bool) {
	for _, t := range run.Plan.Treatments {
		switch m, ok := t.Factors[experiment.MeshFactor].(string); {
		case ok && first == "":
			first = m
		case ok && m != first:
			several = true
		}
	}
	return first, several
}

// levels lists the levels of the factors of requested.
func (run *Run) levels(requested map[string]string) string {
	var s []string
	for _, f := range slices.Sorted(maps.Keys(requested)) {
		for _, t := range run.Plan.Treatments {
			if v, ok := t.Factors[f]; ok && !slices.Contains(s, f+"="+LevelText(v)) {
				s = append(s, f+"="+LevelText(v))
			}
		}
	}
	if s == nil {
		return "none of these factors is in the results"
	}
	return strings.Join(s, ", ")
}
