package figures

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// unsummed are the planes of a trial whose sums are unknown, each with the warning.
type unsummed map[metric.Plane]Warning

// makeUp finds the sums that are not of the same tasks in every trial compared. Sums of
// nodes are checked over the whole run, sums of other planes over each treatment and its
// A/A pair. On this machine tare starts every task itself, so only clusters are checked.
func makeUp(environment result.Environment, records []result.Record) []unsummed {
	all := make([]unsummed, len(records))
	if environment.Platform != mesh.OnKubernetes {
		return all
	}
	groups := map[string][]int{}
	for i := range records {
		r := &records[i]
		all[i] = unsummed{}
		if r.Error != "" || IsSampled(*r) || len(r.Tasks) == 0 {
			continue
		}
		if r.Valid && !r.Disturbed() { // faults and changes end tasks and start others
			same := maps.Clone(r.Factors)
			delete(same, plan.ControlFactor)
			key := fmt.Sprint(same)
			groups[key] = append(groups[key], i)
		}
	}
	checkNodes(records, all)
	for _, trials := range groups {
		for _, plane := range metric.Planes() {
			if plane != metric.Node && plane != metric.Harness && plane != metric.Foreign {
				checkSame(records, all, trials, plane)
			}
		}
	}
	return all
}

// checkNodes finds the trials that lack a node's task that another trial of the run has.
func checkNodes(records []result.Record, all []unsummed) {
	whole := map[string]bool{}
	for i := range records {
		for _, t := range records[i].Tasks {
			if t.Plane == metric.Node {
				whole[t.ID] = true
			}
		}
	}
	for i := range records {
		r := &records[i]
		if r.Error != "" || IsSampled(*r) || len(r.Tasks) == 0 {
			continue
		}
		if why := nodesUnread(r, whole); len(why) > 0 {
			all[i][metric.Node] = Warning{Code: "node-unknown", Metrics: namesOf(metric.Node),
				Message: "CPU and memory of nodes outside their pods are unknown: " + printable.Listed(why, 3),
				Hint:    "raise phases.measure to twice the counter refresh interval of the nodes, 32s on most clusters; the total does not contain them"}
		}
	}
}

// nodesUnread are the reasons for which the sum over the nodes is unknown. whole are the
// nodes' tasks of all trials. Early records only have a warning in place of a task.
func nodesUnread(r *result.Record, whole map[string]bool) (why []string) {
	lacks := maps.Clone(whole)
	for _, t := range r.Tasks {
		if t.Plane != metric.Node {
			continue
		}
		delete(lacks, t.ID)
		if _, ok := taskCores(t); t.Missing != "" || !ok {
			why = append(why, t.ID+": "+cmp.Or(t.Missing, "its CPU counter did not advance"))
		}
	}
	for _, w := range r.Warnings {
		if w.Code == "node-unread" {
			why = append(why, strings.TrimPrefix(w.Message, "the machine's total could not be read: "))
			clear(lacks)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(lacks)) {
		why = append(why, id+": not in this trial, but in others of the run")
	}
	return why
}

// checkSame finds out whether some trials have the same tasks in a plane.
func checkSame(records []result.Record, all []unsummed, trials []int, plane metric.Plane) {
	counts := make([]map[string]int, len(trials))
	most := map[string]int{}
	for n, i := range trials {
		counts[n] = map[string]int{}
		for _, t := range records[i].Tasks {
			if t.Plane == plane {
				counts[n][WorkloadOf(t.Task)]++
			}
		}
		for name, c := range counts[n] {
			most[name] = max(most[name], c)
		}
	}
	var differ []string
	for _, name := range slices.Sorted(maps.Keys(most)) {
		complete := 0
		for _, c := range counts {
			if c[name] == most[name] {
				complete++
			}
		}
		if complete < len(trials) {
			differ = append(differ, fmt.Sprintf("%d of %s in %d of %s", most[name], name, complete, printable.Counted(len(trials), "trial")))
		}
	}
	if differ == nil {
		return
	}
	for _, i := range trials {
		all[i][plane] = Warning{Code: "tasks-differ", Metrics: namesOf(plane),
			Message: fmt.Sprintf("the trials of a treatment have different tasks in the %s plane, so that plane and every sum with it are unknown: %s", plane, printable.Listed(differ, 3)),
			Hint:    "measure again while nothing is deployed, scaled or moved in the cluster"}
	}
}

// random is the part of a pod's name that differs between pods of a workload: the hash
// of a ReplicaSet's template and a random suffix, in Kubernetes' alphabet without vowels.
var random = regexp.MustCompile(`(-[bcdfghjklmnpqrstvwxz2456789]{8,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}(/|$)`)

// WorkloadOf names a task by its workload, the same in each trial.
func WorkloadOf(t mesh.Task) string { return random.ReplaceAllString(t.ID, "$2") }

// unsum removes the sums that are unknown, each with its warning.
func (f *figures) unsum(planes unsummed) {
	for _, plane := range metric.Planes() {
		w, ok := planes[plane]
		if !ok {
			continue
		}
		f.warnings = append(f.warnings, w)
		maps.DeleteFunc(f.values, func(name string, _ float64) bool { return NamesMetric(w.Metrics, name) })
		maps.DeleteFunc(f.roles, func(r TaskRole, _ map[string]float64) bool { return r.Plane == plane })
	}
}
