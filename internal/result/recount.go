package result

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
)

// recount compares figures of a record with others that follow from the same plan, requests or readings.
type recount struct {
	dir       *Dir
	r         *Record
	treatment plan.Treatment
	found     []Refutation
}

// ownGenerator is the load generator whose counts are exact.
const ownGenerator = "tare"

func (c *recount) add(file, format string, args ...any) {
	c.found = append(c.found, Refutation{file, fmt.Sprintf(format, args...)})
}

// recounted finds what the figures of a trial with a load contradict.
func recounted(d *Dir, r *Record, t plan.Treatment) []Refutation {
	c := &recount{dir: d, r: r, treatment: t}
	if levels := t.Levels; d.environment.Platform != "import" && levels.Generator != "" && levels.Generator != r.Load.Generator {
		c.add(RecordFile, "load.generator is %.40q, and the treatment has %.40q", r.Load.Generator, levels.Generator)
	}
	c.placed()
	c.outside()
	if d.environment.Platform == mesh.OnLocal {
		c.local()
	}
	if l := r.Load; l.Generator == ownGenerator && l.conserves() {
		c.planned()
		c.bytes()
		c.generatorCPU()
		c.lateness()
	}
	return c.found
}

// planned compares the load with the levels of its treatment.
func (c *recount) planned() {
	l, levels := c.r.Load, c.treatment.Levels
	if levels.Connections > 0 && levels.ConnectionRate == 0 && l.Workers <= 1 && l.Connections != levels.Connections {
		c.add(RecordFile, "load.connections is %d, and the treatment has %d", l.Connections, levels.Connections)
	}
	loop, arrivals := loopClosed, []string{""}
	if l.AskedRate > 0 {
		loop, arrivals = "open", []string{"constant", "poisson", "replay", ""}
	}
	if l.Loop != loop || !slices.Contains(arrivals, l.Arrivals) {
		c.add(RecordFile, "load.loop is %.20q with arrivals %.20q, and load.askedRate %v", l.Loop, l.Arrivals, l.AskedRate)
	}
	if w := c.r.Whole(); w != nil && c.r.Balance != nil {
		for _, f := range c.r.Balance.Flows {
			if n := w.Connections; f.Service == "load" && f.Point == "sent" && f.Unit == "connection" && f.Count != n {
				c.add(RecordFile, "balance.flows has %d connections of the load, and load.whole.connections is %d", f.Count, n)
			}
		}
	}
}

// local compares the processors of a trial on this machine.
func (c *recount) local() {
	if n := c.r.Node; n != nil && n.CPUs > 0 && c.dir.environment.CPUs > 0 && n.CPUs != c.dir.environment.CPUs {
		c.add(RecordFile, "node.cpus is %d, and that of %s %d", n.CPUs, EnvironmentFile, c.dir.environment.CPUs)
	}
}

// placed: the random time before a measure phase lies in its range, which is at least half of the planned warm-up.
func (c *recount) placed() {
	p := c.r.Placing
	if p == nil {
		return
	}
	const rounding = 1e-6
	if p.LeastSeconds < p.PlannedSeconds/2-rounding || p.RangeSeconds < p.PlannedSeconds/2-rounding || p.Seconds < p.LeastSeconds-rounding || p.Seconds > p.LeastSeconds+p.RangeSeconds+rounding {
		c.add(RecordFile, "placing has %v s of %v to %v s for a planned warm-up of %v s", p.Seconds, p.LeastSeconds, p.LeastSeconds+p.RangeSeconds, p.PlannedSeconds)
	}
}

// tick is the unit of the machine's CPU times.
const tick = 10 * time.Millisecond

// outside: CPU time that no task used is the remainder of the machine's, in trials without slices.
func (c *recount) outside() {
	r := c.r
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
		c.add(RecordFile, "outsideCPU is %v, and the machine used %v beyond the tasks", time.Duration(*r.Outside), time.Duration(want))
	}
}

