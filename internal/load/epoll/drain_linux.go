package epoll

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
)

// finished reports whether nothing more will be sent and no answer is awaited.
func (w *Worker) finished() bool {
	if w.sending() {
		return false
	}
	if w.rec.Intended >= w.pace.quota && w.now < w.pace.sendEnd && !w.pace.stopped {
		return w.quotaReached()
	}
	if w.now >= w.pace.drainEnd {
		return true
	}
	return w.waiting() == 0 && w.now >= w.lastEdge()
}

// quotaReached reports whether all of a given number of requests have ended, and ends the
// measure window then.
func (w *Worker) quotaReached() bool {
	if w.waiting() > 0 {
		return false
	}
	w.endWindow()
	return true
}

// waiting counts the requests that are due or under way.
func (w *Worker) waiting() int { return w.inFlight + w.places.queued() }

// lastEdge is when the worker may stop looking at the clock: an idle worker must
// still read its CPU time at the end of the window.
func (w *Worker) lastEdge() int64 {
	if w.ticker.NextEdge == load.Never {
		return w.now
	}
	return w.rec.Window[1]
}

// abandon ends the requests in flight at the end of the drain, as timeouts.
func (w *Worker) abandon() {
	w.tick()
	w.rec.Unfinished = int64(w.inFlight)
	if w.ticker.NextEdge != load.Never {
		w.ticker.Edge(&w.rec, w.now)
		w.rec.Held = w.places.held()
	}
	for i := range w.places.conns {
		c := &w.places.conns[i]
		if c.carries {
			w.exchanges.finish(c, load.FailureTimeout, 0)
		}
		if c.session != nil {
			w.streams.endStreams(c, load.FailureTimeout)
		}
		w.places.drop(c)
	}
	for _, d := range w.places.extra {
		if d.session != nil {
			w.streams.endStreams(d, load.FailureTimeout)
		}
		w.places.drop(d)
	}
	for i := range w.places.pools {
		for q := &w.places.pools[i].queue; q.Size > 0; {
			intended, _ := q.Pop()
			what := w.places.pools[i].next()
			w.rec.Unfinished++
			w.rec.Finish(&record.Outcome{Intended: intended, Sent: -1, End: w.now, Kind: load.FailureNotSent, Path: what.target.Path})
		}
		for q := &w.places.pools[i].again; q.Size > 0; {
			r, _ := q.Pop()
			w.rec.Unfinished++
			w.giveUp(r, load.FailureTimeout)
		}
	}
	w.rec.Publish(int(w.now / 1e9))
	w.rec.Flush()
	w.rec.Spin = time.Duration(w.sleep.spin)
}

// wokenUp is called when another thread has woken the worker: it has posted
// something, or the worker is to stop sending and end the measure window here, if it
// is not yet over.
func (w *Worker) wokenUp() {
	var count [8]byte
	_, _ = unix.Read(w.poll.wakefd, count[:])
	if stop := w.inbox.collect(); !stop || w.pace.stopped {
		return
	}
	w.tick()
	w.firePast()
	w.pace.stopped = true
	if w.pace.started {
		w.endWindow()
	}
}

// firePast fires the requests of the measure window, if that is over: a worker that stalled until the stop has not
// sent them yet.
func (w *Worker) firePast() {
	if end := w.rec.Window[1]; w.pace.started && w.now >= end && w.pace.nextDue < end {
		w.pace.sendEnd = min(w.pace.sendEnd, end)
		w.fire()
	}
}

// endWindow ends the schedule and the measure window now.
func (w *Worker) endWindow() {
	w.pace.end(w.now)
	for i := range w.rec.Window {
		w.rec.Window[i] = min(w.rec.Window[i], max(w.now, 0))
	}
	w.ticker.NextEdge = min(w.ticker.NextEdge, w.rec.Window[1])
}
