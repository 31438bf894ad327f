package debate

import (
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
