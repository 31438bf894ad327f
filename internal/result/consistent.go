package result

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// Contradictions lists what cannot be true together in a record. It compares counts
// that were made apart from one another, so that a changed figure is found without
// a digest.
func (r *Record) Contradictions() []string {
	var c contradictions
	for _, check := range crossChecks {
		if check.needs == anyTrial || r.Error == "" && (check.needs == completeTrial || r.Load != nil) {
			check.find(&c, r)
		}
	}
	return c.found
}

// Trials that a check applies to. Counts of a trial that ended early are not complete.
const (
	anyTrial = iota
	completeTrial
	loadedTrial // complete, with a load
)

// crossChecks compare figures of a record with one another, in the order of their messages.
var crossChecks = []struct {
	needs int
	find  func(*contradictions, *Record)
}{
	{anyTrial, (*contradictions).outcome},
	{anyTrial, (*contradictions).phases},
	{loadedTrial, (*contradictions).counts},
	{loadedTrial, (*contradictions).ended},
	{loadedTrial, (*contradictions).due},
	{loadedTrial, (*contradictions).conserved},
	{loadedTrial, (*contradictions).windowed},
	{loadedTrial, (*contradictions).changes},
	{completeTrial, (*contradictions).memory},
	{completeTrial, (*contradictions).traced},
	{completeTrial, (*contradictions).machine},
}

// Regressions lists counters that went back. Reports leave the figures of such a task out,
// with a warning: a process that was started again, or a clock that was set back, has them too.
func (r *Record) Regressions() []string {
	var c contradictions
	if r.Error == "" {
		c.tasks(r)
	}
	return c.found
}

// contradictions collects findings.
type contradictions struct{ found []string }

func (c *contradictions) outcome(r *Record) {
	for _, w := range r.Warnings {
		if r.Valid && w.Invalidates {
			c.addf("it is valid, and warning %s makes it invalid", w.Code)
			return
		}
	}
	for _, check := range r.Checks {
		if r.Valid && !check.OK {
			c.addf("it is valid, and check %.80q failed", check.Name)
		}
	}
	if r.Valid && r.Error != "" {
		c.addf("it is valid, and has an error")
	}
}

// phases must follow one another.
func (c *contradictions) phases(r *Record) {
	last, at := r.Started, "the trial started"
	for _, p := range r.Phases {
		if p.Start.Before(last) {
			c.addf("phase %s starts %v before %s", p.Name, last.Sub(p.Start), at)
			return
		}
		if p.End.Before(p.Start) {
			c.addf("phase %s ends before it starts", p.Name)
			return
		}
		last, at = p.End, "phase "+p.Name+" ended"
	}
	if !r.Ended.IsZero() && r.Ended.Before(last) {
		c.addf("the trial ended before %s", at)
	}
}

// counts are the requests that were due in the window, by several properties.
func (c *contradictions) counts(r *Record) {
	l := r.Load
	for _, n := range []struct {
		name string
		n    int64
	}{{"intended", l.Intended}, {"sent", l.Sent}, {"completed", l.Completed}, {"bytesIn", l.BytesIn}, {"bytesOut", l.BytesOut}, {"recorded", l.Recorded}} {
		if n.n < 0 {
			c.addf("load.%s is %d", n.name, n.n)
		}
	}
	requests, statuses, failures := c.sum("load.classes", l.Classes), c.sum("load.statuses", l.Statuses), c.sum("load.errors", l.Errors)
	if !l.conserves() {
		return // other generators count these apart from one another, and scale them
	}
	answered := l.Classes[string(load.OK)] + l.Classes[string(load.Status)]
	switch {
	case requests > l.Intended:
		c.addf("load.classes add up to %d requests, and load.intended is %d", requests, l.Intended)
	case len(l.Statuses) > 0 && (statuses < l.Classes[string(load.OK)] || statuses > requests):
		c.addf("load.statuses add up to %d, and load.classes to %d requests, %d of them answered as expected", statuses, requests, l.Classes[string(load.OK)])
	case failures > requests-l.Classes[string(load.OK)]:
		c.addf("load.errors add up to %d, and load.classes have %d failures", failures, requests-l.Classes[string(load.OK)])
	case l.Sent > l.Intended || l.Sent < answered:
		c.addf("load.sent is %d, load.intended %d, and %d requests were answered", l.Sent, l.Intended, answered)
	}
}

