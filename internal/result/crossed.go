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
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
)

// Refuted makes the checks of a recorded trial that are cheap enough for every reader: of [Record.Refutations], and of the
// record against the plan, the experiment and the latency logs.
func Refuted(d *Dir, r *Record) []Refutation {
	all := r.Refutations(d.TrialFile(r.ID, SlicesFile))
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
	return append(all, latencyRefutations(d, r)...)
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

// latencyRefutations compares the response times that reports use with those that the load counted otherwise: the sums of
// the slices, or the log by the second.
func latencyRefutations(d *Dir, r *Record) []Refutation {
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
	rows, err := ReadSlices(d.TrialFile(r.ID, SlicesFile))
	if err != nil {
		return nil
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
	if got := hdrlog.Dense(used[tag]).Mean(); math.Abs(got-want) > hdrlog.MeanError*want+float64(time.Microsecond) {
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
