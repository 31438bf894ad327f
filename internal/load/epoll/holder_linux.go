package epoll

import (
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/job"
)

// holder sends the small rests of bodies that sessions hold, once their servers had time to return
// more window.
type holder struct {
	w    *Worker
	held job.Queue[held] // in the order of their ends
}

// held is a session with such a rest.
type held struct {
	place
	since   int64
	end     int64
	updates int64 // of its window
}

// The times that RFC 1122 section 4.2.3.4 allows, ns.
const (
	silence = int64(100 * time.Millisecond) // without any window
	maxHeld = int64(time.Second)            // while other streams get window
)

// watch lists c if its session holds a rest.
func (h *holder) watch(c *conn) {
	if c.session.Held && !c.holding {
		c.holding = true
		h.held.Push(held{c.place(), h.w.now, h.w.now + silence, c.session.Updates})
	}
}

// release sends the rests that are due.
func (h *holder) release() {
	for h.next() <= h.w.now {
		of, _ := h.held.Pop()
		if !of.current() {
			continue
		}
		silent := of.session.Updates == of.updates
		if !of.session.Held {
			of.holding = false
			continue
		}
		if !silent && h.w.now < of.since+maxHeld {
			of.end, of.updates = h.w.now+silence, of.session.Updates
			h.held.Push(of)
			continue
		}
		if of.holding = false; silent {
			h.w.rec.LateRests++
		}
		of.session.Release(silent)
		h.w.streams.queueFlush(of.conn)
	}
	h.w.streams.flushAll()
}

// next is when the first session is due, and there may be one.
func (h *holder) next() int64 {
	if h.held.Size == 0 {
		return load.Never
	}
	return h.held.First().end
}
