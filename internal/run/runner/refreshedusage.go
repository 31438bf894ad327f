package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// span is the time of the load at its rate, and the measure phase within it.
type span struct{ loaded, begin, end, done time.Time }

// useNearest records for each task the two readings that replace the edges, and warns about their
// distance. begin and end are the readings at the edges themselves, with peaks and restarts.
func (m *measurement) useNearest(first, then []platform.Task, begin, end meter.Look) {
	s := m.span()
	known := map[string]bool{}
	var off, nodes offset
	for _, task := range slices.Concat(first, then, m.sampler.restarted) {
		if known[task.ID] {
			continue
		}
		known[task.ID] = true
		if m.unknown(task) {
			continue
		}
		u, i, j := m.usageOf(task, s, contains(first, task.ID), contains(then, task.ID))
		u.Start, u.End = edged(u.Start, begin.Tasks[task.ID]), edged(u.End, end.Tasks[task.ID])
		switch {
		case i < 0 || j < 0:
		case ofNode(task):
			nodes.add(m.sampler.history.tasks[task.ID], i, j, s)
		default:
			off.add(m.sampler.history.tasks[task.ID], i, j, s)
		}
		m.journal.record.Tasks = append(m.journal.record.Tasks, u)
	}
	m.useNode(s, end)
	if text, ok := off.text(); ok {
		m.journal.warn(result.Warning{Code: "counters-paced", Message: refreshText(m.sampler.refresh()) + text, Hint: measureHint, Metrics: cpus})
	}
	if text, ok := nodes.text(); ok {
		m.journal.warn(result.Warning{Code: "node-paced", Message: nodeRefreshText(m.sampler.nodeRefresh()) + text,
			Hint: measureHint, Metrics: nodeCPUs})
	}
	m.warnGaps(s.loaded, s.end)
}

// unknown reports whether a fault or change started a task that ended before its first reading, such as an init container.
func (m *measurement) unknown(task platform.Task) bool {
	return len(m.sampler.history.tasks[task.ID]) == 0 && contains(m.sampler.restarted, task.ID) && !contains(m.sampler.tasks, task.ID)
}

func contains(tasks []platform.Task, id string) bool {
	return slices.ContainsFunc(tasks, func(t platform.Task) bool { return t.ID == id })
}

// usageOf returns the usage of a task and the indices of its two readings, or -1 for none.
func (m *measurement) usageOf(task platform.Task, s span, atFirst, atLast bool) (u result.TaskUsage, i, j int) {
	u = result.TaskUsage{Task: task.Task}
	readings := m.sampler.history.tasks[task.ID]
	if n := len(readings); replaces(m.setup.Experiment.Faults, m.setup.Experiment.Changes.Kinds, task.Plane) && n > 0 && !(atFirst && atLast) && !ofNode(task) {
		return m.changed(u, readings, s, atFirst, atLast), -1, -1
	}
	i, j = window(timesOf(readings), s)
	switch {
	case !atFirst && !ofNode(task):
		u.Missing = "not read at the beginning: it started during the measure phase"
	case !atLast && !ofNode(task):
		u.Missing = "not read at the end: it ended during the measure phase"
	case i < 0 || j < 0:
		u.Missing = fmt.Sprintf("its counters were refreshed %s under load; two are needed", printable.Counted(count(readings, s), "time"))
		if measure := s.end.Sub(s.begin); ofNode(task) && measure < m.sampler.nodeRefresh() {
			u.Missing += fmt.Sprintf(", and %v measured is less than their refresh interval of up to %v", measure.Round(time.Second), m.sampler.nodeRefresh())
		}
		if err := m.sampler.last.Missing[task.ID]; err != nil {
			u.Missing = err.Error()
		}
	default:
		u.Start, u.End = readings[i], readings[j]
		if u.End.CPU < u.Start.CPU {
			u.Missing = "its CPU counter decreased: the task was restarted"
		}
	}
	return u, i, j
}

// ofNode reports whether a node itself has the task, outside its pods. If such a task cannot be read,
// the trial is valid, and CPU of its nodes is unknown.
func ofNode(task platform.Task) bool { return task.Plane == metric.Node }

