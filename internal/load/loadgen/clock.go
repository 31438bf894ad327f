package loadgen

import (
	"math"
	"time"
)

// never is later than anything.
const never = math.MaxInt64

// laneClock does a worker's work by the clock: the CPU readings at the edges of
// the measure window and the hand-over at the end of every second. Instants are
// ns from t0.
type laneClock struct {
	nextTick, nextEdge int64
	edgeAt             int64
	threadCPU          time.Duration // at the beginning of the window
	processCPU         time.Duration // likewise; worker 0
}

// look does what is due at now, for worker number.
func (c *laneClock) look(r *recorder, number int, now int64) {
	if now >= c.nextEdge {
		c.edge(r, number, now)
	}
	for now >= c.nextTick {
		r.pass(now)
		r.publish(int(c.nextTick/1e9) - 1)
		c.nextTick += 1e9
	}
}

func (c *laneClock) edge(r *recorder, number int, now int64) {
	thread, process := threadCPU(), processCPU()
	if c.nextEdge == r.window[0] {
		c.threadCPU, c.processCPU, c.edgeAt, c.nextEdge = thread, process, now, r.window[1]
		if now < c.nextEdge {
			return
		}
	}
	r.threadCPU, r.wall = thread-c.threadCPU, time.Duration(now-c.edgeAt)
	r.covered = max(0, time.Duration(min(now, r.window[1])-r.window[0]))
	if number == 0 {
		r.processCPU = process - c.processCPU
	}
	c.nextEdge = never
}
