package loadgen

import (
	"golang.org/x/sys/unix"
)

// What a worker does with an HTTP/2 connection: as with one of HTTP/1.1, but that
// many requests are under way on it and what they write goes out together.

// greet begins the session on a socket that has just connected. The deadline of
// the connect holds for the server's greeting too.
func (w *worker) greet(c *conn) {
	c.state = connGreeting
	c.session.reset()
	w.say(c)
}

// say sees to it that what the session has to send is sent before the worker waits.
func (w *worker) say(c *conn) {
	if !c.session.queued {
		c.session.queued = true
		w.dirty = append(w.dirty, c)
	}
}

// flushAll sends what the sessions have to send. One write takes the requests of
// many streams.
func (w *worker) flushAll() {
	for len(w.dirty) > 0 {
		c := w.dirty[len(w.dirty)-1]
		w.dirty = w.dirty[:len(w.dirty)-1]
		c.session.queued = false
		if c.state == connGreeting || c.state == connSession {
			w.flush(c)
		}
	}
}

func (w *worker) flush(c *conn) {
	if c.secure != nil {
		w.flushSecure(c)
		return
	}
	s := c.session
	for s.written < len(s.out) {
		n, errno := sysWrite(c.fd, s.out[s.written:])
		switch errno {
		case 0:
			if s.written += n; s.written == len(s.out) {
				s.out, s.written = s.out[:0], 0
				s.pump()
			}
			if w.rec.in(w.now) {
				w.rec.bytesOut += int64(n)
			}
		case unix.EINTR:
		case unix.EAGAIN:
			s.out = append(s.out[:0], s.out[s.written:]...)
			s.written = 0
			return
		default:
			w.flushFailed(c, errno)
			return
		}
	}
}

// flushFailed ends a connection that cannot be written to, once what explains it
// has been read: it may be there already.
func (w *worker) flushFailed(c *conn, errno unix.Errno) {
	c.peerEnded = true
	if w.listen(c); c.state == connGreeting || c.state == connSession {
		w.lose(c, kindOf(errno))
	}
}

// converse handles an event on a session's socket.
func (w *worker) converse(c *conn, writable, readable bool) {
	if writable {
		w.say(c)
	}
	if readable {
		w.listen(c)
	}
}

// listen takes what has arrived, and all there is before the end of the stream.
func (w *worker) listen(c *conn) {
	c.dry = false
	w.talk(c)
}

func (w *worker) talk(c *conn) {
	generation := c.generation
	for {
		b, p, k := w.pull(c)
		if p == pulledNothing {
			if c.secure != nil && c.secure.unsent() {
				w.say(c) // TLS has had to answer
			}
			return
		}
		w.tick()
		switch p {
		case pulledEnd:
			k = c.session.eof()
		case pulledBytes:
			if w.rec.in(w.now) {
				w.rec.bytesIn += int64(len(b))
			}
			if k = c.session.feed(b, w.now); k == kindNone {
				w.settle(c)
			}
		}
		if k != kindNone {
			w.lose(c, k)
			return
		}
		if c.generation != generation {
			return
		}
	}
}

// eof says what the end of the stream means for what is under way.
func (s *session) eof() kind {
	switch {
	case s.goneBy:
		return kindGoAway
	case len(s.partial) > 0 || s.blockID != 0:
		return kindHalfResponse
	}
	return kindClosedEarly
}

// settle records what has ended on c and gives its streams new work.
func (w *worker) settle(c *conn) {
	s := c.session
	if c.state == connGreeting {
		if !s.greeted {
			return
		}
		w.greeted(c)
	}
	for _, st := range s.done {
		w.unawait(&st.awaited)
		w.finishStream(s, st)
	}
	s.done = s.done[:0]
	if s.closing && s.active == 0 {
		w.reopen(c)
		return
	}
	w.fill(c)
	if len(s.out) > 0 {
		w.say(c)
	}
}

// greeted makes a session whose server has answered ready for requests.
func (w *worker) greeted(c *conn) {
	w.opening--
	w.unawait(&c.awaited)
	c.state, c.backoff = connSession, 0
	if c.carries { // the one that waited for the connection, which is part of its service
		c.carries = false
		w.inFlight--
		if !c.session.room() {
			w.inFlight++
			w.finish(c, kindStreamRefused, 0)
			return
		}
		w.attach(c, outcome{intended: c.intended, free: c.free, sent: c.sent, path: c.pool.target.path})
	}
}

// fill gives c's free streams requests that are due, and offers those left over.
func (w *worker) fill(c *conn) {
	for c.session.room() {
		if w.closedLoop() {
			if !w.started || !w.sending() {
				break
			}
			w.beginStream(c, w.now, w.now)
			continue
		}
		intended, ok := c.pool.queue.pop()
		if !ok {
			break
		}
		w.beginStream(c, intended, w.now)
	}
	w.list(c)
}

// list offers c to requests that will be due, once for all its streams, so that
// they spread over the connections.
func (w *worker) list(c *conn) {
	if s := c.session; s.room() && !s.listed {
		s.listed = true
		c.pool.idle.push(c.place())
	}
}

func (w *worker) beginStream(c *conn, intended, free int64) {
	if w.closedLoop() {
		w.rec.due(intended)
	}
	w.attach(c, outcome{intended: intended, free: free, sent: w.now, path: c.pool.target.path})
}

func (w *worker) attach(c *conn, o outcome) {
	w.inFlight++
	w.lastSend = w.now
	st := c.session.begin(o)
	st.awaited = awaited{of: c, stream: st, deadline: w.now + w.timeout}
	w.await(&st.awaited)
	w.say(c)
}

// cancel gives up a request whose time is over; the connection stays.
func (w *worker) cancel(c *conn, st *stream) {
	c.session.cancel(st.id, codeCancel)
	c.session.end(st, kindTimeout, 0)
	w.say(c)
	w.settle(c)
}

// finishStream records what became of a request and frees its stream.
func (w *worker) finishStream(s *session, st *stream) {
	w.inFlight--
	st.end = w.now
	w.learnReply(st.end - st.sent)
	w.rec.finish(st.outcome)
	s.retire(st)
}

// endStreams ends all that is under way on c.
func (w *worker) endStreams(c *conn, k kind) {
	s := c.session
	for i := range s.streams {
		st := &s.streams[i]
		if st.id == 0 {
			continue
		}
		if w.unawait(&st.awaited); !st.ended {
			st.status = 0
			if st.kind = k; k == kindClosedEarly && st.answered {
				st.kind = kindHalfResponse
			}
		}
		w.finishStream(s, st)
	}
	s.done, s.pending = s.done[:0], s.pending[:0]
}

// lose ends the connection for what happened to it, and all that is under way on it.
func (w *worker) lose(c *conn, k kind) {
	if c.state == connGreeting {
		w.openFailed(c, k)
		return
	}
	if c.session.active == 0 && !c.session.goneBy {
		w.rec.idleClosed++
	}
	w.endStreams(c, k)
	w.reopen(c)
}
