package session

import (
	"cmp"
	"fmt"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/run/meter"
)

// chooseOrder returns the order of a file with neither seed nor order: interleaved where nothing forbids it.
func (s *Study) chooseOrder() string {
	s.NotInterleaved = s.Experiment.NotInterleaved()
	if p, err := plan.Expand(s.Experiment); err == nil {
		s.NotInterleaved = cmp.Or(s.NotInterleaved, p.NotInterleaved(), tooLarge(s.Experiment, p, meter.AvailableMemory()))
	}
	if s.NotInterleaved != "" {
		return experiment.OrderBalanced
	}
	return experiment.OrderInterleaved
}

// Memory of the processes of a deployment, bytes, estimated before anything is deployed: the memory of Envoy
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
		need := lists.Sum(treatments, func(t plan.Treatment) int64 { return memoryOf(e, t.Levels) })
		if free > 0 && need > free/2 {
			return fmt.Sprintf("%d treatments at once need about %d MiB of memory, more than half of the free %d MiB", len(treatments), need>>20, free>>20)
		}
	}
	return ""
}

// memoryOf estimates the memory of one deployment, bytes.
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
