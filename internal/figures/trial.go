package figures

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// figures collects the metrics of one trial. A nonnumeric value is never kept: it
// becomes a warning, and the metric remains unknown.
type figures struct {
	values   map[string]float64
	roles    map[TaskRole]map[string]float64 // of the data plane, by base name
	warnings []Warning
	withheld []string // metrics that a check of the analysis withheld
}

// trialFigures computes every metric the record itself bears. Latencies come from the log.
func trialFigures(r *result.Record, published bool) *figures {
	f := &figures{values: map[string]float64{}, roles: map[TaskRole]map[string]float64{}}
	if r.Error != "" {
		return f
	}
	if len(r.Executions) > 0 {
		executionFigures(f, r)
		return f
	}
	seconds := loadFigures(f, r.Load)
	if IsSampled(*r) {
		sampledFigures(f, r, seconds, published)
		return f
	}
	resourceFigures(f, r, seconds)
	if r.Load != nil && r.Load.Capacity != nil { // peaks since the start come from the search for the capacity
		maps.DeleteFunc(f.values, func(name string, _ float64) bool { return metric.Base(name) == metric.PeakMemory })
	}
	counterRoles(f, r, seconds)
	if r.Load == nil || r.Load.Slices == nil { // else it had other treatments too
		nodeFigures(f, r.Node)
	}
	if r.Outside != nil && r.Answered() > 0 {
		f.set(metric.OutsideCPU, float64(*r.Outside)/1e3/float64(r.Answered()))
	}
	idleFigures(f, r)
	idleMemory(f, r)
	growthFigures(f, r, seconds)
	return f
}

// sampledRecord reports whether the trial has sampled figures instead of counters.
func IsSampled(r result.Record) bool { return r.Sampled != nil && len(r.Sampled.Rows) > 0 }

// loadFigures computes the metrics of the load generator and returns the length of the measure window in seconds.
func loadFigures(f *figures, l *result.Load) float64 {
	if l == nil {
		f.warn("load-unknown", []string{metric.Rate, metric.ErrorRatio, metric.Traffic}, "the load generator left no report",
			"see its log in the trial's provenance directory")
		return 0
	}
	seconds := measureSeconds(l)
	if seconds := seconds / dilution(l, seconds); seconds > 0 {
		f.set(metric.Rate, float64(l.Completed)/seconds)
		// No answer is of zero bytes: a zero means that the generator does not count them.
		if l.BytesIn > 0 {
			f.set(metric.Traffic+"/in", float64(l.BytesIn)/seconds)
		}
		if l.BytesOut > 0 {
			f.set(metric.Traffic+"/out", float64(l.BytesOut)/seconds)
		}
	}
	if c := l.Capacity; c != nil && c.Open == "" && c.Rate > 0 {
		f.set(metric.Capacity, c.Rate)
	}
	if ended, lost := CountEnded(l); ended > 0 {
		f.set(metric.ErrorRatio, float64(lost)/float64(ended))
	}
	return seconds
}

// measureSeconds is the length of the measure window, or 0 if it is unknown.
func measureSeconds(l *result.Load) float64 {
	switch {
	case l == nil:
		return 0
	case l.MeasureSeconds > 0:
		return l.MeasureSeconds
	}
	return math.Max(0, l.End.Sub(l.Start).Seconds())
}

func nodeFigures(f *figures, n *result.NodeUsage) {
	if n == nil {
		return
	}
	wall, busy := n.End.At.Sub(n.Start.At), n.End.Busy-n.Start.Busy
	if wall <= 0 || busy < 0 {
		f.warn("node-counters", []string{metric.NodeCPU}, fmt.Sprintf("the machine's CPU counter changed by %d ns in %v", busy, wall),
			"the clock or the counter was set back: run the trial again")
		return
	}
	f.set(metric.NodeCPU, float64(busy)/float64(wall))
}

func taskPSS(t result.TaskUsage) (float64, bool) {
	if t.End.PSS == nil {
		return 0, false
	}
	return float64(*t.End.PSS) / mib, true
}

// taskSwitches is context switches per second. A task that has never switched
// does not exist: two zeros mean that they were not read.
func taskSwitches(t result.TaskUsage) (float64, bool) {
	end, start := t.End.Voluntary+t.End.Involuntary, t.Start.Voluntary+t.Start.Involuntary
	wall := t.End.At.Sub(t.Start.At).Seconds()
	return float64(end-start) / wall, end > 0 && end >= start && wall > 0
}

