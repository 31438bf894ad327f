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
}

// Advance does the work that is due at now.
func (c *Ticker) Advance(r *Recorder, now int64) {
	if now >= c.NextEdge {
		c.Edge(r, now)
	}
	for now >= c.NextTick {
		r.pass(now)
		r.Publish(int(c.NextTick/1e9) - 1)
		c.NextTick += 1e9
	}
}

func (c *Ticker) Edge(r *Recorder, now int64) {
	thread, process := host.ThreadCPU(), host.ProcessCPU()
	if c.NextEdge == r.Window[0] {
		c.threadCPU, c.edgeAt, c.NextEdge = thread, now, r.Window[1]
		r.process[0] = process
		if now < c.NextEdge {
			return
		}
	}
	r.ThreadCPU, r.wall = thread-c.threadCPU, time.Duration(now-c.edgeAt)
	r.covered = max(0, time.Duration(min(now, r.Window[1])-r.Window[0]))
	r.process[1] = process
	c.NextEdge = load.Never
}
