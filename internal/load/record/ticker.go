package record

import (
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/host"
)

// Ticker does a worker's work by the clock: the CPU readings at the edges of
// the measure window and the hand-over at the end of every second. Instants are
// ns from t0.
type Ticker struct {
	NextTick, NextEdge int64
	edgeAt             int64
	threadCPU          time.Duration // at the beginning of the window
	processCPU         time.Duration // likewise, worker 0
}

// Advance does the work that is due at now, for worker number.
func (c *Ticker) Advance(r *Recorder, number int, now int64) {
	if now >= c.NextEdge {
		c.Edge(r, number, now)
	}
	for now >= c.NextTick {
		r.pass(now)
		r.Publish(int(c.NextTick/1e9) - 1)
		c.NextTick += 1e9
	}
}

func (c *Ticker) Edge(r *Recorder, number int, now int64) {
	thread, process := host.ThreadCPU(), host.ProcessCPU()
	if c.NextEdge == r.Window[0] {
		c.threadCPU, c.processCPU, c.edgeAt, c.NextEdge = thread, process, now, r.Window[1]
		if now < c.NextEdge {
			return
		}
	}
	r.ThreadCPU, r.wall = thread-c.threadCPU, time.Duration(now-c.edgeAt)
	r.covered = max(0, time.Duration(min(now, r.Window[1])-r.Window[0]))
	if number == 0 {
		r.processCPU = process - c.processCPU
	}
	c.NextEdge = load.Never
}
