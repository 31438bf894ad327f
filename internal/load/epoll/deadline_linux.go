package epoll

import (
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http2"
)

// awaited is what must happen by a deadline: the answer on a connection or on
// one of its streams, or the connection itself.
type awaited struct {
	of             *conn
	stream         *http2.Stream // nil: the connection
	deadline       int64
	waiting        bool // in the worker's list
	earlier, later *awaited
}

// await puts a at the end of the list of deadlines.
func (w *Worker) await(a *awaited) {
	if a.waiting {
		w.unawait(a)
	}
	a.waiting, a.earlier, a.later = true, w.last, nil
	if w.last != nil {
		w.last.later = a
	} else {
		w.first = a
	}
	w.last = a
}

func (w *Worker) unawait(a *awaited) {
	if !a.waiting {
		return
	}
	if a.earlier != nil {
		a.earlier.later = a.later
	} else {
		w.first = a.later
	}
	if a.later != nil {
		a.later.earlier = a.earlier
	} else {
		w.last = a.earlier
	}
	a.waiting, a.earlier, a.later = false, nil, nil
}

// expire gives up every request and connect whose time is over.
func (w *Worker) expire() {
	for w.first != nil && w.first.deadline <= w.now {
		c := w.first.of
		switch {
		case w.first.stream != nil:
			w.cancel(c, w.first.stream)
		case c.state == connConnecting && c.fd < 0:
			w.openFailed(c, load.FailureLookupTimeout)
		case c.state == connConnecting || c.state == connShaking || c.state == connGreeting:
			w.openFailed(c, load.FailureTimeout)
		default:
			w.fail(c, load.FailureTimeout)
		}
	}
	w.flushAll()
}
