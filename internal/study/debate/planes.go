package debate

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/importer"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// aggregates are the debate's complete sums and their planes. "iperf" is another
// kind of load. "gke" and "k8s" are shared tasks of the platform.
var aggregates = []struct {
	what  string
	plane metric.Plane
}{
	{"faces", metric.App},
	{"data-plane", metric.Data},
	{"control-plane", metric.Control},
	{"k8s", metric.Platform},
	{"gke", metric.Platform},
	{"load", metric.Load},
	{"iperf", metric.Load},
	// Usage that the debate's own classifier could not place has no column: it is
	// the part of non-mesh outside the others.
	{unplaced, metric.Unattributed},
}

const unplaced = "unknown"

// identities are sums that hold in every row of the debate's tool. A row that
// breaks one was damaged, or combined from two.
var identities = []struct {
	sum   string
	parts []string
}{
	{"mesh", []string{"data-plane", "control-plane"}},
	{"overhead", []string{"gke", "k8s"}},
	{"business", []string{"mesh", "non-mesh"}},
	{"total", []string{"business", "overhead"}},
}

// derived columns are only sums of others.
var derived = map[string]bool{"mesh": true, "non-mesh": true, "business": true, "overhead": true, "total": true}

// loadPods are the pod names of load generators.
var loadPods = map[string]bool{"load": true, "wrk2": true, "oha": true}

// roles of the data plane's components that are not sidecars.
var roles = map[string]string{"ztunnel": "node-proxy", "waypoint": "waypoint", "istio-ingressgateway": "gateway"}

// component is a CPU column that is part of an aggregate, and its memory column.
type component struct {
	aggregate int // among the aggregates
	task      mesh.Task
	cpu, mem  int
}

// part is one future task: its columns, and its first and last row.
type part struct {
	task        mesh.Task
	cpu, mem    int // columns
	first, last int // rows with the component
}

// group is an aggregate and its known components.
type group struct {
	what     string
	plane    metric.Plane
	cpu, mem int
	parts    []part
	// rest is the part of the aggregate beyond its components.
	restCPU, restMem []*float64
	hasRest          bool
}

// planes converts a table into tasks that add up to its aggregates.
func (t *table) planes() (*result.Sampled, []string, error) {
	if err := t.checkIdentities(); err != nil {
		return nil, nil, err
	}
	if err := t.checkNodes(); err != nil {
		return nil, nil, err
	}
	groups := t.groups()
	for i := range groups {
		if err := t.fill(&groups[i]); err != nil {
			return nil, nil, err
		}
	}
	return t.sampled(groups), t.strange, nil
}

func (t *table) checkIdentities() error {
	for _, id := range identities {
		for _, q := range []string{"cpu", "mem"} {
			sum := t.columnOf(id.sum, q)
			parts := lists.Map(id.parts, func(p string) int { return t.columnOf(p, q) })
			for _, r := range t.rows {
				if !r.has(sum) {
					continue
				}
				added := lists.Sum(parts, r.value)
				if math.Abs(added-r.value(sum)) > slack(added)+slack(r.value(sum)) {
					return &importer.FileError{Path: t.path, Line: r.line, Hinted: hint.Hinted{Err: fmt.Errorf("%s %s is %g, and %s add up to %g", id.sum, q, r.value(sum), strings.Join(id.parts, " and "), added), Text: "the row was damaged, or its columns do not belong together: restore the file, or leave this run out"}}
				}
			}
		}
	}
	return nil
}

// checkNodes compares the sums by node with the sums by kind: the tool adds up
// the same pods. If they differ in every row, they are readings of whole nodes, as
// tare exports them.
func (t *table) checkNodes() error {
	nodes := t.nodes()
	for _, q := range []string{"cpu", "mem"} {
		total := t.columnOf("total", q)
		var odd *tableRow
		var oddSum float64
		equal := 0
		for i, r := range t.rows {
			sum, all := 0.0, len(nodes) > 0 && r.has(total)
			for _, n := range nodes {
				i := t.columnOf(n, q)
				all = all && r.has(i)
				sum += r.value(i)
			}
			switch {
			case !all:
			case math.Abs(sum-r.value(total)) <= 4*slack(sum):
				equal++
			case odd == nil:
				odd, oddSum = &t.rows[i], sum
			}
		}
		if odd != nil && equal > 0 {
			return &importer.FileError{Path: t.path, Line: odd.line, Hinted: hint.Hinted{Err: fmt.Errorf("the nodes' %s adds up to %g, and the total is %g", q, oddSum, odd.value(total)), Text: "the row was damaged, or its columns do not belong together: restore the file, or leave this run out"}}
		}
	}
	return nil
}

// sort separates the components from unknown columns.
func (h *heading) sort() {
	at := map[string]int{}
	for i, a := range aggregates {
		at[a.what] = i
	}
	nodes := lists.Set(h.nodes(), func(name string) string { return name })
	for _, c := range h.columns {
		if c.quantity == "" {
			h.strange = append(h.strange, c.what)
		}
		if _, known := at[c.what]; known || derived[c.what] || nodes[c.what] || c.quantity != "cpu" {
			continue
		}
		aggregate, task, ok := componentOf(c.what)
		if !ok {
			h.strange = append(h.strange, c.what)
			continue
		}
		task.Plane = aggregates[at[aggregate]].plane
		h.components = append(h.components, component{at[aggregate], task, h.columnOf(c.what, "cpu"), h.columnOf(c.what, "mem")})
	}
}