func resourceFigures(f *figures, r *result.Record, seconds float64) {
	if len(r.Tasks) == 0 {
		f.warn("tasks-unknown", []string{metric.CPUPerRequest, metric.CPUCores, metric.CPUPer1000, metric.Memory},
			"no task was read", "CPU and memory of this trial are unknown: see its events.jsonl")
		return
	}
	missing(f, r.Tasks)
	for _, res := range resources {
		planes := res.sums(r.Tasks)
		if _, known := planes[metric.Load]; !known && res.name == metric.CPUCores && !has(r.Tasks, metric.Load) {
			if l := r.Load; l != nil && l.CPUSeconds != nil && seconds > 0 {
				planes[metric.Load] = *l.CPUSeconds / seconds // no meter measured it
			}
		}
		for _, p := range metric.Parts() {
			v, ok := part(p, planes)
			if !ok || isOnly(p, metric.Node) && !has(r.Tasks, metric.Node) { // runs without a cluster have no nodes
				continue
			}
			if isOnly(p, metric.Foreign) && res.name != metric.CPUCores && res.name != metric.Memory {
				continue
			}
			switch res.name {
			case "":
			case metric.CPUCores:
				f.set(res.name+"/"+p.Name, v*dilution(r.Load, seconds))
			default:
				f.set(res.name+"/"+p.Name, v)
			}
			if r.Answered() <= 0 || seconds <= 0 || isOnly(p, metric.Foreign) { // they answer no request of the load
				continue
			}
			for _, per := range res.perRequest {
				f.set(per.name+"/"+p.Name, v*seconds*per.scale/float64(r.Answered()))
			}
		}
		ratios(f, res.name, planes)
	}
	if r.Load != nil && r.Load.Completed == 0 {
		f.warn("no-answers", []string{metric.CPUPerRequest, metric.CPUPer1000, metric.ContextSwitches},
			"no request was answered: a cost per request is undefined", "see the errors by kind in the record, and the application's log")
	}
}

// dilution is the measure window over the part of it in which the trial had the load. The CPU of tasks
// is of that part alone.
func dilution(l *result.Load, seconds float64) float64 {
	if l == nil || l.Slices == nil || l.LoadedSeconds() <= 0 || seconds <= 0 {
		return 1
	}
	return seconds / l.LoadedSeconds()
}

// idleFigures adds the idle rate, and the parts of the cost per request of a trial of a round that are idle and
// deferred. The rest of the cost is the work in its own slices.
func idleFigures(f *figures, r *result.Record) {
	if r.Load == nil || r.Load.Slices == nil {
		return
	}
	rate, loaded := idlePerSecond(r), ownSeconds(r.Load)
	if r.Quiet != nil { // the idle CPU of guards is taken off
		loaded = r.Load.LoadedSeconds()
	}
	deferred := planeSums(r.Tasks, func(t result.TaskUsage) (float64, bool) {
		if t.DeferredCPU == nil {
			return 0, false
		}
		return float64(*t.DeferredCPU), true
	})
	for _, p := range metric.Parts() {
		if !isIdlePart(p) {
			continue
		}
		idle, ok := part(p, rate)
		if !ok {
			continue
		}
		f.set(metric.Of(metric.IdleCPU, p.Name), idle/1e9)
		if ns, ok := part(p, deferred); ok && r.Load.Completed > 0 {
			f.set(metric.Of(metric.DeferredPerRequest, p.Name), ns/1e3/float64(r.Load.Completed))
			f.set(metric.Of(metric.IdlePerRequest, p.Name), idle/1e3*loaded/float64(r.Load.Completed))
		}
	}
}

func idleMemory(f *figures, r *result.Record) {
	if !slices.ContainsFunc(r.Tasks, func(t result.TaskUsage) bool { return t.IdleRSS > 0 }) {
		return // not read
	}
	idle := planeSums(r.Tasks, func(t result.TaskUsage) (float64, bool) { return float64(t.IdleRSS) / mib, t.IdleRSS > 0 })
	for _, p := range metric.Parts() {
		if v, ok := part(p, idle); ok && isIdlePart(p) {
			f.set(metric.Of(metric.IdleMemory, p.Name), v)
		}
	}
}

// mayBeEmpty are the planes that use zero if they have no task. Any other plane
// without a task was not measured. [makeUp] finds the trials in which nodes were not.
var mayBeEmpty = map[metric.Plane]bool{metric.Data: true, metric.Control: true, metric.Platform: true, metric.Node: true, metric.Unattributed: true}

// planeSums adds up a resource by plane. A plane with a task that could not be
// read is unknown: it is not in the answer.
func planeSums(tasks []result.TaskUsage, of func(result.TaskUsage) (float64, bool)) map[metric.Plane]float64 {
	sums, unknown := map[metric.Plane]float64{}, map[metric.Plane]bool{}
	for _, p := range metric.Planes() {
		if mayBeEmpty[p] {
			sums[p] = 0
		}
	}
	for _, t := range tasks {
		v, ok := of(t)
		if t.Missing != "" || !ok {
			unknown[t.Plane] = true
			continue
		}
		sums[t.Plane] += v
	}
	for p := range unknown {
		delete(sums, p)
	}
	return sums
}