// changed is the usage of a task that a fault or change ended, up to its last reading, or of one that
// replaced it and began at 0. Both may happen between the edges.
func (m *measurement) changed(u result.TaskUsage, readings []result.Reading, s span, atFirst, atLast bool) result.TaskUsage {
	if !atLast { // a pod of the same name may answer before it is listed as another task
		for i := 1; i < len(readings); i++ {
			if readings[i].CPU < readings[i-1].CPU {
				readings = readings[:i]
			}
		}
	}
	u.Start, u.End = result.Reading{At: s.begin}, readings[len(readings)-1]
	if atLast {
		return u
	}
	u.Ended = true
	if !atFirst {
		u.End.At, u.End.RSS = s.end, 0
		return u
	}
	if i := slices.IndexFunc(readings, func(r result.Reading) bool { return !r.At.Before(s.loaded) }); i >= 0 {
		u.Start = readings[i]
		for _, r := range readings[i:] {
			if r.At.Sub(s.begin).Abs() < u.Start.At.Sub(s.begin).Abs() {
				u.Start = r
			}
		}
	} else {
		u.Missing = "its counters were not refreshed under load before a fault ended it"
	}
	u.End.At, u.End.RSS = s.end, 0
	return u
}

// edged adds the values read at the edge to the reading that replaces it.
func edged(r, edge result.Reading) result.Reading {
	r.Peak, r.Throttled, r.Periods, r.Reached, r.Restarts, r.OOMKills = max(r.Peak, edge.Peak), edge.Throttled, edge.Periods, edge.Reached, edge.Restarts, edge.OOMKills
	return r
}

func count(readings []result.Reading, s span) (n int) {
	return lists.Count(readings, func(r result.Reading) bool { return !r.At.Before(s.loaded) && !r.At.After(s.done) })
}

func (m *measurement) useNode(s span, end meter.Look) {
	i, j := window(nodeTimes(m.sampler.history.node), s)
	if i < 0 || j < 0 {
		m.journal.nodeUnread(cmp.Or(m.sampler.last.NodeErr, errFewRefreshes))
		return
	}
	node := m.sampler.history.node
	u := &result.NodeUsage{CPUs: cmp.Or(end.NodeCPUs, m.setup.Dir.Environment().CPUs), Start: node[i], End: node[j]}
	for _, n := range end.Nodes {
		readings := m.sampler.history.nodes[n.Name]
		if i, j := window(nodeTimes(readings), s); i >= 0 && j >= 0 {
			u.Nodes = append(u.Nodes, result.MachineUsage{Name: n.Name, CPUs: n.CPUs, AllocatableCPU: n.AllocatableCPU,
				AllocatableMemory: n.AllocatableMemory, Start: readings[i], End: readings[j]})
		}
	}
	m.journal.record.Node = u
}

var errFewRefreshes = errors.New("its counters were not refreshed twice under load")

func nodeTimes(readings []result.NodeReading) []time.Time {
	return lists.Map(readings, func(r result.NodeReading) time.Time { return r.At })
}

// covered reports whether every task has a reading for each edge. The tail is
// long enough for the nodes' own tasks, unless the measure phase is too short for them.
func (m *measurement) covered() bool {
	s := m.span()
	for _, task := range m.sampler.tasks {
		if i, j := window(timesOf(m.sampler.history.tasks[task.ID]), s); i < 0 || j < 0 {
			return false
		}
	}
	return true
}

// span returns the span of the trial, in its own time.
func (m *measurement) span() span {
	steady := m.setup.clock.steady
	return span{loaded: steady(m.load.profile.Start.Add(ramp)), begin: steady(m.load.edges.begin),
		end: steady(m.load.edges.end), done: steady(m.load.edges.end.Add(m.load.profile.Tail))}
}

// window returns the indices of the two times, ascending, that replace the edges: the pair under
// load nearest to both edges. Of equal pairs it takes the later start and the earlier end. -1: no
// pair.
func window(times []time.Time, s span) (first, last int) {
	first, last = -1, -1
	best := time.Duration(math.MaxInt64)
	for i, a := range times {
		if a.Before(s.loaded) {
			continue
		}
		for j := len(times) - 1; j > i; j-- {
			off := a.Sub(s.begin).Abs() + times[j].Sub(s.end).Abs()
			if b := times[j]; !b.After(s.done) && b.After(a) && off <= best {
				first, last, best = i, j, off
			}
		}
	}
	return first, last
}

