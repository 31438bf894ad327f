package epoll

import (
	"github.com/tare-mesh/tare/internal/load"
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
