package debate

import (
	"math"
	"strconv"

	"github.com/tare-mesh/tare/internal/result"
)

// node is a node in the debate's CSV: four columns of usage and allocatable
// resources.
type node struct {
	name          string
	cores, memory *float64 // allocatable, cores and bytes, nil if unknown
}

// nodeSample is the usage of a node in one interval, or nil if unknown.
type nodeSample struct{ cores, bytes *float64 }

// nodesOf returns the nodes of a trial on a cluster, in the order of the record.
func nodesOf(record *result.Record) (nodes []node) {
	if record.Sampled != nil {
		for _, n := range record.Sampled.Nodes {
			nodes = append(nodes, node{n.Name, n.AllocatableCores, n.AllocatableMemory})
		}
		return nodes
	}
	if record.Node == nil {
		return nil
	}
	for _, n := range record.Node.Nodes {
		cores, memory := n.AllocatableCPU, float64(n.AllocatableMemory)
		nodes = append(nodes, node{n.Name, &cores, &memory})
	}
	return nodes
}

func (n node) columns() []string {
	return []string{n.name + " CPU", n.name + " allocatable CPU", n.name + " mem", n.name + " allocatable mem"}
}

func (n node) cells(used nodeSample) []string {
	return []string{wholeCell(used.cores, 1e9), wholeCell(n.cores, 1e9), wholeCell(used.bytes, 1), wholeCell(n.memory, 1)}
}

func wholeCell(v *float64, scale float64) string {
	if v == nil {
		return ""
	}
	return roundedText(*v * scale)
}

func roundedText(v float64) string { return strconv.FormatInt(int64(math.Round(v)), 10) }

// addNodes adds the nodes refreshed in a sample.
func (l *looks) addNodes(now map[string]result.NodeReading) {
	for name, r := range now {
		l.nodes[name] = [2]result.NodeReading{l.nodes[name][1], r}
	}
}

// nodeSamples returns the usage of each node between its last two refreshes.
func (l *looks) nodeSamples() map[string]nodeSample {
	samples := map[string]nodeSample{}
	for name, two := range l.nodes {
		was, is := two[0], two[1]
		var s nodeSample
		if wall := is.At.Sub(was.At); !was.At.IsZero() && wall > 0 && is.Busy >= was.Busy {
			cores := float64(is.Busy-was.Busy) / float64(wall)
			s.cores = &cores
		}
		if is.Memory > 0 {
			bytes := float64(is.Memory)
			s.bytes = &bytes
		}
		samples[name] = s
	}
	return samples
}

func nodesAt(record *result.Record, edge func(result.MachineUsage) result.NodeReading) map[string]result.NodeReading {
	at := map[string]result.NodeReading{}
	if record.Node != nil {
		for _, u := range record.Node.Nodes {
			at[u.Name] = edge(u)
		}
	}
	return at
}

func importedNodes(x *result.Sampled, row result.SampledRow) map[string]nodeSample {
	samples := map[string]nodeSample{}
	for i, n := range x.Nodes {
		var s nodeSample
		if i < len(row.NodeCores) {
			s.cores = row.NodeCores[i]
		}
		if i < len(row.NodeMemory) {
			s.bytes = row.NodeMemory[i]
		}
		samples[n.Name] = s
	}
	return samples
}
