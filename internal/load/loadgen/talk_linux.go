package loadgen

import (
	"golang.org/x/sys/unix"
)

// What a worker does with an HTTP/2 connection: as with one of HTTP/1.1, but that
// many requests are under way on it and what they write goes out together.

// greet begins the session on a socket that has just connected. The deadline of
// the connect holds for the server's greeting too.
func (w *worker) greet(c *conn) {
	c.state, c.listed = connGreeting, false
	c.session.reset()
	w.say(c)
}

// say sees to it that what the session has to send is sent before the worker waits.
func (w *worker) say(c *conn) {
	if !c.queued {
		c.queued = true
		w.dirty = append(w.dirty, c)
	}
}

// flushAll sends what the sessions have to send. One write takes the requests of
// many streams.
func (w *worker) flushAll() {
	for len(w.dirty) > 0 {
		c := w.dirty[len(w.dirty)-1]
		w.dirty = w.dirty[:len(w.dirty)-1]
		c.queued = false
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
	for {
		b := s.unsent()
		if len(b) == 0 {
			return
		}
		n, errno := sysWrite(c.fd, b)
		switch errno {
		case 0:
			s.sent(n)
			if w.rec.in(w.now) {
				w.rec.bytesOut += int64(n)
			}
		case unix.EINTR:
		case unix.EAGAIN:
			s.compact()
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

// settle records what has ended on c and gives its streams new work.
func (w *worker) settle(c *conn) {
	s := c.session
	if c.state == connGreeting {
		if !s.greeted {
			return
		}
		w.greeted(c)
	}
	w.finishStreams(c)
	if s.closing && s.active == 0 {
		w.reopen(c)
		return
	}
	w.fill(c)
	if len(s.unsent()) > 0 {
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
		w.attach(c, c.intended, c.free, c.sent)
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
	if c.session.room() && !c.listed {
		c.listed = true
		c.pool.idle.push(c.place())
	}
}

func (w *worker) beginStream(c *conn, intended, free int64) {
	if w.closedLoop() {
		w.rec.due(intended)
	}
	w.attach(c, intended, free, w.now)
}

func (w *worker) attach(c *conn, intended, free, sent int64) {
	w.inFlight++
	w.lastSend = w.now
	st := c.session.begin()
	call := &c.calls[st.slot]
	*call = streamCall{awaited{of: c, stream: st, deadline: w.now + w.timeout}, intended, free, sent}
	w.await(&call.awaited)
	w.say(c)
}

// cancel gives up a request whose time is over; the connection stays.
func (w *worker) cancel(c *conn, st *stream) {
	c.session.abort(st, kindTimeout)
	w.say(c)
	w.settle(c)
}

// finishStreams records the requests on c that have ended, and frees their streams.
func (w *worker) finishStreams(c *conn) {
	for _, st := range c.session.takeDone() {
		call := &c.calls[st.slot]
		w.unawait(&call.awaited)
		w.inFlight--
		w.learnReply(w.now - call.sent)
		w.rec.finish(outcome{
			intended: call.intended, sent: call.sent, free: call.free, first: st.first, end: w.now,
			status: st.status, kind: st.kind, path: c.pool.target.path, messages: st.messages, message: st.message,
		})
		c.session.retire(st)
	}
}

// endStreams ends all that is under way on c.
func (w *worker) endStreams(c *conn, k kind) {
	c.session.abandon(k)
	w.finishStreams(c)
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
