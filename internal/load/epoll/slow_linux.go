package epoll

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/host"
	"github.com/tare-mesh/tare/internal/load/record"
)

// What a worker does a few times a second, apart from what it does per request.

// stolenSpin is how many times a second a spinning worker may be taken off its
// processor before it concludes that the core is not free, and stops spinning.
const stolenSpin = 100

// housekeep does what is due now and not a request.
func (w *Worker) housekeep() {
	if w.now >= w.nextRetry {
		w.retry()
	}
	tick := w.NextTick
	if w.Advance(&w.rec, w.number, w.now); w.NextTick != tick {
		w.adaptSpin()
	}
}

// adaptSpin gives up spinning where somebody else needs the core.
func (w *Worker) adaptSpin() {
	taken := host.Preempted()
	if w.spin > 0 && taken-w.taken > stolenSpin {
		w.spin = 0
	}
	w.taken = taken
}

// retry opens the connections whose backoff is over.
func (w *Worker) retry() {
	w.nextRetry = load.Never
	for i := range w.pools {
		p := &w.pools[i]
		for range p.closed.Size {
			c, _ := p.closed.Pop()
			switch {
			case !c.current():
			case c.retryAt > w.now:
				p.closed.Push(c)
				w.nextRetry = min(w.nextRetry, c.retryAt)
			case w.sending() || p.queue.Size > 0:
				w.takeNext(c.conn)
			}
		}
	}
}

// takeNext opens a closed place, for the request that has waited longest if there is one.
func (w *Worker) takeNext(c *conn) {
	if !w.closedLoop() {
		if intended, ok := c.pool.queue.Pop(); ok {
			w.begin(c, intended, w.now)
			return
		}
	}
	if w.fresh {
		w.vacate(c)
		return
	}
	w.open(c)
}

// over says that nothing more will be sent and nothing is awaited any longer.
func (w *Worker) over() bool {
	if w.sending() {
		return false
	}
	if w.rec.Intended >= w.quota && w.now < w.end && !w.stopped {
		return w.quotaOver()
	}
	if w.now >= w.drainEnd {
		return true
	}
	waiting := w.inFlight
	for i := range w.pools {
		waiting += w.pools[i].queue.Size
	}
	return waiting == 0 && w.now >= w.lastEdge()
}

// quotaOver says that all of a given number of requests have ended, and ends the
// measure window then.
func (w *Worker) quotaOver() bool {
	waiting := w.inFlight
	for i := range w.pools {
		waiting += w.pools[i].queue.Size
	}
	if waiting == 0 {
		w.cut()
	}
	return waiting == 0
}

// lastEdge is when the worker may stop looking at the clock: an idle worker must
// still be there to read its CPU at the end of the window.
func (w *Worker) lastEdge() int64 {
	if w.NextEdge == load.Never {
		return w.now
	}
	return w.rec.Window[1]
}

// giveUp ends what is still under way when the drain is over, as time-outs.
func (w *Worker) giveUp() {
	w.tick()
	w.rec.Unfinished = int64(w.inFlight)
	for i := range w.conns {
		c := &w.conns[i]
		if c.carries {
			w.finish(c, load.FailureTimeout, 0)
		}
		if c.session != nil {
			w.endStreams(c, load.FailureTimeout)
		}
		w.drop(c)
	}
	for _, d := range w.detours {
		if d.carries {
			w.finish(d, load.FailureTimeout, 0)
		}
		w.drop(d)
	}
	for i := range w.pools {
		for q := &w.pools[i].queue; q.Size > 0; {
			intended, _ := q.Pop()
			w.rec.Unfinished++
			w.rec.Finish(record.Outcome{Intended: intended, Sent: -1, End: w.now, Kind: load.FailureNotSent})
		}
	}
	if w.NextEdge != load.Never {
		w.Edge(&w.rec, w.number, w.now)
	}
	w.rec.Publish(int(w.now / 1e9))
	w.rec.Flush()
	w.rec.Spin = time.Duration(w.spin)
}

// attend is called when another thread has woken the worker: it has posted
// something, or the worker is to stop sending and end the measure window here, if it
// is not yet over.
func (w *Worker) attend() {
	var count [8]byte
	_, _ = unix.Read(w.poll.wakefd, count[:])
	if told := w.collect(); !told || w.stopped {
		return
	}
	w.tick()
	w.stopped = true
	if w.started {
		w.cut()
	}
}

// cut ends the schedule and the measure window now.
func (w *Worker) cut() {
	w.nextDue = load.Never
	w.drainEnd = min(w.drainEnd, w.now+w.drain)
	for i := range w.rec.Window {
		w.rec.Window[i] = min(w.rec.Window[i], max(w.now, 0))
	}
	w.NextEdge = min(w.NextEdge, w.rec.Window[1])
}
