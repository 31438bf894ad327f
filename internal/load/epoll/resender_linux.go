package epoll

import (
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http2"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/record"
)

// resender holds requests that a server has certainly not processed, until a connection
// has room for them. Their clocks go on from the intended start, and so do their timeouts.
type resender struct {
	w       *Worker
	waiting int // requests in all pools
}

// push takes a request to be retried, and returns false if it was sent often enough or its
// time is over.
func (s *resender) push(p *pool, r call) bool {
	if r.retries >= job.MaxRetries || s.w.now >= r.sent+s.w.timeout {
		return false
	}
	r.retries++
	p.again.Push(r)
	s.waiting++
	return true
}

// spread gives the waiting requests to sessions with free streams, except from, which has
// refused them. It may still take the rest.
func (s *resender) spread(from *conn) {
	p := from.pool
	for left := p.idle.Size; left > 0 && p.again.Size > 0; left-- {
		at, _ := p.idle.Pop()
		switch {
		case !at.current():
		case at.conn == from:
			p.idle.Push(at)
		case at.unlist():
			r, _ := s.pop(p)
			s.w.streams.attach(at.conn, r)
			s.w.streams.offer(at.conn)
			left = p.idle.Size + 1
		}
	}
}

// deadline is when the time of a waiting request is over, and there is one.
func (s *resender) deadline() int64 {
	first := int64(load.Never)
	for i := range s.w.places.pools {
		if q := &s.w.places.pools[i].again; q.Size > 0 {
			first = min(first, q.First().sent+s.w.timeout)
		}
	}
	return first
}

// expire gives up the waiting requests whose time is over.
func (s *resender) expire() {
	for i := range s.w.places.pools {
		p := &s.w.places.pools[i]
		for p.again.Size > 0 && p.again.First().sent+s.w.timeout <= s.w.now {
			r, _ := s.pop(p)
			s.w.giveUp(r, load.FailureTimeout)
		}
	}
}

// pop returns the request of p that has waited longest.
func (s *resender) pop(p *pool) (r call, ok bool) {
	if r, ok = p.again.Pop(); ok {
		s.waiting--
	}
	return r, ok
}

// giveUp records the failure of a request that no connection carries.
func (w *Worker) giveUp(r call, k load.Failure) {
	w.rec.Finish(&record.Outcome{Intended: r.intended, Sent: r.sentAt(), Free: r.free, End: w.now, Kind: k, Path: r.what.target.Path, Retries: r.retries})
}

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

// awaited is an event with a deadline: the answer on a connection or on
// one of its streams, or the connection itself.
type awaited struct {
	of             *conn
	stream         *http2.Stream // nil: the connection
	deadline       int64
	waiting        bool // in the worker's list
	earlier, later *awaited
}

// deadlines is a list in the order of the deadlines.
type deadlines struct{ first, last *awaited }

// add puts a in its place, near the end: all timeouts are equal, so that only a request
// that is retried, or had to wait for a connection, is due before others in the list.
func (d *deadlines) add(a *awaited) {
	if a.waiting {
		d.remove(a)
	}
	before := d.last
	for before != nil && before.deadline > a.deadline {
		before = before.earlier
	}
	a.waiting, a.earlier = true, before
	if before != nil {
		a.later, before.later = before.later, a
	} else {
		a.later, d.first = d.first, a
	}
	if a.later != nil {
		a.later.earlier = a
	} else {
		d.last = a
	}
}

// remove takes a off the list, if it is on it.
func (d *deadlines) remove(a *awaited) {
	if !a.waiting {
		return
	}
	if a.earlier != nil {
		a.earlier.later = a.later
	} else {
		d.first = a.later
	}
	if a.later != nil {
		a.later.earlier = a.earlier
	} else {
		d.last = a.earlier
	}
	a.waiting, a.earlier, a.later = false, nil, nil
}

// shift makes the deadlines count from an instant that later by this many ns.
func (d *deadlines) shift(by int64) {
	for a := d.first; a != nil; a = a.later {
		a.deadline -= by
	}
}
