package loadgen

import (
	"time"

	"golang.org/x/sys/unix"
)

// What a worker does a few times a second, apart from what it does per request.

// stolenSpin is how many times a second a spinning worker may be taken off its
// processor before it concludes that the core is not free, and stops spinning.
const stolenSpin = 100

// housekeep does what is due now and not a request.
func (w *worker) housekeep() {
	if w.now >= w.nextRetry {
		w.retry()
	}
	tick := w.nextTick
	if w.look(&w.rec, w.number, w.now); w.nextTick != tick {
		w.adaptSpin()
	}
}

// adaptSpin gives up spinning where somebody else needs the core.
func (w *worker) adaptSpin() {
	taken := preempted()
	if w.spin > 0 && taken-w.taken > stolenSpin {
		w.spin = 0
	}
	w.taken = taken
}

// retry opens the connections whose backoff is over.
func (w *worker) retry() {
	w.nextRetry = never
	for i := range w.pools {
		p := &w.pools[i]
		for range p.closed.size {
			c, _ := p.closed.pop()
			switch {
			case !c.current():
			case c.retryAt > w.now:
				p.closed.push(c)
				w.nextRetry = min(w.nextRetry, c.retryAt)
			case w.sending() || p.queue.size > 0:
				w.takeNext(c.conn)
			}
		}
	}
}

// takeNext opens a closed place, for the request that has waited longest if there is one.
func (w *worker) takeNext(c *conn) {
	if !w.closedLoop() {
		if intended, ok := c.pool.queue.pop(); ok {
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
func (w *worker) over() bool {
	if w.sending() {
		return false
	}
	if w.rec.intended >= w.quota && w.now < w.end && !w.stopped {
		return w.quotaOver()
	}
	if w.now >= w.drainEnd {
		return true
	}
	waiting := w.inFlight
	for i := range w.pools {
		waiting += w.pools[i].queue.size
	}
	return waiting == 0 && w.now >= w.lastEdge()
}

// quotaOver says that all of a given number of requests have ended, and ends the
// measure window then.
func (w *worker) quotaOver() bool {
	waiting := w.inFlight
	for i := range w.pools {
		waiting += w.pools[i].queue.size
	}
	if waiting == 0 {
		w.cut()
	}
	return waiting == 0
}

// lastEdge is when the worker may stop looking at the clock: an idle worker must
// still be there to read its CPU at the end of the window.
func (w *worker) lastEdge() int64 {
	if w.nextEdge == never {
		return w.now
	}
	return w.rec.window[1]
}

// giveUp ends what is still under way when the drain is over, as time-outs.
func (w *worker) giveUp() {
	w.tick()
	w.rec.unfinished = int64(w.inFlight)
	for i := range w.conns {
		c := &w.conns[i]
		if c.carries {
			w.finish(c, kindTimeout, 0)
		}
		if c.session != nil {
			w.endStreams(c, kindTimeout)
		}
		w.drop(c)
	}
	for _, d := range w.detours {
		if d.carries {
			w.finish(d, kindTimeout, 0)
		}
		w.drop(d)
	}
	for i := range w.pools {
		for q := &w.pools[i].queue; q.size > 0; {
			intended, _ := q.pop()
			w.rec.unfinished++
			w.rec.finish(outcome{intended: intended, sent: -1, end: w.now, kind: kindNotSent})
		}
	}
	if w.nextEdge != never {
		w.edge(&w.rec, w.number, w.now)
	}
	w.rec.publish(int(w.now / 1e9))
	w.rec.flush()
	w.rec.spin = time.Duration(w.spin)
}

// attend is called when another thread has woken the worker: it has posted
// something, or the worker is to stop sending and end the measure window here, if it
// is not yet over.
func (w *worker) attend() {
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
func (w *worker) cut() {
	w.nextDue = never
	w.drainEnd = min(w.drainEnd, w.now+w.drain)
	for i := range w.rec.window {
		w.rec.window[i] = min(w.rec.window[i], max(w.now, 0))
	}
	w.nextEdge = min(w.nextEdge, w.rec.window[1])
}
