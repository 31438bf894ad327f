package debate

import (
	"math"
	"strconv"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
)

const metricsAPI = "Kubernetes Metrics API"

// sampled converts the groups into tasks and rows.
func (t *table) sampled(groups []group) *result.Sampled {
	s := &result.Sampled{Source: metricsAPI}
	for _, g := range groups {
		for _, p := range g.parts {
			s.Tasks = append(s.Tasks, p.task)
		}
		if g.rested() {
			s.Tasks = append(s.Tasks, mesh.Task{ID: g.what, Container: g.what, Plane: g.plane, Role: result.RoleRemainder})
		}
	}
	nodes := t.nodes()
	for _, n := range nodes {
		s.Nodes = append(s.Nodes, t.node(n))
	}
	for i, r := range t.rows {
		row := result.SampledRow{At: r.at, Cores: make([]*float64, 0, len(s.Tasks)), Memory: make([]*float64, 0, len(s.Tasks))}
		for _, g := range groups {
			for _, p := range g.parts {
				cpu, mem := p.cells(i, r)
				row.Cores, row.Memory = append(row.Cores, cpu), append(row.Memory, mem)
			}
			if g.rested() {
				row.Cores, row.Memory = append(row.Cores, g.restCPU[i]), append(row.Memory, g.restMem[i])
			}
		}
		for _, n := range nodes {
			row.NodeCores = append(row.NodeCores, r.cell(t.columnOf(n, "cpu")))
			row.NodeMemory = append(row.NodeMemory, r.cell(t.columnOf(n, "mem")))
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

// rested reports whether the group needs a task for the part beyond its
// components. A group without components always has one, so that an empty plane
// is known to be zero.
func (g *group) rested() bool { return g.hasRest || len(g.parts) == 0 }

func (t *table) node(name string) result.SampledNode {
	n := result.SampledNode{Name: name}
	for _, r := range t.rows {
		if v := r.cell(t.columnOf(name, "allocatable cpu")); v != nil {
			n.AllocatableCores = v
		}
		if v := r.cell(t.columnOf(name, "allocatable mem")); v != nil {
			n.AllocatableMemory = v
		}
	}
	return n
}

var nothing = new(float64)

// cells returns the component's cells in row i. Before its first and after its
// last row it used nothing. A gap between them is unknown.
func (p *part) cells(i int, r tableRow) (cpu, mem *float64) {
	switch {
	case i < p.first || i > p.last:
		return nothing, nothing
	case !p.there(r):
		return nil, nil
	}
	return r.cell(p.cpu), r.cell(p.mem)
}

func (r tableRow) cell(column int) *float64 {
	if column < 0 {
		return nil
	}
	return r.cells[column]
}

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
			s.cores = new(float64(is.Busy-was.Busy) / float64(wall))
		}
		if is.Memory > 0 {
			s.bytes = new(float64(is.Memory))
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