// componentOf returns the aggregate and the task of a component's column.
func componentOf(what string) (aggregate string, task mesh.Task, ok bool) {
	if pod, is := strings.CutSuffix(what, " app"); is {
		aggregate = "faces"
		switch {
		case loadPods[pod]:
			aggregate = "load"
		case strings.HasPrefix(pod, "iperf"):
			aggregate = "iperf"
		}
		return aggregate, mesh.Task{ID: pod + "/app", Pod: pod, Service: pod, Container: "app"}, true
	}
	pod, is := strings.CutSuffix(what, " mesh")
	if !is {
		return "", mesh.Task{}, false
	}
	task = mesh.Task{ID: pod + "/mesh", Pod: pod, Service: pod, Container: "mesh"}
	if isControl(pod) {
		return "control-plane", task, true
	}
	task.Role = "sidecar"
	if role, special := roles[pod]; special {
		task.Role = role
	}
	if loadPods[pod] {
		task.Component = "load"
	}
	return "data-plane", task, true
}

// isControl reports whether a pod's "mesh" containers belong to the control
// plane.
func isControl(pod string) bool { return pod == "istiod" || strings.HasPrefix(pod, "linkerd-") }

// groups returns the aggregates with all components that occur.
func (t *table) groups() []group {
	groups := make([]group, 0, len(aggregates))
	for _, a := range aggregates {
		groups = append(groups, group{what: a.what, plane: a.plane, cpu: t.columnOf(a.what, "cpu"), mem: t.columnOf(a.what, "mem")})
	}
	for _, c := range t.components {
		p := part{task: c.task, cpu: c.cpu, mem: c.mem}
		if t.life(&p) {
			g := &groups[c.aggregate]
			g.parts = append(g.parts, p)
		}
	}
	return groups
}

// nodes returns the machines of the newer header, in its order.
func (h *heading) nodes() []string {
	machines := lists.Where(h.columns, func(c column) bool { return c.quantity == "allocatable cpu" })
	return lists.Map(machines, func(c column) string { return c.what })
}

// life finds the first and last row with the component. It returns false if there is none.
func (t *table) life(p *part) bool {
	p.first = -1
	for i, r := range t.rows {
		if !p.there(r) {
			continue
		}
		if p.first < 0 {
			p.first = i
		}
		p.last = i
	}
	return p.first >= 0
}

// there reports whether the row has the component. The tool leaves a cell empty
// before it first sees one, and writes zeros when it no longer does. A running
// component always has memory.
func (p *part) there(r tableRow) bool {
	if p.mem >= 0 {
		return r.has(p.mem) && r.value(p.mem) > 0
	}
	return r.has(p.cpu) && r.value(p.cpu) > 0
}

// fill computes the part of the aggregate beyond its parts, and checks that it
// is not negative.
func (t *table) fill(g *group) error {
	g.restCPU, g.restMem = make([]*float64, len(t.rows)), make([]*float64, len(t.rows))
	for _, q := range []struct {
		name      string
		aggregate int
		of        func(part) int
		rest      []*float64
	}{
		{"cpu", g.cpu, func(p part) int { return p.cpu }, g.restCPU},
		{"mem", g.mem, func(p part) int { return p.mem }, g.restMem},
	} {
		sums := t.sumsOf(g, q.name, q.aggregate)
		for i, r := range t.rows {
			sum, ok := sums.valueIn(r)
			if !ok {
				continue
			}
			rest := sum
			for _, p := range g.parts {
				rest -= r.value(q.of(p))
			}
			if rest < -slack(sum)*float64(1+len(g.parts)) {
				return &importer.FileError{Path: t.path, Line: r.line, Hinted: hint.Hinted{Err: fmt.Errorf("the components of %s add up to %g %s more than it", g.what, -rest, q.name), Text: "the row was damaged, or its columns do not belong together: restore the file, or leave this run out"}}
			}
			if rest <= slack(sum)*float64(1+len(g.parts)) {
				rest = 0
			}
			g.hasRest = g.hasRest || rest > 0
			q.rest[i] = &rest
		}
	}
	return nil
}

// sums is the source of a group's sum: its own column, or else the part of
// non-mesh beyond its parts.
type sums struct {
	own, total int // columns
	unplaced   bool
	nonMesh    int
	parts      []int
}

func (t *table) sumsOf(g *group, q string, column int) sums {
	s := sums{own: column, total: t.columnOf("total", q), unplaced: g.what == unplaced}
	if s.unplaced {
		s.nonMesh, s.parts = t.columnOf("non-mesh", q), []int{t.columnOf("faces", q), t.columnOf("load", q), t.columnOf("iperf", q)}
	}
	return s
}

// valueIn returns the group's sum in a row. An empty cell is 0 if the row has a
// total: the identities hold without the cell, and the part of non-mesh beyond
// its parts is unplaced. Without a total it is unknown.
func (s *sums) valueIn(r tableRow) (float64, bool) {
	total := r.has(s.total)
	if !s.unplaced {
		return r.value(s.own), r.has(s.own) || total
	}
	if !r.has(s.nonMesh) {
		return 0, total
	}
	rest := r.value(s.nonMesh)
	for _, part := range s.parts {
		rest -= r.value(part)
	}
	if math.Abs(rest) <= 4*slack(r.value(s.nonMesh)) {
		rest = 0
	}
	return rest, true
}

// slack is the tolerance for rounded sums: the tool adds whole nanocores, others
// may not.
func slack(sum float64) float64 { return 1e-9*math.Abs(sum) + 2e-9 }

// value returns the value of a cell. An absent cell counts as 0.
func (r tableRow) value(column int) float64 {
	if column < 0 || r.cells[column] == nil {
		return 0
	}
	return *r.cells[column]
}

func (r tableRow) has(column int) bool { return column >= 0 && r.cells[column] != nil }

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
