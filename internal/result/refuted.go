package result

import (
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
)

// Refutation is a figure of a trial that another figure refutes.
type Refutation struct {
	File    string // of the trial
	Message string
}

// Refutations makes the checks of a trial that are cheap enough for every reader: within its record, and of the record
// against its slices, which are in a file at path. Reports leave the trial out, and `tare verify` adds checks that read whole logs. A
// missing or damaged slices.csv refutes nothing.
func (r *Record) Refutations(path string) (all []Refutation) {
	for _, message := range r.Contradictions() {
		all = append(all, Refutation{RecordFile, message})
	}
	if r.Error != "" || r.Load == nil || r.Load.Slices == nil {
		return all
	}
	rows, err := ReadSlices(path)
	if err != nil {
		return all
	}
	var c contradictions
	c.sliced(r, rows)
	for _, message := range c.found {
		all = append(all, Refutation{SlicesFile, message})
	}
	return all
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