// sum adds counts. It finds negative ones.
func (c *contradictions) sum(name string, counts map[string]int64) int64 {
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		if counts[key] < 0 {
			c.addf("%s of %.40q is %d", name, key, counts[key])
		}
	}
	return total(counts)
}

// looseShare bounds the difference of answers in the window and answers to requests
// of the window, where the backlog is unknown.
const looseShare = 0.25

// ended compares the answers in the window with the requests due in it.
func (c *contradictions) ended(r *Record) {
	l := r.Load
	requests, statuses := total(l.Classes), total(l.Statuses)
	failed := l.Classes[string(load.Timeout)] + l.Classes[string(load.Conn)]
	if statuses > 0 { // of TCP there are none
		failed = max(failed, requests-statuses)
	}
	if l.conserves() {
		// Every request that was due in the window or waited at its start has ended in it or
		// waits at its end. Failures have no answer, and failures of the backlog are not counted apart.
		most := requests + *l.BacklogStart - *l.BacklogEnd
		if least := most - failed - *l.BacklogStart; l.Completed > most || l.Completed < least {
			c.addf("load.completed is %d, and by load.classes and the backlog %s requests were answered in the window", l.Completed, between(least, most))
		}
		return
	}
	answered := requests - failed
	if !r.Valid || l.Completed == 0 && answered == 0 {
		return // a trial that missed its rate is invalid for that
	}
	slack := float64(max(5, l.Connections)) + float64(failed)
	if l.Loop != loopClosed {
		slack = max(slack, looseShare*float64(answered))
	}
	if math.Abs(float64(l.Completed-answered)) > slack {
		c.addf("load.completed is %d, and load.classes have %d answers", l.Completed, answered)
	}
}