func timesOf(readings []result.Reading) []time.Time {
	return lists.Map(readings, func(r result.Reading) time.Time { return r.At })
}

// warnGaps warns about times under load without readings.
func (m *measurement) warnGaps(from, to time.Time) {
	var texts []string
	for _, g := range m.sampler.history.gaps {
		until := cmp.Or(g.to, m.setup.clock.now())
		if until.After(from) && g.from.Before(to) {
			texts = append(texts, fmt.Sprintf("for %v from %s (%v)", until.Sub(g.from).Round(time.Second), g.from.UTC().Format(time.TimeOnly), g.why))
		}
	}
	if texts == nil {
		return
	}
	m.journal.warn(result.Warning{Code: "meter-gap", Message: "the counters could not be read " + strings.Join(texts, "; ") + ". Counters are cumulative: later readings include that time",
		Hint: "check that the API server and the kubelets are reachable", Metrics: cpus})
}

// offset is the distance of the readings from the edges, over all tasks.
type offset struct {
	before, after time.Duration // the greatest distances to begin and end, in either direction
	fewest        int           // readings of a task from its first used to its last
	used, unsure  float64       // CPU between the readings, and the part of it that is uncertain because of the distance, in ns
}

// add adds one task. The readings are shifted from the measure phase: they miss a part of it, and
// include as much time outside it. The max error is that part, times the variation of the task's
// CPU between refreshes under the same load.
func (o *offset) add(readings []result.Reading, i, j int, s span) {
	a, b := readings[i], readings[j]
	o.before, o.after = max(o.before, s.begin.Sub(a.At).Abs()), max(o.after, s.end.Sub(b.At).Abs())
	if n := j - i + 1; o.fewest == 0 || n < o.fewest {
		o.fewest = n
	}
	covered := b.At.Sub(a.At)
	if covered <= 0 {
		return
	}
	mean := float64(b.CPU-a.CPU) / float64(covered)
	differs := 0.0
	for k := 1; k < len(readings); k++ {
		was, is := readings[k-1], readings[k]
		if was.At.Before(s.loaded) || is.At.After(b.At) {
			continue
		}
		differs = max(differs, math.Abs(float64(is.CPU-was.CPU)/float64(is.At.Sub(was.At))-mean))
	}
	length := float64(s.end.Sub(s.begin))
	beside := float64(s.begin.Sub(a.At).Abs() + s.end.Sub(b.At).Abs())
	o.used += float64(b.CPU - a.CPU)
	o.unsure += differs * min(beside, length) / length * float64(covered)
}

