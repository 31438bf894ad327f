package analysis

import "github.com/tare-mesh/tare/internal/experiment"

// orderWarnings warns of a nonrandom order of trials.
func (d *run) orderWarnings() []Warning {
	switch d.plan.Order {
	case experiment.OrderOnce:
		return []Warning{{Code: "meshes-once", Metrics: nil,
			Message: "each mesh was installed once and all its trials ran together: changes over time are part of every difference between meshes, and of no interval",
			Hint:    "order: turns runs every mesh in each block"}}
	case experiment.OrderTurns:
		return []Warning{{Code: "meshes-in-turns",
			Message: "within a block the trials of a mesh run together, those of the A/A pair too: the noise floor does not include differences between mesh batches",
			Hint:    "order: random runs all trials of a block in random order"}}
	}
	return nil
}
