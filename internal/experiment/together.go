package experiment

import (
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// loadedTogether lists what treatments loaded at once cannot have. They compete for processors and caches at
// a part of the rate, so that only ratios of like treatments have a meaning.
var loadedTogether = append([]obstacle{
	{func(e *Experiment) bool { return e.Platform.Kind != mesh.OnLocal },
		"only platform local loads several treatments at once", "write order: interleaved"},
	{func(e *Experiment) bool { return e.Baseline == nil },
		"ratios need a baseline", "write one, such as baseline: {mesh: envoy}"},
	{(*Experiment).noneBesideMesh,
		"mesh none is not like a mesh: both are loaded at once, and the mesh would slow down the trial without one", "write order: interleaved, or a mesh as the baseline"},
	{func(e *Experiment) bool { return e.Baseline["topology"] != nil || e.Baseline["replicas"] != nil },
		"different applications are not alike", "write order: interleaved"},
	{shared,
		"all treatments share a program that already runs, and its CPU would count in full for each", "give application.command instead of url, or write order: interleaved"},
	{func(e *Experiment) bool { return e.Reference },
		"standard weights are of costs, and there are only ratios", "remove reference, or write order: interleaved"},
	{func(e *Experiment) bool { return e.Ladder },
		"the steps of a ladder add up as costs, and there are only ratios", "remove ladder, or write order: interleaved"},
	{func(e *Experiment) bool { return e.Blocks.Until != nil },
		"until is about the interval of a difference, and there are only ratios", "write a number of blocks"},
	{func(e *Experiment) bool {
		return slices.ContainsFunc(e.Decide.Gates, func(g string) bool { return !strings.HasSuffix(strings.TrimSpace(g), "%") })
	}, "a gate has a limit in a unit, and there are only ratios", "write limits in percent, or order: interleaved"},
}, sharing...)

// noneBesideMesh reports whether the trials without a mesh are compared with others.
func (e *Experiment) noneBesideMesh() bool {
	all := e.meshes()
	return len(all) > 1 && slices.Contains(all, "none")
}

// shared reports whether a service is a running program, which tare does not start once for each treatment.
func shared(e *Experiment) bool {
	all, _ := e.Topologies() // an unknown one is reported elsewhere
	return slices.ContainsFunc(all, func(t app.Topology) bool {
		return slices.ContainsFunc(t.Services, func(s app.Service) bool { return s.URL != "" })
	})
}

// together checks order together.
func (v scheduleRules) together() {
	if v.e.Order != OrderTogether {
		return
	}
	if why, hint := refusal(v.e, loadedTogether); why != "" {
		v.report("order", hint, "the treatments cannot be loaded at once: %s", why)
	}
}
