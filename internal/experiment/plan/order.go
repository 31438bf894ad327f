package plan

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
)

// ByMesh is [Plan.Order] of experiments with order by-mesh.
const ByMesh = "turns"

// keepTogether makes the trials of a mesh consecutive, if the experiment's order requires it. Meshes keep the order of
// their first trials in the block or run, and trials of a mesh keep their order. Both are random, as in the blocks.
func (p *Plan) keepTogether(order string) {
	if order != experiment.OrderByMesh && order != experiment.OrderOnce {
		return
	}
	if p.Order = order; order == experiment.OrderByMesh {
		p.Order = ByMesh
	}
	mesh := map[string]string{}
	for _, t := range p.Treatments {
		mesh[t.ID] = t.Levels.Mesh
	}
	type turn struct {
		block int
		mesh  string
	}
	batch(p, func(t Trial) turn {
		if order == experiment.OrderOnce {
			return turn{mesh: mesh[t.Treatment]}
		}
		return turn{t.Block, mesh[t.Treatment]}
	})
}

// batch makes the trials of equal keys consecutive, in the order of their first trials.
func batch[K comparable](p *Plan, of func(Trial) K) {
	var keys []K
	trials := map[K][]Trial{}
	for _, t := range p.Trials {
		keys = lists.Add(keys, of(t))
		trials[of(t)] = append(trials[of(t)], t)
	}
	p.Trials = p.Trials[:0]
	for _, key := range keys {
		p.Trials = append(p.Trials, trials[key]...)
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

// StopsAtWidth reports whether the number of blocks depends on the width of an interval.
func (p *Plan) StopsAtWidth() bool { return p.Until != "" && p.Until != experiment.UntilValid }

// ByID returns the treatments by their IDs.
func (p *Plan) ByID() map[string]Treatment {
	all := map[string]Treatment{}
	for _, t := range p.Treatments {
		all[t.ID] = t
	}
	return all
}

// Needed is the number of trials without repetitions.
func (p *Plan) Needed() int {
	if p.Until != experiment.UntilValid || p.Blocks == 0 {
		return len(p.Trials)
	}
	return len(p.Trials) / p.Blocks * p.MinBlocks
}
