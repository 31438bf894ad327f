package live

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// clusterUsage is CPU and memory of a trial's cluster: of its nodes, of sums of tasks, and of components.
type clusterUsage struct {
	listed     map[string]mesh.Task
	nodes      map[string]*nodeUsage
	sums       []usage // as [sums]
	components map[component]*usage
}

// usage is CPU in cores and memory in MiB over time.
type usage struct{ cores, memory series }

type nodeUsage struct {
	usage
	capacity result.SampledNode
	last     result.NodeReading
}

// component is a workload's container with its replicas.
type component struct {
	plane metric.Plane
	name  string
}

// goneAfter is the age of a reading from which its task is taken for ended. Counters are refreshed every 20 s and faster.
const goneAfter = 45 * time.Second

// sums are the sums of tasks that a page of a cluster has, in their order. Those of the Great Sidecar Debate's screen come
// first.
var sums = []struct {
	name string
	has  func(mesh.Task) bool
	rare bool // shown only if it is used
}{
	{"application", inPlanes(metric.App), false},
	{"load", inPlanes(metric.Load), false},
	{"data plane", inPlanes(metric.Data), false},
	{"control plane", inPlanes(metric.Control), false},
	{"Kubernetes", func(t mesh.Task) bool { return t.Plane == metric.Platform && !isProviders(t) }, false},
	{"provider's own", func(t mesh.Task) bool { return t.Plane == metric.Platform && isProviders(t) }, false},
	{sumMesh, inPlanes(metric.Data, metric.Control), false},
	{sumTotal, inPlanes(metric.App, metric.Load, metric.Unattributed, metric.Data, metric.Control, metric.Platform), false},
	{"other workloads", inPlanes(metric.Foreign), true},
}

// Sums that ratios need.
const (
	sumData  = "data plane"
	sumMesh  = "mesh"
	sumTotal = "total"
)

func inPlanes(planes ...metric.Plane) func(mesh.Task) bool {
	return func(t mesh.Task) bool { return slices.Contains(planes, t.Plane) }
}

// isProviders reports whether a system task is the provider's own, such as gke-managed-system: not of Kubernetes.
func isProviders(t mesh.Task) bool { return !strings.HasPrefix(t.Namespace, "kube-") }

// series are the series of a usage that may be nil.
func (c *clusterUsage) series() (all []*series) {
	if c == nil {
		return nil
	}
	for i := range c.sums {
		all = append(all, &c.sums[i].cores, &c.sums[i].memory)
	}
	for _, n := range c.nodes {
		all = append(all, &n.cores, &n.memory)
	}
	for _, u := range c.components {
		all = append(all, &u.cores, &u.memory)
	}
	return all
}

// add folds a sample in. The tasks have its readings already.
func (c *clusterUsage) add(s *result.Sample, tasks map[string]*task, counts bool) {
	for _, t := range s.Listed {
		c.listed[t.ID] = t
	}
	for _, m := range s.Machines {
		c.node(m.Name).capacity = m
	}
	for name, r := range s.Nodes {
		n := c.node(name)
		if passed := r.At.Sub(n.last.At); counts && !n.last.At.IsZero() && passed > 0 && r.Busy >= n.last.Busy {
			n.cores.add(float64(r.Busy-n.last.Busy) / float64(passed))
			n.memory.add(float64(r.Memory) / mib)
		}
		n.last = r
	}
	if !counts || len(s.Tasks) == 0 {
		return
	}
	latest := time.Time{}
	for _, r := range s.Tasks {
		if r.At.After(latest) {
			latest = r.At
		}
	}
	sum, parts := make([][2]float64, len(sums)), map[component][2]float64{}
	known := false
	for id, of := range tasks {
		t, ok := c.listed[id]
		now := of.cores.now()
		if !ok || math.IsNaN(now) || latest.Sub(of.last.At) > goneAfter {
			continue
		}
		known = true
		memory := float64(of.last.RSS) / mib
		for i := range sums {
			if sums[i].has(t) {
				sum[i][0], sum[i][1] = sum[i][0]+now, sum[i][1]+memory
			}
		}
		p := parts[componentOf(t)]
		parts[componentOf(t)] = [2]float64{p[0] + now, p[1] + memory}
	}
	if !known { // the first reading of each task gives no CPU
		return
	}
	for i := range sum {
		c.sums[i].cores.add(sum[i][0])
		c.sums[i].memory.add(sum[i][1])
	}
	for of, v := range parts {
		u := c.components[of]
		if u == nil {
			u = &usage{}
			c.components[of] = u
		}
		u.cores.add(v[0])
		u.memory.add(v[1])
	}
}