// isOnly reports whether a part is one plane and no other.
func isOnly(p metric.Part, plane metric.Plane) bool {
	return slices.Equal(p.Planes, []metric.Plane{plane})
}

func has(tasks []result.TaskUsage, p metric.Plane) bool {
	return slices.ContainsFunc(tasks, func(t result.TaskUsage) bool { return t.Plane == p })
}

// ratioName is the part of mesh_ratio and data_plane_ratio a resource gives.
var ratioName = map[string]string{metric.CPUCores: "cpu", metric.Memory: "memory"}

// ratios adds the ratios of the mesh, and of its data plane, to the rest of the cluster.
func ratios(f *figures, resource string, planes map[metric.Plane]float64) {
	name, ok := ratioName[resource]
	if !ok {
		return
	}
	mesh, ok1 := part(metric.Part{Planes: []metric.Plane{metric.Data, metric.Control}}, planes)
	rest, ok2 := part(metric.Part{Planes: []metric.Plane{metric.App, metric.Platform, metric.Unattributed, metric.Load}}, planes)
	if data, ok := planes[metric.Data]; ok && ok2 && rest > 0 {
		f.set(metric.DataPlaneRatio+"/"+name, data/rest)
	}
	if ok1 && ok2 && rest > 0 {
		f.set(metric.MeshRatio+"/"+name, mesh/rest)
	}
}

// part adds up the planes of a part. It is not ok if one of them is unknown.
func part(p metric.Part, planes map[metric.Plane]float64) (float64, bool) {
	total := 0.0
	for _, plane := range p.Planes {
		v, ok := planes[plane]
		if !ok {
			return 0, false
		}
		total += v
	}
	return total, true
}

// missing warns of unreadable tasks, with the metrics that they leave unknown.
func missing(f *figures, tasks []result.TaskUsage) {
	for _, t := range tasks {
		if t.Plane == metric.Node {
			continue // makeUp has one warning for all of a trial's nodes
		}
		switch _, ok := taskCores(t); {
		case t.Missing != "":
			f.warn("task-unread", namesOf(t.Plane), fmt.Sprintf("task %s could not be read (%s): the %s plane and every sum with it are unknown", t.ID, t.Missing, t.Plane),
				"a process that ended early names the reason in its log, in the trial's provenance directory")
		case !ok:
			f.warn("task-counters", namesOf(t.Plane), fmt.Sprintf("the CPU counter of task %s changed by %d ns in %v: the %s plane and every sum with it are unknown",
				t.ID, t.End.CPU-t.Start.CPU, t.End.At.Sub(t.Start.At), t.Plane),
				"the process was restarted, or a clock was set back: run the trial again")
		}
	}
}

// resource is a quantity of tasks, summed by plane.
type resource struct {
	name string
	// of gives the task's value. It is not ok if the value was not read.
	of func(result.TaskUsage) (float64, bool)
	// perTime is multiplied by the measure seconds and divided by the requests:
	// a rate becomes a cost per request under these names.
	perRequest []perRequest
}

type perRequest struct {
	name  string
	scale float64
}

// sums adds up the resource by plane, the peaks of processes that followed one another in a container as their highest.
func (res resource) sums(tasks []result.TaskUsage) map[metric.Plane]float64 {
	if res.name == metric.PeakMemory && slices.ContainsFunc(tasks, func(t result.TaskUsage) bool { return t.Ended }) {
		higher := func(t, than result.TaskUsage) int { return cmp.Compare(than.End.Peak, t.End.Peak) }
		known := map[[2]string]bool{}
		tasks = slices.DeleteFunc(slices.SortedStableFunc(slices.Values(tasks), higher), func(t result.TaskUsage) bool {
			container := [2]string{t.Pod, t.Container}
			lower := t.Pod != "" && known[container]
			known[container] = true
			return lower
		})
	}
	return planeSums(tasks, res.of)
}

const mib = 1 << 20

var resources = []resource{
	{metric.CPUCores, taskCores, []perRequest{{metric.CPUPerRequest, 1e6}, {metric.CPUPer1000, 1000}}},
	{metric.Memory, func(t result.TaskUsage) (float64, bool) {
		return float64(t.End.RSS) / mib, t.End.RSS > 0 || t.Ended || t.Role == mesh.RoleRemainder
	}, nil},
	{metric.PeakMemory, func(t result.TaskUsage) (float64, bool) {
		return float64(t.End.Peak) / mib, t.End.Peak > 0 || t.Ended || t.Role == mesh.RoleRemainder
	}, nil},
	{metric.ProportionalMemory, taskPSS, nil},
	{"", taskSwitches, []perRequest{{metric.ContextSwitches, 1}}},
}

