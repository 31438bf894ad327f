package report

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// namespaceUse is the use of a namespace at the readings of all measure phases of a treatment.
type namespaceUse struct{ cpu, memory []float64 }

// writeNamespaces writes the use of each namespace, as `kubectl top` would show it: minimum, mean and maximum over the
// readings of the measure phase. It writes nothing of a run without namespaces.
func writeNamespaces(w io.Writer, a answer.Analysis) error {
	r := a.Report
	uses, err := namespaceUses(a.Dir)
	if err != nil || len(uses) == 0 {
		return err
	}
	var b bytes.Buffer
	b.WriteString("\nUse of each namespace in the measure phases of valid trials\n\n")
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "TREATMENT\tNAMESPACE\tCPU MIN\tMEAN\tMAX (millicores)\tMEMORY MIN\tMEAN\tMAX (MiB)\tREADINGS")
	for i := range r.Treatments {
		id := r.Treatments[i].ID
		for _, name := range slices.SortedFunc(maps.Keys(uses[id]), totalLast) {
			u := uses[id][name]
			fmt.Fprintf(tw, "%s\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\n", id, name, slices.Min(u.cpu), stats.Mean(u.cpu), slices.Max(u.cpu),
				slices.Min(u.memory), stats.Mean(u.memory), slices.Max(u.memory), len(u.cpu))
		}
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write the use of namespaces: %w", err)
	}
	b.WriteString("\napplication: the namespace of each trial, with its sidecars; load: the load with its own; gateway: the ingress gateway of each trial. " +
		"A node's own processes are under \"nodes\", and not in TOTAL.\n")
	_, err = io.WriteString(w, printable.Text(b.String()))
	return err
}

// total is the sum of all namespaces. No namespace has a name in capitals.
const total = "TOTAL"

// nodes has the processes of nodes outside pods.
const nodes = "nodes"

func totalLast(a, b string) int {
	if a == total || b == total {
		return cmp.Compare(b, a) // capitals are less
	}
	return cmp.Compare(a, b)
}

func namespaceUses(d *result.Dir) (map[string]map[string]*namespaceUse, error) {
	records, err := d.Records()
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]*namespaceUse{}
	for i := range records {
		r := &records[i]
		if !r.Valid || r.Error != "" || !slices.ContainsFunc(r.Tasks, func(t result.TaskUsage) bool { return t.Namespace != "" }) {
			continue
		}
		if all[r.Treatment] == nil {
			all[r.Treatment] = map[string]*namespaceUse{}
		}
		if err := addUse(d, r, all[r.Treatment]); err != nil {
			return nil, err
		}
		if len(all[r.Treatment]) == 0 {
			delete(all, r.Treatment)
		}
	}
	return all, nil
}

// addUse adds the readings of a trial's measure phase. A namespace counts at a reading once each of its tasks was read
// twice: counters of tasks may be refreshed at different times, and the last known rate of each counts.
func addUse(d *result.Dir, r *result.Record, to map[string]*namespaceUse) error {
	i := slices.IndexFunc(r.Phases, func(p result.Phase) bool { return p.Name == "measure" })
	if i < 0 {
		return nil
	}
	from, until := r.Phases[i].Start, r.Phases[i].End
	of, members := namespacesOf(r), map[string]int{}
	for _, name := range of {
		members[name]++
		if name != nodes {
			members[total]++
		}
	}
	last, cores := map[string]result.Reading{}, map[string]float64{}
	for e, err := range d.Events(r.ID) {
		if errors.Is(err, fs.ErrNotExist) { // an import
			return nil
		}
		if err != nil {
			return err
		}
		if e.Kind != result.KindSample || e.Sample == nil {
			continue
		}
		for id, now := range e.Sample.Tasks {
			if before, ok := last[id]; ok && now.At.After(before.At) {
				cores[id] = float64(now.CPU-before.CPU) / float64(now.At.Sub(before.At))
			}
			last[id] = now
		}
		if !e.Time.Before(from) && !e.Time.After(until) {
			addReading(to, of, members, cores, last)
		}
	}
	return nil
}

// namespacesOf are the namespaces of the tasks of a trial. Trials have a namespace each, with one name in the report. The
// load and the ingress gateway, which studies have in namespaces of their own, have names of their own. Tasks of this
// machine have no namespace, and their plane stands for it.
func namespacesOf(r *result.Record) map[string]string {
	own := ""
	for _, t := range r.Tasks {
		if t.Plane == metric.App && t.Namespace != "" {
			own = t.Namespace
		}
	}
	all := map[string]string{}
	for _, t := range r.Tasks {
		switch {
		case t.Plane == metric.Node:
			all[t.ID] = nodes
		case t.Namespace == "" || t.Namespace != own:
			all[t.ID] = cmp.Or(t.Namespace, "plane "+string(t.Plane))
		case t.Plane == metric.Load || t.Component == "load":
			all[t.ID] = "load"
		case t.Role == "gateway":
			all[t.ID] = "gateway"
		default:
			all[t.ID] = "application"
		}
	}
	return all
}

func addReading(to map[string]*namespaceUse, of map[string]string, members map[string]int, cores map[string]float64, last map[string]result.Reading) {
	type sum struct {
		cpu, memory float64
		tasks       int
	}
	sums := map[string]sum{}
	for id, c := range cores {
		if name, ok := of[id]; ok {
			groups := []string{name, total}
			if name == nodes {
				groups = groups[:1]
			}
			for _, group := range groups {
				s := sums[group]
				sums[group] = sum{s.cpu + 1e3*c, s.memory + float64(last[id].RSS)/(1<<20), s.tasks + 1}
			}
		}
	}
	for name, s := range sums {
		if s.tasks < members[name] {
			continue
		}
		if to[name] == nil {
			to[name] = &namespaceUse{}
		}
		to[name].cpu, to[name].memory = append(to[name].cpu, s.cpu), append(to[name].memory, s.memory)
	}
}
