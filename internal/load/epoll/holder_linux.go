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
	end     int64
	updates int64 // of its window until then
}

// maxHeld is the least of the times that RFC 1122 section 4.2.3.4 allows, ns.
const maxHeld = int64(100 * time.Millisecond)

// watch lists c if its session holds a rest.
func (h *holder) watch(c *conn) {
	if c.session.Held && !c.holding {
		c.holding = true
		h.held.Push(held{c.place(), h.w.now + maxHeld, c.session.Updates})
	}
}

// next is when the first session is due, and there may be one.
func (h *holder) next() int64 {
	if h.held.Size == 0 {
		return load.Never
	}
	return h.held.First().end
}

// release sends the rests that are due.
func (h *holder) release() {
	for h.next() <= h.w.now {
		of, _ := h.held.Pop()
		if !of.current() {
			continue
		}
		if of.holding = false; of.session.Held {
			h.w.rec.LateRests++
			of.session.Release(of.session.Updates == of.updates)
			h.w.streams.queueFlush(of.conn)
		}
	}
	h.w.streams.flushAll()
}