// taskCores is CPU time per wall-clock time between the task's own two readings.
func taskCores(t result.TaskUsage) (float64, bool) {
	wall, cpu := t.End.At.Sub(t.Start.At), t.End.CPU-t.Start.CPU
	return float64(cpu) / float64(wall), wall > 0 && cpu >= 0
}

// namesOf are the metrics that cannot be known without the tasks of plane.
func namesOf(plane metric.Plane) []string {
	var names []string
	if plane != metric.Node && plane != metric.Foreign { // the ratios are of the trial's pods
		names = append(names, metric.MeshRatio, metric.DataPlaneRatio)
	}
	for _, p := range metric.Parts() {
		if !slices.Contains(p.Planes, plane) {
			continue
		}
		for _, m := range metric.All() {
			if base := metric.Base(m.Name); base != m.Name && m.Name == base+"/"+p.Name {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

// shown leaves out the trends of withheld metrics.
func (f *figures) shown(trends []Trend) []Trend {
	return slices.DeleteFunc(trends, func(t Trend) bool { _, known := f.values[t.Metric]; return !known })
}

func (f *figures) set(name string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		f.warn("not-a-number", []string{name}, fmt.Sprintf("%s is %v and left out", name, v),
			"the record is damaged: check its counters")
		return
	}
	f.values[name] = v
}

func (f *figures) warn(code string, metrics []string, message, hint string) {
	f.warnings = append(f.warnings, Warning{Code: code, Message: message, Hint: hint, Metrics: metrics})
}

// withhold removes the metrics that a check of the run or of the analysis withheld.
func (f *figures) withhold(warnings []result.Warning) {
	if f.withheld != nil {
		maps.DeleteFunc(f.values, func(name string, _ float64) bool { return NamesMetric(f.withheld, name) })
	}
	for _, w := range warnings {
		if !w.Withholds {
			continue
		}
		maps.DeleteFunc(f.values, func(name string, _ float64) bool { return NamesMetric(w.Metrics, name) })
		for role, values := range f.roles {
			maps.DeleteFunc(values, func(name string, _ float64) bool { return NamesMetric(w.Metrics, metric.Of(name, string(role.Plane))) })
		}
	}
}

// counterRoles computes each role of data and control plane from counters, if a plane has several: node proxies and
// waypoints, a control plane's own proxies and its servers.
func counterRoles(f *figures, r *result.Record, seconds float64) {
	for _, plane := range []metric.Plane{metric.Data, metric.Control} {
		byRole := map[TaskRole][]result.TaskUsage{}
		names := map[string]bool{}
		for _, t := range r.Tasks {
			if t.Plane == plane {
				byRole[roleOf(t.Task)] = append(byRole[roleOf(t.Task)], t)
				names[t.Role] = true
			}
		}
		if len(names) < 2 {
			continue
		}
		for role, tasks := range byRole {
			for _, res := range resources {
				v, ok := res.sums(tasks)[plane]
				if !ok || res.name == "" {
					continue
				}
				if f.roles[role] == nil {
					f.roles[role] = map[string]float64{}
				}
				f.roles[role][res.name] = v
				if res.name == metric.CPUCores {
					f.roles[role][res.name] = v * dilution(r.Load, seconds)
				}
				for _, per := range res.perRequest {
					if r.Answered() > 0 && seconds > 0 {
						f.roles[role][per.name] = v * seconds * per.scale / float64(r.Answered())
					}
				}
			}
		}
	}
}

// TaskRole is a part of a plane: what its tasks do, and for whom.
type TaskRole struct {
	Plane           metric.Plane
	Role, Component string
}

// roles computes each role of the data plane, if there is more than one.
func (s *sampled) roles(res sampledResource) {
	for _, r := range dataRoles(s.Tasks) {
		v := s.sum(res, func(t mesh.Task) bool { return roleOf(t) == r })
		x, ok := s.reduce(v)
		if !ok {
			continue
		}
		if s.f.roles[r] == nil {
			s.f.roles[r] = map[string]float64{}
		}
		named := map[string]float64{}
		s.set(named, res, "", x)
		for name, v := range named {
			s.f.roles[r][metric.Base(name)] = v
		}
	}
}

func dataRoles(tasks []mesh.Task) []TaskRole {
	var rs []TaskRole
	for _, t := range tasks {
		if r := roleOf(t); (t.Plane == metric.Data && r.Role != result.RoleRemainder || r.Role == result.RoleNamespace) && !slices.Contains(rs, r) {
			rs = append(rs, r)
		}
	}
	slices.SortFunc(rs, func(a, b TaskRole) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Component, b.Component))
	})
	if len(rs) < 2 {
		return nil
	}
	return rs
}

func roleOf(t mesh.Task) TaskRole { return TaskRole{t.Plane, t.Role, t.Component} }

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
		complete := lists.Count(counts, func(c map[string]int) bool { return c[name] == most[name] })
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
