package verify

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"reflect"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// recount compares figures of a record with others that follow from the same plan, requests, readings or events.
type recount struct {
	found  *findings
	dir    *result.Dir
	file   string // of the record
	levels experiment.Levels
	local  bool // the trial was on this machine
}

// recounted finds the contradictions of one trial.
func recounted(f *findings, d *result.Dir, r *result.Record, l *timeline) {
	if r.Error != "" || r.Load == nil {
		return
	}
	c := recount{found: f, dir: d, file: path.Join(result.TrialsDir, r.ID, result.RecordFile), local: d.Environment().Platform == mesh.OnLocal}
	for _, t := range d.Plan().Treatments {
		if t.ID == r.Treatment {
			c.levels = t.Levels
		}
	}
	c.marks(r, l)
	c.placed(r)
	c.outside(r)
	c.processors(r)
	c.conserved(r)
	c.divided(r)
	if c.levels.Generator != "" && c.levels.Generator != r.Load.Generator {
		c.problem(fmt.Sprintf("load.generator is %.40q, and the treatment has %.40q", r.Load.Generator, c.levels.Generator))
	}
	if r.Load.Generator != ownGenerator || r.Load.BacklogStart == nil || r.Load.BacklogEnd == nil {
		return
	}
	c.planned(r)
	c.bytes(r)
	c.generatorCPU(r)
	c.lateness(r)
}

// marks compares the faults and changes of the record with the events of them.
func (c recount) marks(r *result.Record, l *timeline) {
	file := path.Join(result.TrialsDir, r.ID, result.EventsFile)
	made := func(c result.Change) result.Change { // an event lacks the effects
		return result.Change{Kind: c.Kind, Version: c.Version, Endpoint: c.Endpoint, Task: c.Task, DueSeconds: c.DueSeconds, SentSeconds: c.SentSeconds, AcceptedSeconds: c.AcceptedSeconds}
	}
	// Changes that overlap are answered, and then logged, in another order than they were sent.
	inOrder := func(changes []result.Change) []result.Change {
		sorted := slices.Clone(changes)
		slices.SortStableFunc(sorted, func(a, b result.Change) int {
			return cmp.Or(cmp.Compare(a.DueSeconds, b.DueSeconds), cmp.Compare(a.SentSeconds, b.SentSeconds), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Endpoint, b.Endpoint))
		})
		return sorted
	}
	if !slices.EqualFunc(inOrder(r.Changes), inOrder(l.changes), func(a, b result.Change) bool { return reflect.DeepEqual(made(a), made(b)) }) {
		c.found.problem(file, fmt.Sprintf("its %d changes are not the %d changes of the record", len(l.changes), len(r.Changes)))
	}
	for _, of := range r.Faults {
		// The event of the injection has no end yet, and the event of healing has both.
		either := func(a, b time.Time) bool { return a.IsZero() || b.IsZero() || a.Equal(b) }
		same := func(e result.Fault) bool { return e.Index == of.Index && e.Start.Equal(of.Start) }
		states := lists.Where(l.faults, same)
		if len(states) == 0 {
			c.found.problem(file, fmt.Sprintf("it has no fault %s of %s, as the record has", of.Kind, of.Start.Format(time.RFC3339Nano)))
			continue
		}
		if last := states[len(states)-1]; last.Kind != of.Kind || !slices.Equal(last.Targets, of.Targets) || !either(last.Done, of.Done) || !either(last.Healed, of.Healed) {
			c.found.problem(file, fmt.Sprintf("its fault %s of %s was done at %s and healed at %s, and that of the record at %s and %s", last.Kind, of.Start.Format(time.RFC3339Nano),
				last.Done.Format(time.RFC3339Nano), last.Healed.Format(time.RFC3339Nano), of.Done.Format(time.RFC3339Nano), of.Healed.Format(time.RFC3339Nano)))
		}
	}
	for _, e := range l.faults {
		if !slices.ContainsFunc(r.Faults, func(of result.Fault) bool { return e.Index == of.Index && e.Start.Equal(of.Start) }) {
			c.found.problem(file, fmt.Sprintf("it has a fault %s of %s, which the record lacks", e.Kind, e.Start.Format(time.RFC3339Nano)))
		}
	}
}

// placed: the random time before a measure phase lies in its range, which is at least half of the planned warm-up.
func (c recount) placed(r *result.Record) {
	p := r.Placing
	if p == nil {
		return
	}
	const rounding = 1e-6
	if p.LeastSeconds < p.PlannedSeconds/2-rounding || p.RangeSeconds < p.PlannedSeconds/2-rounding || p.Seconds < p.LeastSeconds-rounding || p.Seconds > p.LeastSeconds+p.RangeSeconds+rounding {
		c.problem(fmt.Sprintf("placing has %v s of %v to %v s for a planned warm-up of %v s", p.Seconds, p.LeastSeconds, p.LeastSeconds+p.RangeSeconds, p.PlannedSeconds))
	}
}