func (c *clusterUsage) node(name string) *nodeUsage {
	if c.nodes[name] == nil {
		c.nodes[name] = &nodeUsage{}
	}
	return c.nodes[name]
}

const mib = 1 << 20

// componentOf is the component of a task. Replicas of a service, and pods of a workload, are one.
func componentOf(t mesh.Task) component {
	if t.Service != "" {
		return component{t.Plane, t.Service + "/" + t.Container}
	}
	name := figures.WorkloadOf(t)
	if t.Plane != metric.Foreign { // workloads of others may have the same names
		name = strings.TrimPrefix(name, t.Namespace+"/")
	}
	return component{t.Plane, name}
}

func (c *clusterUsage) sum(name string) *usage {
	for i := range sums {
		if sums[i].name == name {
			return &c.sums[i]
		}
	}
	return &usage{}
}

// clusterLines are the page of a cluster: the trial, nodes, sums beside the baseline's, and components. Before its first
// reading a trial has the figures of the trial before it.
func (d drawing) clusterLines(chosen *Trial) []string {
	t := lastRead(d.board, chosen, d.look.follow)
	if t == nil {
		return []string{"No sample of a cluster is here: the run is on one machine, or has no reading yet."}
	}
	c, base := t.cluster, d.board.baselineOf(t)
	lines := []string{d.trialState(t)}
	if t != chosen && chosen != nil {
		lines = []string{d.trialState(chosen), "no reading yet; figures of " + clean(t.ID)}
	}
	lines = append(lines, d.nodeLines(c)...)
	lines = append(lines, d.sumLines(c, base)...)
	if h := d.board.headline; h != nil {
		if of, ok := h.Of[t.Treatment]; ok {
			lines = append(lines, cut(fmt.Sprintf("so far, to the baseline: %s %s", h.Title, of.Text), d.look.width))
		}
	}
	return append(lines, d.componentLines(c, base)...)
}

// lastRead is a trial if it has readings of a cluster, else for a reader who follows the run the last one that has; nil if
// there is none.
func lastRead(b *Board, t *Trial, follow bool) *Trial {
	if t != nil && t.cluster != nil {
		return t
	}
	if follow {
		for _, last := range slices.Backward(b.detailed) {
			if last.cluster != nil {
				return last
			}
		}
	}
	return nil
}

// nodeLines are the nodes with their use as a share of what pods may have.
func (d drawing) nodeLines(c *clusterUsage) []string {
	lines := []string{d.heading(d.columned("NODE", "mcores", "of node", "(min – max)", "MiB", "of node", "(min – max)"))}
	if len(c.nodes) == 0 {
		return append(lines, " not read yet, or unreadable")
	}
	return append(lines, lists.Map(slices.Sorted(maps.Keys(c.nodes)), func(name string) string { return d.nodeLine(name, c.nodes[name]) })...)
}

// sumLines are the sums of tasks beside the sums of the baseline, and their ratios.
func (d drawing) sumLines(c, base *clusterUsage) (lines []string) {
	beside := "baseline"
	if base == nil {
		beside = ""
	}
	lines = append(lines, d.heading(d.columned("SUM", "mcores", beside, "(min – max)", "MiB", beside, "(min – max)")))
	for i, s := range sums {
		if !s.rare || c.sums[i].cores.max >= 0.0005 {
			lines = append(lines, d.usageLine(s.name, &c.sums[i], base.usageOf(s.name)))
		}
	}
	for _, r := range []struct{ name, of string }{{"mesh ratio", sumMesh}, {"data-plane ratio", sumData}} {
		lines = append(lines, d.ratioLine(r.name, r.of, c, base))
	}
	return lines
}

// columned is a line of the page: a name, CPU and what is beside it with its extremes, and the same of memory.
func (d drawing) columned(name, cpu, besideCPU, extremesCPU, memory, besideMemory, extremesMemory string) string {
	names := max(17, min(44, d.look.width-63))
	return padded(name, names) + onRight(cpu, 7) + onRight(besideCPU, 9) + onRight(extremesCPU, 15) + onRight(memory, 7) + onRight(besideMemory, 9) + onRight(extremesMemory, 15)
}

// trialState is the trial with its state and its last second of load.
func (d drawing) trialState(t *Trial) string {
	m := marks[t.Status]
	text := d.painter.colored(bold, clean(t.ID)) + "  " + d.painter.colored(m.color, m.shape+" "+t.Status.InWords())
	if t.Status == Running {
		text += "  " + t.Phase
	}
	if p := t.Last; p != nil {
		text += fmt.Sprintf("  %.0f req/s  %s  p50 %s ms", p.WhileLoaded(), count(t.Errors, "error"), ms(p.P50MS))
	}
	return text
}