func total(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

const loopClosed = "closed"

func between(least, most int64) string {
	if least == most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// due compares the schedule with the rate and the length of the window.
func (c *contradictions) due(r *Record) {
	l := r.Load
	window := l.End.Sub(l.Start).Seconds()
	if !l.conserves() || l.MeasureSeconds <= 0 {
		return
	}
	if math.Abs(window-l.MeasureSeconds) > 0.01+0.01*l.MeasureSeconds {
		c.addf("load.start and load.end are %.3f s apart, and load.measureSeconds is %.3f", window, l.MeasureSeconds)
	}
	if l.Loop != "open" || l.AskedRate <= 0 {
		return
	}
	if want := l.scheduled(); math.Abs(float64(l.Intended)-want) > l.scheduleSlack() {
		c.addf("load.intended is %d, and load.askedRate makes %.0f in %.3f s", l.Intended, want, l.LoadedSeconds())
	}
}

// conserves reports whether the generator counts the backlog at both edges, as tare's
// own does: then the number of requests that ended in the window is exact.
func (l *Load) conserves() bool { return l.BacklogStart != nil && l.BacklogEnd != nil }

// scheduleSlack is six standard deviations of a Poisson count. Constant arrivals are
// far within.
func (l *Load) scheduleSlack() float64 {
	return 6*math.Sqrt(l.scheduled()) + 2 + float64(l.Workers)
}

// scheduled is the mean number of requests that an open loop owes in the window.
func (l *Load) scheduled() float64 { return l.AskedRate * l.LoadedSeconds() }

// changes checks the order of the instants of each change.
func (c *contradictions) changes(r *Record) {
	sent := 0.0
	for i, change := range r.Changes {
		if change.SentSeconds < max(sent, change.DueSeconds) || change.AcceptedSeconds < change.SentSeconds {
			c.addf("changes[%d] was due after %v s, sent after %v s and accepted after %v s", i, change.DueSeconds, change.SentSeconds, change.AcceptedSeconds)
		}
		sent = change.SentSeconds
		for name, s := range map[string]*Span{"firstNew": change.FirstNew, "lastOld": change.LastOld} {
			if s != nil && s.BeforeMS != nil && *s.BeforeMS <= s.AfterMS {
				c.addf("changes[%d].%s is after %v ms and not later than %v ms", i, name, s.AfterMS, *s.BeforeMS)
			}
		}
	}
}

// cpuSlack bounds the CPU time of a task beyond the time of all processors: readings of
// counters and times are not one moment.
const cpuSlack = 0.1

// machine: no task uses more CPU time than its machine has.
func (c *contradictions) machine(r *Record) {
	for _, t := range r.Tasks {
		wall, cpu := t.End.At.Sub(t.Start.At), t.End.CPU-t.Start.CPU
		if t.Missing == "" && r.Node != nil && r.Node.CPUs > 0 && wall > time.Second && float64(cpu) > (1+cpuSlack)*float64(wall)*float64(r.Node.CPUs) {
			c.addf("task %s used %v of CPU time in %v on %d processors", t.ID, time.Duration(cpu), wall, r.Node.CPUs)
		}
	}
}

// tasks: counters advance.
func (c *contradictions) tasks(r *Record) {
	for _, t := range r.Tasks {
		wall, cpu := t.End.At.Sub(t.Start.At), t.End.CPU-t.Start.CPU
		restarted := t.End.Restarts != t.Start.Restarts
		switch {
		case t.Missing != "" || t.Start.At.IsZero() || t.End.At.IsZero():
		case t.Start.CPU < 0 || t.End.CPU < 0 || t.Start.RSS < 0 || t.End.RSS < 0:
			c.addf("task %s has a negative counter", t.ID)
		case wall < 0:
			c.addf("task %s was read at the end %v before it was read at the start", t.ID, -wall)
		case cpu < 0 && !t.Ended && !restarted:
			c.addf("the CPU time of task %s decreased by %v", t.ID, time.Duration(-cpu))
		}
	}
	if n := r.Node; n != nil && !n.Start.At.IsZero() && !n.End.At.IsZero() && n.End.At.Before(n.Start.At) {
		c.addf("the machine was read at the end before it was read at the start")
	}
}

func (c *contradictions) addf(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// conserved: the requests of the whole load, the flows and the equations agree, and no valid
// trial has an equation that does not hold.
func (c *contradictions) conserved(r *Record) {
	if w := r.Load.Whole; w != nil {
		switch {
		case w.Sent < 0 || w.Unanswered < 0 || w.Failed < 0 || w.Unanswered+w.Failed > w.Sent:
			c.addf("load.whole has %d requests, of these %d without an answer and %d with an error", w.Sent, w.Unanswered, w.Failed)
		case r.Load.conserves() && w.Sent < r.Load.Sent:
			c.addf("load.whole.sent is %d, and load.sent, a part of it, is %d", w.Sent, r.Load.Sent)
		}
	}
	if r.Balance == nil {
		return
	}
	for _, f := range r.Balance.Flows {
		if w := r.Whole(); w != nil && f.Service == balance.LoadName && f.Point == balance.Sent && f.Unit == balance.Requests && f.Count != w.Sent {
			c.addf("balance.flows has %d requests of the load, and load.whole.sent is %d", f.Count, w.Sent)
		}
	}
	for _, e := range r.Balance.Equations {
		switch {
		case e.OK != e.Holds():
			c.addf("balance: %s: %d expected, %d counted, ok is %v", e.Where, e.Expected, e.Counted, e.OK)
		case !e.OK && r.Valid:
			c.addf("it is valid, and balance has: %s", e)
		}
	}
}

// Refuted makes the checks of a recorded trial that are cheap enough for every reader: of one in itself and beside its slices, and of the
// record against the plan, the experiment and the latency logs. Slices that cannot be read are not known, and refute nothing.
func Refuted(d *Dir, r *Record, rows []Slice, known bool) []Refutation {
	all := r.refutations(rows, known)
	for _, t := range d.plan.Treatments {
		if t.ID != r.Treatment {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.Factors)) {
			if want, ok := t.Factors[name]; ok && !reflect.DeepEqual(want, r.Factors[name]) {
				all = append(all, Refutation{RecordFile, fmt.Sprintf("its factor %.40s is %.80q, and that of treatment %.80s in %s %.80q", name, fmt.Sprint(r.Factors[name]), t.ID, PlanFile, fmt.Sprint(want))})
			}
		}
		if r.Control != t.Control {
			all = append(all, Refutation{RecordFile, fmt.Sprintf("control is %v, and in %s %v", r.Control, PlanFile, t.Control)})
		}
	}
	if r.Error != "" || r.Load == nil || !r.Load.conserves() {
		return all
	}
	if ok, answered := r.Load.Classes[string(load.OK)], r.Load.mayBeOK(); len(r.Load.Statuses) > 0 && ok > answered && !namesStatuses(d.experiment) {
		all = append(all, Refutation{RecordFile, fmt.Sprintf("load.statuses have %d answers below 400, and load.classes %d of class 2xx", answered, ok)})
	}
	return append(all, latencyRefutations(d, r, rows)...)
}

// mayBeOK counts the answers whose status is no HTTP error.
func (l *Load) mayBeOK() (sum int64) {
	for status, n := range l.Statuses {
		if code, err := strconv.Atoi(status); err != nil || code < 400 {
			sum += n
		}
	}
	return sum
}

// namesStatuses reports whether an experiment names the statuses of its answers, so that an error may be one.
func namesStatuses(experiment []byte) bool {
	var x struct {
		Load struct {
			Checks   map[string]any
			Requests any
		}
	}
	err := yaml.Unmarshal(experiment, &x)
	return err != nil || x.Load.Checks["status"] != nil || x.Load.Requests != nil
}

// latencyRefutations compares the response times in reports with other counts of the load: the sums of
// the slices, which are rows, or the log by the second.
func latencyRefutations(d *Dir, r *Record, rows []Slice) []Refutation {
	w := hdrlog.Window{From: r.Load.WarmupSeconds, To: r.Load.WarmupSeconds + r.Load.MeasureSeconds}
	tags := []string{load.TagResponse + string(load.OK)}
	tag := tags[0]
	name := MeasuredFile
	used, err := hdrlog.ReadFile(d.TrialFile(r.ID, name), w, tags)
	measured := err == nil
	if errors.Is(err, fs.ErrNotExist) {
		name = LatencyFile
		used, err = hdrlog.ReadFile(d.TrialFile(r.ID, name), w, tags)
	}
	if err != nil || used.Total(tag) != cmp.Or(r.Load.Recorded, r.Load.Classes[string(load.OK)]) || used.Total(tag) == 0 {
		return nil // reports do not use it
	}
	if r.Load.Slices == nil {
		logged, err := hdrlog.ReadFile(d.TrialFile(r.ID, LatencyFile), w, tags)
		if !measured || err != nil || hdrlog.Equal(used[tag], logged[tag]) {
			return nil
		}
		return []Refutation{{MeasuredFile, fmt.Sprintf("its histogram %q is not the sum of that of %s in the measure phase", tag, LatencyFile)}}
	}
	sum, n := int64(0), int64(0)
	for _, row := range rows {
		if row.Own {
			sum, n = sum+row.ResponseNS, n+row.OK
		}
	}
	if sum <= 0 || n != used.Total(tag) {
		return nil // slices of another count have their own finding
	}
	want := float64(sum) / float64(n)
	if got := used[tag].Mean(); math.Abs(got-want) > hdrlog.MeanError*want+float64(time.Microsecond) {
		return []Refutation{{name, fmt.Sprintf("its mean response time is %v, and that of the slices %v", time.Duration(got).Round(time.Microsecond), time.Duration(want).Round(time.Microsecond))}}
	}
	return nil
}

// traced compares the last readings of memory and CPU in a task's trace with the task's own.
func (c *contradictions) traced(r *Record) {
	interleaved := r.Load != nil && r.Load.Slices != nil
	for _, t := range r.Tasks {
		if t.Missing != "" || t.Ended || len(t.Memory) == 0 || t.Plane == metric.Node {
			continue
		}
		last := t.Memory[len(t.Memory)-1]
		if end := t.End.At.Sub(t.Start.At).Seconds(); t.End.RSS > 0 && math.Abs(last.Seconds-end) < 1e-6 && last.RSS != t.End.RSS {
			c.addf("task %s has %d bytes of memory at the end, and %d by its trace", t.ID, t.End.RSS, last.RSS)
		}
		for _, m := range t.Memory {
			if !interleaved && m.CPU > 0 && t.Reloaded == 0 && t.End.Restarts == t.Start.Restarts && !r.Disturbed() && (m.CPU < t.Start.CPU || m.CPU > t.End.CPU) {
				c.addf("task %s had used %v of CPU time %.3f s after its first reading, which is not between %v and %v", t.ID, time.Duration(m.CPU), m.Seconds, time.Duration(t.Start.CPU), time.Duration(t.End.CPU))
				break
			}
		}
	}
}

// tracedSlices compares the CPU of each plane in its slices with the traces of its tasks, which have the CPU of all slices.
func (c *contradictions) tracedSlices(r *Record, rows []Slice, began time.Time) {
	if r.Disturbed() || r.warned("clock-stepped", "counters-paced", "meter-gap") {
		return
	}
	for _, plane := range metric.Planes() {
		var from, to, innerFrom, innerTo time.Time
		sum, all := int64(0), true
		for _, t := range r.Tasks {
			if t.Plane != plane {
				continue
			}
			trace := slices.DeleteFunc(slices.Clone(t.Memory), func(m MemoryReading) bool { return m.CPU <= 0 })
			if t.Missing != "" || t.Ended || t.Reloaded != 0 || t.End.Restarts != t.Start.Restarts || len(trace) < 2 {
				all = false
				continue
			}
			at := func(m MemoryReading) time.Time { return t.Start.At.Add(time.Duration(m.Seconds * 1e9)) }
			first, last := trace[0], trace[len(trace)-1]
			sum += last.CPU - first.CPU
			if from.IsZero() || at(first).Before(from) {
				from = at(first)
			}
			if to.IsZero() || at(last).After(to) {
				to = at(last)
			}
			if innerFrom.IsZero() || at(first).After(innerFrom) {
				innerFrom = at(first)
			}
			if innerTo.IsZero() || at(last).Before(innerTo) {
				innerTo = at(last)
			}
		}
		if from.IsZero() {
			continue
		}
		least, most := int64(0), int64(0)
		for _, row := range rows {
			begin, end := began.Add(row.Begin), began.Add(row.End)
			if end.After(from.Add(-traceSlack)) && begin.Before(to.Add(traceSlack)) {
				most += row.CPU[plane]
			}
			if begin.After(innerFrom.Add(traceSlack)) && end.Before(innerTo.Add(-traceSlack)) {
				least += row.CPU[plane]
			}
		}
		slack := sliceSlack + most/50
		if sum > most+slack || all && sum < least-slack {
			c.addf("its slices have %v to %v of CPU time of plane %s between readings of the tasks' traces, which have %v",
				time.Duration(least), time.Duration(most), plane, time.Duration(sum))
		}
	}
}

// traceSlack bounds the time between the readings of a trace and of slices that belong together.
const traceSlack = 20 * time.Millisecond

// Refutation is a figure of a trial that another figure refutes.
type Refutation struct {
	File    string // of the trial
	Message string
}

// refutations makes the checks of a trial that are cheap enough for every reader: within its record, and of the record
// against its slices, if they could be read. Reports leave the trial out, and `tare verify` adds checks that read whole logs.
func (r *Record) refutations(rows []Slice, read bool) (all []Refutation) {
	all = lists.Map(r.Contradictions(), func(message string) Refutation { return Refutation{RecordFile, message} })
	if r.Error != "" || r.Load == nil || r.Load.Slices == nil || !read {
		return all
	}
	var c contradictions
	c.sliced(r, rows)
	return append(all, lists.Map(c.found, func(message string) Refutation { return Refutation{SlicesFile, message} })...)
}

// sliced compares slices with the record's counts, CPU and times of readings.
func (c *contradictions) sliced(r *Record, rows []Slice) {
	count, sum := 0, Slice{}
	own, all := map[metric.Plane]int64{}, map[metric.Plane]int64{}
	for _, row := range rows {
		if !row.Own && row.Intended+row.OK > 0 {
			c.addf("its slice %d is of another treatment and has %d requests", row.Slice, max(row.Intended, row.OK))
			return
		}
		sum.Add(&row.SliceCount)
		if row.Own {
			count++
		}
		for plane, ns := range row.CPU {
			if all[plane] += ns; row.Own {
				own[plane] += ns
			}
		}
	}
	if ok := r.Load.Classes[string(load.OK)]; count != r.Load.Slices.Count || sum.Intended != r.Load.Intended || sum.OK != ok {
		c.addf("its %d slices have %d requests, %d of class 2xx, and the record %d, %d and %d", count, sum.Intended, sum.OK, r.Load.Slices.Count, r.Load.Intended, ok)
	}
	c.slicedCPU(r, own, all)
	if len(rows) == 0 || r.warned("clock-stepped") {
		return
	}
	began := r.Load.Start.Add(-time.Duration(r.Load.WarmupSeconds * float64(time.Second)))
	c.tracedSlices(r, rows, began)
	c.edges(r, began.Add(rows[0].Begin), began.Add(rows[len(rows)-1].End), sliceEdge, "of the slices")
}

// slicedCPU compares the CPU of each plane. The CPU of the load is at least the CPU of own
// slices without the idle CPU, and at most the CPU of all slices.
func (c *contradictions) slicedCPU(r *Record, own, all map[metric.Plane]int64) {
	loaded, idle, unknown := map[metric.Plane]int64{}, map[metric.Plane]int64{}, map[metric.Plane]bool{}
	for _, t := range r.Tasks {
		loaded[t.Plane] += t.End.CPU - t.Start.CPU
		if t.IdleCPU != nil {
			idle[t.Plane] += *t.IdleCPU
		}
		if t.Missing != "" || t.Ended {
			unknown[t.Plane] = true
		}
	}
	for _, plane := range metric.Planes() {
		slack := sliceSlack + all[plane]/100
		if unknown[plane] || loaded[plane] >= own[plane]-idle[plane]-slack && loaded[plane] <= all[plane]+slack {
			continue
		}
		c.addf("its slices have %v of CPU time of plane %s, %v of it in own slices, and the tasks of the record %v",
			time.Duration(all[plane]), plane, time.Duration(own[plane]), time.Duration(loaded[plane]))
	}
}

const (
	// sliceSlack and a hundredth bound the rounding of idle CPU, ns.
	sliceSlack = int64(time.Millisecond)
	// sliceEdge bounds the time between a reading and the one that slices.csv has of it: tare reads one task after another.
	sliceEdge = 500 * time.Millisecond
	// promptEdge and edgeShare of the measure phase bound the distance of a reading from an edge without a warning.
	promptEdge = 250 * time.Millisecond
	edgeShare  = 0.011
)

// shifts are the warnings of a trial whose readings are known to be beside the edges.
var shifts = []string{"readings-shifted", "counters-paced", "node-paced", "meter-gap", "clock-stepped"}

// windowed compares the readings with the measure phase of the load. A run warns of readings beside its edges.
func (c *contradictions) windowed(r *Record) {
	if !r.Load.conserves() || r.Load.Slices != nil || r.Disturbed() || r.warned(shifts...) {
		return
	}
	limit := max(promptEdge, time.Duration(edgeShare*float64(r.Load.End.Sub(r.Load.Start))))
	c.edges(r, r.Load.Start, r.Load.End, limit, "that the measure phase of the load needs, without a warning")
}

func (r *Record) warned(codes ...string) bool {
	return slices.ContainsFunc(r.Warnings, func(w Warning) bool { return slices.Contains(codes, w.Code) })
}

// edges finds the task whose readings are furthest from the edges, if they are beyond a limit.
func (c *contradictions) edges(r *Record, begin, end time.Time, limit time.Duration, by string) {
	worst, edge, id := time.Duration(0), "", ""
	for _, t := range r.Tasks {
		if t.Missing != "" || t.Ended || t.Plane == metric.Node || t.Start.At.IsZero() || t.End.At.IsZero() || t.End.CPU == t.Start.CPU {
			continue
		}
		for _, at := range []struct {
			edge string
			off  time.Duration
		}{{"first reading", t.Start.At.Sub(begin)}, {"last one", t.End.At.Sub(end)}} {
			if at.off.Abs() > worst.Abs() {
				worst, edge, id = at.off, at.edge, t.ID
			}
		}
	}
	if side := "after"; worst.Abs() > limit {
		if worst < 0 {
			side = "before"
		}
		c.addf("task %s was read %v %s the %s %s", id, worst.Abs().Round(time.Millisecond), side, edge, by)
	}
}

// memorySlack bounds resident memory beyond the peak: the kernel counts pages by processor, up to 64 on each.
const memorySlack = 1 << 20

// memory: no task is larger than its peak. A node's own tasks are sums of control groups, which have no common peak.
func (c *contradictions) memory(r *Record) {
	for _, t := range r.Tasks {
		if t.Plane == metric.Node {
			continue
		}
		for _, at := range []Reading{t.Start, t.End} {
			pss := int64(0)
			if at.PSS != nil {
				pss = *at.PSS
			}
			if most := max(at.RSS, pss); at.Peak > 0 && most > at.Peak+max(memorySlack, at.Peak/100) {
				c.addf("task %s has %d bytes of memory, and its peak is %d", t.ID, most, at.Peak)
				break
			}
		}
		for _, m := range t.Memory {
			if peak := t.End.Peak; peak > 0 && m.RSS > peak+max(memorySlack, peak/100) {
				c.addf("task %s has %d bytes of memory %v s after its first reading, and its peak is %d", t.ID, m.RSS, m.Seconds, peak)
				break
			}
		}
	}
}