// shortest is the shortest HTTP/1.1 request to an address of IPv4.
const shortest = "GET / HTTP/1.1\r\nHost: 1.1.1.1\r\n\r\n"

// bytes: answers have at least the bytes of their bodies, and requests those of a request line and a body.
func (c *recount) bytes() {
	l, levels := c.r.Load, c.treatment.Levels
	answered, sent := l.Classes[string(load.OK)]-*l.BacklogStart, l.Sent-*l.BacklogStart-*l.BacklogEnd
	body := int64(0) // of services that answer as the treatment has it
	if a := c.r.Answers; len(a) == 1 && a[0].Bytes != nil && *a[0].Bytes == int64(levels.ResponseSize) {
		body = *a[0].Bytes
	}
	if size, ok := c.r.Factors["responseSize"].(float64); ok {
		body = max(body, int64(size))
	}
	if l.BytesIn > 0 && l.BytesIn < body*answered {
		c.add(RecordFile, "load.bytesIn is %d, and %d answers have bodies of %d bytes", l.BytesIn, answered, body)
	}
	least := int64(0)
	if levels.Protocol == app.HTTP1 {
		least = int64(len(shortest))
	}
	if size, ok := c.r.Factors["requestSize"].(float64); ok {
		least += int64(size)
	}
	if l.BytesOut > 0 && l.BytesOut < least*sent {
		c.add(RecordFile, "load.bytesOut is %d, and %d requests have %d bytes or more each", l.BytesOut, sent, least)
	}
}

// generatorCPU: the generator counts as much CPU time of its own as its tasks used. The tasks of a probe of changes are not counted.
func (c *recount) generatorCPU() {
	r := c.r
	if r.Load.CPUSeconds == nil || r.ChangeProbe != nil || c.dir.environment.Platform != mesh.OnLocal {
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
		c.add(RecordFile, "load.cpuSeconds is %.3f, and the tasks of the load used %.3f s", own, sum)
	}
}

// lateness compares the quantiles of the record with those of the log.
func (c *recount) lateness() {
	l := c.r.Load
	if l.LatenessP50US == nil || l.LatenessP99US == nil || l.LatenessMaxUS == nil || l.Workers > 1 {
		return
	}
	p50, p99, most := *l.LatenessP50US, *l.LatenessP99US, *l.LatenessMaxUS
	if own := l.OwnLatenessP99US; p50 > p99 || p99 > most || own != nil && *own > p99*(1+hdrlog.MeanError) {
		c.add(LatencyFile, "the record's lateness has median %v, p99 %v, and maximum %v µs", p50, p99, most)
		return
	}
	window := hdrlog.Window{From: l.WarmupSeconds, To: l.WarmupSeconds + l.MeasureSeconds}
	sums, err := hdrlog.ReadFile(c.dir.TrialFile(c.r.ID, MeasuredFile), window, []string{load.TagLateness})
	if errors.Is(err, fs.ErrNotExist) {
		sums, err = hdrlog.ReadFile(c.dir.TrialFile(c.r.ID, LatencyFile), window, []string{load.TagLateness})
	}
	if err != nil || sums.Total(load.TagLateness) != cmp.Or(total(l.Classes), -1) {
		return // of another count, which has its own finding
	}
	logged := hdrlog.Dense(sums[load.TagLateness])
	for _, q := range []struct {
		name string
		at   float64
		us   float64
	}{{"latenessP50US", 50, p50}, {"latenessP99US", 99, p99}, {"latenessMaxUS", 100, most}} {
		if want := float64(logged.ValueAtQuantile(q.at)) / 1e3; math.Abs(q.us-want) > hdrlog.MeanError*max(q.us, want)+1e-3 {
			c.add(LatencyFile, "its lateness is %v µs at quantile %v, and load.%s is %v", want, q.at/100, q.name, q.us)
			return
		}
	}
}