func (d drawing) nodeLine(name string, n *nodeUsage) string {
	share := func(used float64, of *float64) string {
		if of == nil || *of <= 0 || math.IsNaN(used) {
			return "?"
		}
		return fmt.Sprintf("%.0f %%", 100*used / *of)
	}
	return d.columned(" "+clean(name), millicores(n.cores.now()), share(n.cores.now(), n.capacity.AllocatableCores), between(&n.cores, millicores),
		mebibytes(n.memory.now()), share(n.memory.now()*mib, n.capacity.AllocatableMemory), between(&n.memory, mebibytes))
}

// usageLine is a line of CPU and memory, with the means of the baseline beside them.
func (d drawing) usageLine(name string, u, base *usage) string {
	mean := func(s *series, text func(float64) string) string {
		if s.n == 0 {
			return ""
		}
		return text(s.mean())
	}
	return d.columned(" "+clean(name), millicores(u.cores.now()), mean(&base.cores, millicores), between(&u.cores, millicores),
		mebibytes(u.memory.now()), mean(&base.memory, mebibytes), between(&u.memory, mebibytes))
}

// ratioLine is a sum over the rest of the total, as the metrics mesh_ratio and data_plane_ratio.
func (d drawing) ratioLine(name, of string, c, base *clusterUsage) string {
	ratio := func(c *clusterUsage, value func(*series) float64, part func(*usage) *series) string {
		if c == nil {
			return ""
		}
		rest := value(part(c.sum(sumTotal))) - value(part(c.sum(sumMesh)))
		if r := value(part(c.sum(of))) / rest; rest > 0 && !math.IsNaN(r) {
			return fmt.Sprintf("%.3f", r)
		}
		return "?"
	}
	cores, memory := func(u *usage) *series { return &u.cores }, func(u *usage) *series { return &u.memory }
	return d.columned(" "+name, ratio(c, (*series).now, cores), ratio(base, (*series).mean, cores), "",
		ratio(c, (*series).now, memory), ratio(base, (*series).mean, memory), "")
}

// componentLines are the components of application and mesh, then of all others, with their replicas summed.
func (d drawing) componentLines(c, base *clusterUsage) (lines []string) {
	for _, section := range []struct {
		title  string
		planes []metric.Plane
	}{
		{"APPLICATION", []metric.Plane{metric.App, metric.Load}}, {"MESH", []metric.Plane{metric.Data, metric.Control}},
		{"OTHERS", []metric.Plane{metric.Platform, metric.Node, metric.Foreign, metric.Unattributed, metric.Harness}},
	} {
		var of []component
		for one := range c.components {
			if slices.Contains(section.planes, one.plane) {
				of = append(of, one)
			}
		}
		if len(of) == 0 {
			continue
		}
		slices.SortFunc(of, func(a, b component) int {
			return cmp.Or(cmp.Compare(slices.Index(section.planes, a.plane), slices.Index(section.planes, b.plane)), cmp.Compare(a.name, b.name))
		})
		lines = append(lines, d.heading(section.title))
		for _, one := range of {
			beside := &usage{}
			if base != nil && base.components[one] != nil {
				beside = base.components[one]
			}
			lines = append(lines, d.usageLine(one.name, c.components[one], beside))
		}
	}
	return lines
}

// baselineOf is the usage of the baseline of a trial, in its block or in the last one before it; nil if there is none.
func (b *Board) baselineOf(t *Trial) *clusterUsage {
	for _, of := range b.plan.Treatments {
		if of.ID != t.Treatment || of.Baseline == "" {
			continue
		}
		for block := t.Block; block > 0; block-- {
			if base := b.grid[cell{of.Baseline, block}]; base != nil && base.cluster != nil {
				return base.cluster
			}
		}
	}
	return nil
}

// usageOf is the sum of a name, zero without a cluster.
func (c *clusterUsage) usageOf(name string) *usage {
	if c == nil {
		return &usage{}
	}
	return c.sum(name)
}

// between are the extremes of a series: "(12 – 34)".
func between(s *series, text func(float64) string) string {
	if s.n == 0 {
		return ""
	}
	return "(" + text(s.min) + " – " + text(s.max) + ")"
}

func millicores(v float64) string {
	if math.IsNaN(v) {
		return "?"
	}
	if v != 0 && v < 0.0995 {
		return fmt.Sprintf("%.1f", 1000*v)
	}
	return fmt.Sprintf("%.0f", 1000*v)
}

func mebibytes(v float64) string {
	if math.IsNaN(v) {
		return "?"
	}
	return fmt.Sprintf("%.0f", v)
}
