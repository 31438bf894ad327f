package cli

import (
	"cmp"
	"fmt"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/run/meter"
)

// chooseOrder is the order of a file with neither seed nor order: interleaved where nothing forbids it.
func (s *Study) chooseOrder(e *experiment.Experiment) string {
	s.notInterleaved = e.NotInterleaved()
	if p, err := plan.Expand(e); err == nil {
		s.notInterleaved = cmp.Or(s.notInterleaved, p.NotInterleaved(), tooLarge(e, p, meter.AvailableMemory()))
	}
	if s.notInterleaved != "" {
		return experiment.OrderBalanced
	}
	return experiment.OrderInterleaved
}

// Memory of the processes of a deployment, bytes, as a guess before anything is deployed: that of Envoy
// and of tare-agent under some load. The runner checks the real memory before each further deployment.
const (
	appMemory     = 24 << 20
	sidecarMemory = 48 << 20
	controlMemory = 160 << 20
	loadMemory    = 48 << 20
)

// tooLarge returns why the treatments of a comparison do not fit into memory at once: half of the free
// memory must be enough. free is 0 if it is unknown.
func tooLarge(e *experiment.Experiment, p *plan.Plan, free int64) string {
	for _, treatments := range p.AtOnce() {
		var need int64
		for _, t := range treatments {
			need += memoryOf(e, t.Levels)
		}
		if free > 0 && need > free/2 {
			return fmt.Sprintf("%d treatments at once need about %d MiB of memory, more than half of the free %d MiB", len(treatments), need>>20, free>>20)
		}
	}
	return ""
}

// memoryOf is the guessed memory of one deployment.
func memoryOf(e *experiment.Experiment, l experiment.Levels) int64 {
	topology, err := e.TopologyOf(l)
	if err != nil {
		return 0
	}
	pods := 0
	for _, service := range topology.Services {
		pods += cmp.Or(service.Replicas, l.Replicas)
	}
	need := int64(loadMemory) + int64(pods)*appMemory
	if l.Mesh != "none" {
		need += controlMemory + int64(pods+1)*sidecarMemory
	}
	return need
}

// orderWords are the order of the trials, and why they are not interleaved.
func (s *Study) orderWords() string {
	words := orderWords[s.Plan.Order]
	if words == "" {
		return ""
	}
	words = fmt.Sprintf("order %s: %s", s.Experiment.Order, words)
	if s.notInterleaved != "" {
		words += "\nnot interleaved: " + s.notInterleaved
	}
	return words
}
