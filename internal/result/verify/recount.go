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
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// recount compares figures of a record with others that follow from the same requests, readings or events.
type recount struct {
	found *findings
	dir   *result.Dir
	file  string // of the record
}

// recounted finds the contradictions of one trial.
func recounted(f *findings, d *result.Dir, r *result.Record, l *timeline) {
	if r.Error != "" || r.Load == nil {
		return
	}
	c := recount{found: f, dir: d, file: path.Join(result.TrialsDir, r.ID, result.RecordFile)}
	c.marks(r, l)
	c.placed(r)
	c.outside(r)
	if r.Load.Generator != ownGenerator || r.Load.BacklogStart == nil {
		return
	}
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
		same := func(e result.Fault) bool {
			return e.Index == of.Index && e.Kind == of.Kind && e.Start.Equal(of.Start) && slices.Equal(e.Targets, of.Targets) && (of.Healed.IsZero() || e.Healed.IsZero() || e.Healed.Equal(of.Healed))
		}
		if !slices.ContainsFunc(l.faults, same) {
			c.found.problem(file, fmt.Sprintf("it has no fault %s of %s, as the record has", of.Kind, of.Start.Format(time.RFC3339Nano)))
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

// bytes: answers have at least the bytes of their bodies, and requests those of a request line.
func (c recount) bytes(r *result.Record) {
	l := r.Load
	answered, sent := l.Classes[string(load.OK)]-*l.BacklogStart, l.Sent-*l.BacklogStart
	if size, ok := r.Factors["responseSize"].(float64); ok && l.BytesIn > 0 && float64(l.BytesIn) < size*float64(answered) {
		c.problem(fmt.Sprintf("load.bytesIn is %d, and %d answers have bodies of %v bytes", l.BytesIn, answered, size))
	}
	if size, ok := r.Factors["requestSize"].(float64); ok && l.BytesOut > 0 && float64(l.BytesOut) < size*float64(sent) {
		c.problem(fmt.Sprintf("load.bytesOut is %d, and %d requests have bodies of %v bytes", l.BytesOut, sent, size))
	}
}

// generatorCPU: the generator counts as much CPU time of its own as its tasks used. The tasks of a probe of changes are not counted.
func (c recount) generatorCPU(r *result.Record) {
	if r.Load.CPUSeconds == nil || r.ChangeProbe != nil || c.dir.Environment().Platform != mesh.OnLocal {
		return
	}
	sum, n := 0.0, 0
	for _, t := range r.Tasks {
		if t.Plane == metric.Load && t.Missing == "" {
			sum, n = sum+float64(t.End.CPU-t.Start.CPU)/1e9, n+1
		}
	}
	own := *r.Load.CPUSeconds
	if slack := 2*tick.Seconds() + 0.2*max(own, sum); n > 0 && math.Abs(own-sum) > slack {
		c.problem(fmt.Sprintf("load.cpuSeconds is %.3f, and the tasks of the load used %.3f s", own, sum))
	}
}

// lateness: the mean of response times is longer than that of service times by the mean lateness, which the median, the 99th
// percentile and the maximum bound.
func (c recount) lateness(r *result.Record) {
	l := r.Load
	n := l.Classes[string(load.OK)]
	if l.LatenessP50US == nil || l.LatenessP99US == nil || l.LatenessMaxUS == nil || n < 100 || n != l.Intended || l.Recorded > 0 && l.Recorded != n || l.Workers > 1 {
		return
	}
	p50, p99, most := *l.LatenessP50US, *l.LatenessP99US, *l.LatenessMaxUS
	if own := l.OwnLatenessP99US; p50 > p99 || p99 > most || own != nil && *own > p99*(1+hdrlog.MeanError) {
		c.problem(fmt.Sprintf("its lateness has median %v, p99 %v, and maximum %v µs", p50, p99, most))
		return
	}
	tags := []string{load.TagResponse + string(load.OK), load.TagService + string(load.OK)}
	sums, err := hdrlog.ReadFile(c.dir.TrialFile(r.ID, result.LatencyFile), hdrlog.Window{From: l.WarmupSeconds, To: l.WarmupSeconds + l.MeasureSeconds}, tags)
	if err != nil || sums.Total(tags[0]) != n || sums.Total(tags[1]) != n {
		return // [findings.latencies] has the finding
	}
	response, service := hdrlog.Dense(sums[tags[0]]).Mean()/1e3, hdrlog.Dense(sums[tags[1]]).Mean()/1e3
	mean, slack := response-service, 2+hdrlog.MeanError*(response+service)
	low, high := 0.49*p50+0.009*(p99-p50), 0.5*p50+0.49*p99+(0.01+1/float64(n))*most
	if mean < low-slack || mean > high+slack {
		c.problem(fmt.Sprintf("its lateness (median %.0f, p99 %.0f, maximum %.0f µs) has a mean of %.0f to %.0f µs, and by the latency log it is %.0f", p50, p99, most, low, high, mean))
	}
}

func (c recount) problem(message string) { c.found.problem(c.file, message) }
