package plan

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment"
)

// keepTogether makes the trials of a mesh consecutive, if the experiment's order requires it. Meshes keep the order of
// their first trials in the block or run, and trials of a mesh keep their order. Both are random, as in the blocks.
func (p *Plan) keepTogether(order string) {
	if order != experiment.OrderTurns && order != experiment.OrderOnce {
		return
	}
	p.Order = order
	mesh := map[string]string{}
	for _, t := range p.Treatments {
		mesh[t.ID] = t.Levels.Mesh
	}
	type turn struct {
		block int
		mesh  string
	}
	of := func(t Trial) turn {
		if order == experiment.OrderOnce {
			return turn{mesh: mesh[t.Treatment]}
		}
		return turn{t.Block, mesh[t.Treatment]}
	}
	var turns []turn
	trials := map[turn][]Trial{}
	for _, t := range p.Trials {
		if !slices.Contains(turns, of(t)) {
			turns = append(turns, of(t))
		}
		trials[of(t)] = append(trials[of(t)], t)
	}
	p.Trials = p.Trials[:0]
	for _, turn := range turns {
		p.Trials = append(p.Trials, trials[turn]...)
	}
	for i := range p.Trials {
		t := &p.Trials[i]
		t.Ordinal = i + 1
		t.ID = trialID(t.Ordinal, t.Treatment, t.Block)
	}
}

func trialID(ordinal int, treatment string, block int) string {
	return fmt.Sprintf("%03d-%s-b%d", ordinal, treatment, block)
}