// tick is the unit of the machine's CPU times.
const tick = 10 * time.Millisecond

// outside: CPU time that no task used is the remainder of the machine's, in trials without slices.
func (c recount) outside(r *result.Record) {
	if r.Outside == nil || r.Node == nil || r.Load.Slices != nil || r.Disturbed() {
		return
	}
	want := r.Node.End.Busy - r.Node.Start.Busy
	for _, t := range r.Tasks {
		if t.Missing != "" || t.Ended || t.Reloaded != 0 || t.End.Restarts != t.Start.Restarts {
			return
		}
		want -= t.End.CPU - t.Start.CPU
	}
	slack := int64(tick)*int64(2+r.Node.CPUs) + (r.Node.End.Busy-r.Node.Start.Busy)/50
	// Tasks are read beside the machine, so that the remainder may be below zero.
	if off := *r.Outside - want; off > slack || off < -slack {
		c.problem(fmt.Sprintf("outsideCPU is %v, and the machine used %v beyond the tasks", time.Duration(*r.Outside), time.Duration(want)))
	}
}

// processors: every trial on this machine has its processors.
func (c recount) processors(r *result.Record) {
	if n, all := r.Node, c.dir.Environment().CPUs; c.local && n != nil && n.CPUs > 0 && all > 0 && n.CPUs != all {
		c.problem(fmt.Sprintf("node.cpus is %d, and in %s %d", n.CPUs, result.EnvironmentFile, all))
	}
}

// conserved derives the equations of requests again from their counters.
func (c recount) conserved(r *result.Record) {
	x := c.found.of
	if x == nil || !c.local || x.Application.Source.IsSet() {
		return
	}
	t, err := x.TopologyOf(c.levels)
	if err != nil {
		return
	}
	if r.Edges > 0 && r.Edges != t.Edges() {
		c.problem(fmt.Sprintf("edges is %d, and a request makes %d calls in the application", r.Edges, t.Edges()))
	}
	if r.Balance == nil || len(r.Balance.Equations) == 0 {
		return
	}
	rules := balance.Rules{Retries: c.dir.Environment().Provides[c.levels.Mesh].Retries, Measured: 1}
	if w := r.Load.Whole; w != nil && w.Sent > 0 {
		rules.Measured = float64(r.Load.Sent) / float64(w.Sent)
	}
	again := balance.Check(t, rules, r.Balance.Flows).Equations
	for i, e := range r.Balance.Equations {
		if i >= len(again) || e != again[i] {
			c.found.judgement(c.file, fmt.Sprintf("balance.equations[%d] has %d %ss expected and %d counted %.80s, and its counters give another equation", i, e.Expected, e.Unit, e.Counted, e.Where))
			return
		}
	}
	if len(again) > len(r.Balance.Equations) {
		c.found.judgement(c.file, fmt.Sprintf("balance.equations has %d equations, and its counters give %d", len(r.Balance.Equations), len(again)))
	}
}

// dividedSlack bounds the rounding of idle and deferred CPU, ns.
const dividedSlack = int64(10 * time.Microsecond)

// divided: the CPU of the slices of others is idle or deferred CPU of the trial's tasks.
func (c recount) divided(r *result.Record) {
	if r.Load.Slices == nil || r.Disturbed() || c.found.unread != nil {
		return
	}
	others, parts, known := map[metric.Plane]int64{}, map[metric.Plane]int64{}, map[metric.Plane]bool{}
	for _, row := range c.found.rows {
		for plane, ns := range row.CPU {
			if !row.Own {
				others[plane] += ns
			}
		}
	}
	for _, t := range r.Tasks {
		if t.Missing != "" || t.Ended || t.IdleCPU == nil || t.DeferredCPU == nil {
			others[t.Plane] = -1
			continue
		}
		known[t.Plane], parts[t.Plane] = true, parts[t.Plane]+*t.IdleCPU+*t.DeferredCPU
	}
	for _, plane := range metric.Planes() {
		if off := parts[plane] - others[plane]; known[plane] && others[plane] >= 0 && max(off, -off) > dividedSlack {
			c.problem(fmt.Sprintf("its tasks of plane %s have %v of idle and deferred CPU time, and the slices of others %v", plane, time.Duration(parts[plane]), time.Duration(others[plane])))
		}
	}
}

// planned compares the load with the levels of its treatment.
func (c recount) planned(r *result.Record) {
	l := r.Load
	if c.levels.Connections > 0 && c.levels.ConnectionRate == 0 && l.Workers <= 1 && l.Connections != c.levels.Connections {
		c.problem(fmt.Sprintf("load.connections is %d, and the treatment has %d", l.Connections, c.levels.Connections))
	}
	loop, arrivals := "closed", []string{""}
	if l.AskedRate > 0 {
		loop, arrivals = "open", []string{load.Constant, load.Poisson, load.Uniform, "replay", ""} // older records have recorded instants, or none
	}
	if l.Loop != loop || !slices.Contains(arrivals, l.Arrivals) {
		c.problem(fmt.Sprintf("load.loop is %.20q with arrivals %.20q, and load.askedRate %v", l.Loop, l.Arrivals, l.AskedRate))
	}
	if w := r.Whole(); w != nil && r.Balance != nil {
		for _, f := range r.Balance.Flows {
			if f.Service == balance.LoadName && f.Point == balance.Sent && f.Unit == balance.Connections && f.Unknown == "" && f.Count != w.Connections {
				c.problem(fmt.Sprintf("balance.flows has %d connections of the load, and load.whole.connections is %d", f.Count, w.Connections))
			}
		}
	}
}

