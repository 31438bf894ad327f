package analysis

import "github.com/tare-mesh/tare/internal/experiment"

// together warns of an order of trials that is not random.
func (d *run) together() []Warning {
	switch d.plan.Order {
	case experiment.OrderOnce:
		return []Warning{{Code: "meshes-once", Metrics: nil,
			Message: "each mesh was put in once, and all its trials stand together: what changed with time is part of every difference between meshes, and no interval holds it",
			Hint:    "order: turns has every mesh in each block"}}
	case experiment.OrderTurns:
		return []Warning{{Code: "meshes-in-turns",
			Message: "within a block the trials of a mesh stand together, those of the A/A pair too: the noise floor does not hold what differs from one mesh's turn to the next",
			Hint:    "order: random has all trials of a block in random order"}}
	}
	return nil
}