// text describes the distance and the error, false if the readings are at the edges.
func (o offset) text() (string, bool) {
	if o.used <= 0 || max(o.before, o.after) < promptly {
		return "", false
	}
	round := func(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
	return fmt.Sprintf(". The readings are up to %v from the beginning and %v from the end of the measure phase, under the same load. Each task has %d or more independent readings. The error of CPU is at most %.1f %%, by its variation between refreshes",
		round(o.before), round(o.after), o.fewest, 100*o.unsure/o.used), true
}

const measureHint = "a longer measure phase reduces the error"

// nodeRefreshText describes the refresh interval of the nodes' own counters.
func nodeRefreshText(refresh time.Duration) string {
	if refresh <= 0 {
		return "the nodes' own counters are current"
	}
	return fmt.Sprintf("the nodes' own counters have a refresh interval of up to %v", refresh)
}

// refreshText describes the refresh interval of containers' counters.
func refreshText(refresh time.Duration) string {
	if refresh <= 0 {
		return "containers' counters are current"
	}
	return fmt.Sprintf("the counter refresh interval is up to %v", refresh)
}

// NodeTail is the tail in which the nodes' own counters are refreshed twice under load. Like the
// tail for containers it is one refresh interval or less. 0: the measure phase is
// long enough, or shorter than one interval: most of the time between two refreshes
// would then lie outside the phase, and the nodes are not measured.
func NodeTail(x experiment.Phases, warmup, refresh time.Duration) time.Duration {
	if refresh <= 0 || time.Duration(x.Measure) < refresh {
		return 0
	}
	loaded := warmup - ramp + time.Duration(x.Measure)
	return min(refresh, max(0, shortRefreshes*refresh+nodeReadings-loaded))
}

// ShortMeasure returns a sentence if the measure phase is too short for the refresh interval,
// otherwise "".
func ShortMeasure(x experiment.Phases, refresh time.Duration) string {
	least := MinMeasure(refresh)
	measure := time.Duration(x.Measure)
	if measure >= least {
		return ""
	}
	return fmt.Sprintf("the counter refresh interval is up to %v, and a measure phase of %v is short for it: the error of CPU per request is up to %.0f %%, and 2 %% or less with %v or more",
		refresh, measure, 100*usualVariation*min(1, float64(refresh)/float64(measure)), least)
}

const (
	// usualVariation is the relative difference of CPU between two refreshes under the same load.
	usualVariation = 0.05
	// maxError of CPU per request: with a larger one a measure phase counts as short.
	maxError = 0.02
)

// MinMeasure is the measure phase with an error of CPU per request of 2 % or less. A reading is at
// most half a refresh interval from each edge. One interval beside the phase is then measured, in
// which CPU usually differs by 5 %. 0: any length is sufficient.
func MinMeasure(refresh time.Duration) time.Duration {
	return time.Duration(float64(refresh) * usualVariation / maxError).Round(time.Second)
}

// RefreshExtra is the approximate additional time of a trial whose counters are refreshed at an
// interval.
func RefreshExtra(x experiment.Phases, refresh time.Duration) time.Duration {
	warmup, tail := PhasesForRefresh(x, refresh)
	// The idle waits take two refreshes before the load, and two after it.
	return warmup - time.Duration(x.Warmup) + tail + 4*refresh
}

const (
	// warmupRefreshes is the minimum warm-up, in refresh intervals. One refresh then
	// is under load and before the measure phase, with half an interval to spare.
	warmupRefreshes = 1.5
	// ramp is the time after its start in which the load reaches its rate.
	ramp = time.Second
	// readsPerRefresh is the number of readings between two refreshes.
	readsPerRefresh = 4
	// shortRefreshes is the length, in refresh intervals, below which a measure phase
	// may contain no refresh. The load then continues until the next one.
	shortRefreshes = 2
	// nodeReadTime is the maximum time to read the counters of all nodes of a cluster.
	nodeReadTime = time.Second
	// nodeReadings is the time that the counters of a node's own control groups may be
	// read later than the node's total: the kubelet meter reads them every 5 s.
	nodeReadings = 5 * time.Second
	// promptly is the distance from an edge up to which a reading counts as made at the edge.
	promptly = 200 * time.Millisecond
)

// PhasesForRefresh returns the warm-up and the tail for counters with a refresh interval. It
// extends the warm-up so that each counter is refreshed under load before the measure phase. A short measure phase gets a tail, so that each is refreshed again under the same load.
func PhasesForRefresh(x experiment.Phases, refresh time.Duration) (warmup, tail time.Duration) {
	warmup = max(time.Duration(x.Warmup), time.Duration(warmupRefreshes*float64(refresh)))
	if time.Duration(x.Measure) < shortRefreshes*refresh {
		tail = refresh
	}
	return warmup, tail + nodeReadTime
}

// sliceRefreshes is the least length of a slice in intervals between readings: two readings then lie within it,
// however late the first one is.
const sliceRefreshes = 3

// slicesFitRefresh checks that slices are long enough for counters with a refresh interval.
func (rd *round) slicesFitRefresh(members []*trial) error {
	if rd.run.Meter.Follower() != nil {
		return nil // it reads at every edge
	}
	length := rd.run.plan.Slices.Length
	for _, t := range members {
		if !t.sampler.refreshed() {
			continue
		}
		if refresh := max(t.sampler.refresh(), t.sampler.period()); length < sliceRefreshes*refresh {
			return hint.New(fmt.Sprintf("write slices: {length: %v} or longer, or platform: {meter: node-agent} on a disposable cluster", (sliceRefreshes*refresh+time.Second-1).Truncate(time.Second)),
				"slices of %v are shorter than %d times the %v between two readings of a counter", length, sliceRefreshes, refresh)
		}
	}
	return nil
}

// pace reads counters with a refresh interval until the last edge. Their readings lie beside the edges, so their
// values there are estimated from those within each slice.
func (r *sliceReader) pace(ctx context.Context) error {
	due := r.due()
	end := due[len(due)-1].Add(lastRead)
	period := r.members[0].trial.sampler.period()
	for done := false; !done; {
		done = !time.Now().Before(end)
		for _, m := range r.members {
			if err := m.trial.sampler.look(ctx, meter.Counters); err != nil {
				return err
			}
		}
		if next := time.Now().Add(period); !done {
			if next.After(end) {
				next = end
			}
			if err := await(ctx, next); err != nil {
				return err
			}
		}
	}
	for i, m := range r.members {
		m.paced = true
		for n, look := range m.atEdges(due) {
			m.add(look, r.first+n-1, due[n].Sub(r.start), r.owner(r.first+n-1) == i)
		}
	}
	return nil
}

// atEdges are the values of the counters of a member's tasks at the edges. Slices without two readings of a
// counter are warned of.
func (m *sliceMember) atEdges(due []time.Time) []meter.Look {
	steady, looks := m.trial.setup.clock.steady, make([]meter.Look, len(due))
	edges := make([]time.Time, len(due))
	for n, at := range due {
		edges[n], looks[n].Tasks = steady(at), map[string]result.Reading{}
	}
	few := 0
	for _, task := range m.tasks {
		values, short := valuesAt(m.trial.sampler.history.tasks[task.ID], edges)
		if !ofNode(task) {
			few = max(few, short)
		}
		for n, ns := range values {
			looks[n].Tasks[task.ID] = result.Reading{At: due[n], CPU: ns}
		}
	}
	if few > 0 {
		m.trial.journal.warn(result.Warning{Code: "counters-paced", Metrics: cpus,
			Message: fmt.Sprintf("%d of %d slices have fewer than two refreshes of a counter, and its CPU in them is that of the time around them", few, len(due)-1),
			Hint:    "raise slices.length"})
	}
	return looks
}

// valuesAt are the values of a counter at the edges of slices, ns. In each slice it grows at the rate between the
// first and the last reading within the slice: what lies between two readings around an edge belongs to two
// slices in unknown parts. A slice with fewer than two readings has the interpolated growth. Their number is in
// short. No reading: nil.
func valuesAt(readings []result.Reading, edges []time.Time) (values []int64, short int) {
	if len(readings) == 0 {
		return nil, 0
	}
	value := interpolated(readings, edges[0])
	values = append(values, int64(value))
	for n, end := range edges[1:] {
		begin := edges[n]
		first := slices.IndexFunc(readings, func(r result.Reading) bool { return !r.At.Before(begin) })
		last := sort.Search(len(readings), func(i int) bool { return readings[i].At.After(end) }) - 1
		if first >= 0 && last > first {
			a, b := readings[first], readings[last]
			value += float64(b.CPU-a.CPU) * float64(end.Sub(begin)) / float64(b.At.Sub(a.At))
		} else {
			value += interpolated(readings, end) - interpolated(readings, begin)
			short++
		}
		values = append(values, int64(value))
	}
	return values, short
}

// interpolated is the value of a counter between its readings and, beyond them, the value of the nearest one.
func interpolated(readings []result.Reading, at time.Time) float64 {
	i := sort.Search(len(readings), func(i int) bool { return readings[i].At.After(at) })
	switch i {
	case 0:
		return float64(readings[0].CPU)
	case len(readings):
		return float64(readings[i-1].CPU)
	}
	a, b := readings[i-1], readings[i]
	return float64(a.CPU) + float64(b.CPU-a.CPU)*float64(at.Sub(a.At))/float64(b.At.Sub(a.At))
}
