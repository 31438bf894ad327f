package answer

import (
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
)

// orderWarnings warns of a nonrandom order of trials.
func orderWarnings(run *compare.Run) []figures.Warning {
	switch run.Plan.Order {
	case experiment.OrderOnce:
		return []figures.Warning{{Code: "meshes-once", Metrics: nil,
			Message: "each mesh was installed once and all its trials ran together: every difference between meshes includes changes over time, and no interval covers them",
			Hint:    "order: by-mesh runs every mesh in each block"}}
	case plan.ByMesh:
		return []figures.Warning{{Code: "meshes-in-turns",
			Message: "within a block the trials of a mesh run together: the noise does not include differences between mesh batches",
			Hint:    "order: random runs all trials of a block in random order"}}
	}
	return nil
}