// shortest is the shortest HTTP/1.1 request.
const shortest = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// bytes: answers have at least the bytes of their bodies, and requests those of a request line and a body. Requests of the window
// may have been sent and answered after it.
func (c recount) bytes(r *result.Record) {
	l := r.Load
	later := *l.BacklogStart + *l.BacklogEnd
	answered, sent := l.Classes[string(load.OK)]-later, l.Sent-later
	body, _ := r.Factors["responseSize"].(float64)
	if a := r.Answers; c.levels.Protocol == app.HTTP1 && len(a) == 1 && a[0].Bytes != nil && *a[0].Bytes == int64(c.levels.ResponseSize) {
		body = float64(*a[0].Bytes) // the services answer as the treatment has it
	}
	if l.BytesIn > 0 && float64(l.BytesIn) < body*float64(answered) {
		c.problem(fmt.Sprintf("load.bytesIn is %d, and %d answers have bodies of %v bytes", l.BytesIn, answered, body))
	}
	size, _ := r.Factors["requestSize"].(float64)
	if c.levels.Protocol == app.HTTP1 {
		size += float64(len(shortest))
	}
	if l.BytesOut > 0 && float64(l.BytesOut) < size*float64(sent) {
		c.problem(fmt.Sprintf("load.bytesOut is %d, and %d requests have at least %v bytes each", l.BytesOut, sent, size))
	}
}

// generatorCPU: the generator counts as much CPU time of its own as its tasks used. A busy machine reads tasks beside the edges of the
// measure phase, in which the generator counts: they are then compared by their rate. The tasks of a probe of changes are not counted.
func (c recount) generatorCPU(r *result.Record) {
	if r.Load.CPUSeconds == nil || r.ChangeProbe != nil || !c.local {
		return
	}
	sum, n := 0.0, 0
	whole := r.Load.End.Sub(r.Load.Start).Seconds()
	for _, t := range r.Tasks {
		if t.Plane == metric.Load && t.Missing == "" {
			sum, n = sum+float64(t.End.CPU-t.Start.CPU)/1e9*whole/t.End.At.Sub(t.Start.At).Seconds(), n+1
		}
	}
	own := *r.Load.CPUSeconds
	if slack := 2*tick.Seconds() + 0.2*max(own, sum); n > 0 && math.Abs(own-sum) > slack {
		c.problem(fmt.Sprintf("load.cpuSeconds is %.3f, and the tasks of the load used %.3f s", own, sum))
	}
}

// lateness compares the quantiles of the record with those of the log.
func (c recount) lateness(r *result.Record) {
	l := r.Load
	if l.LatenessP50US == nil || l.LatenessP99US == nil || l.LatenessMaxUS == nil || l.Workers > 1 {
		return
	}
	p50, p99, most := *l.LatenessP50US, *l.LatenessP99US, *l.LatenessMaxUS
	if own := l.OwnLatenessP99US; p50 > p99 || p99 > most || own != nil && *own > p99*(1+hdrlog.MeanError) {
		c.problem(fmt.Sprintf("its lateness has median %v, p99 %v, and maximum %v µs", p50, p99, most))
		return
	}
	window := hdrlog.Window{From: l.WarmupSeconds, To: l.WarmupSeconds + l.MeasureSeconds}
	sums, err := hdrlog.ReadFile(c.dir.TrialFile(r.ID, result.LatencyFile), window, []string{load.TagLateness})
	requests := int64(0)
	for _, n := range l.Classes {
		requests += n
	}
	if err != nil || l.Recorded == 0 || requests == 0 || sums.Total(load.TagLateness) != requests {
		return // intervals of the log are not those of the window, or another finding has the count
	}
	logged := hdrlog.Dense(sums[load.TagLateness])
	for _, q := range []struct {
		name   string
		at, us float64
	}{{"latenessP50US", 50, p50}, {"latenessP99US", 99, p99}, {"latenessMaxUS", 100, most}} {
		if want := float64(logged.ValueAtQuantile(q.at)) / 1e3; math.Abs(q.us-want) > hdrlog.MeanError*max(q.us, want)+0.01 {
			c.problem(fmt.Sprintf("load.%s is %v, and by the latency log it is %v", q.name, q.us, want))
			return
		}
	}
}

func (c recount) problem(message string) { c.found.problem(c.file, message) }
