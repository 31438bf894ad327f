package epoll

import (
	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http2"
	"github.com/tare-mesh/tare/internal/load/record"
)

// What a worker does with an HTTP/2 connection: as with one of HTTP/1.1, but that
// many requests are under way on it and what they write goes out together.

// greet begins the session on a socket that has just connected. The deadline of
// the connect holds for the server's greeting too.
func (w *Worker) greet(c *conn) {
	c.state, c.listed = connGreeting, false
	c.session.Reset()
	w.say(c)
}

// say sees to it that what the session has to send is sent before the worker waits.
func (w *Worker) say(c *conn) {
	if !c.queued {
		c.queued = true
		w.dirty = append(w.dirty, c)
	}
}

// flushAll sends what the sessions have to send. One write takes the requests of
// many streams.
func (w *Worker) flushAll() {
	for len(w.dirty) > 0 {
		c := w.dirty[len(w.dirty)-1]
		w.dirty = w.dirty[:len(w.dirty)-1]
		c.queued = false
		if c.state == connGreeting || c.state == connSession {
			w.flush(c)
		}
	}
}

func (w *Worker) flush(c *conn) {
	if c.secure != nil {
		w.flushSecure(c)
		return
	}
	s := c.session
	for {
		b := s.Unsent()
		if len(b) == 0 {
			return
		}
		n, errno := sysWrite(c.fd, b)
		switch errno {
		case 0:
			s.Sent(n)
			if w.rec.InWindow(w.now) {
				w.rec.BytesOut += int64(n)
			}
		case unix.EINTR:
		case unix.EAGAIN:
			s.Compact()
			return
		default:
			w.flushFailed(c, errno)
			return
		}
	}
}

// flushFailed ends a connection that cannot be written to, once what explains it
// has been read: it may be there already.
func (w *Worker) flushFailed(c *conn, errno unix.Errno) {
	c.peerEnded = true
	if w.listen(c); c.state == connGreeting || c.state == connSession {
		w.lose(c, failureOf(errno))
	}
}

// converse handles an event on a session's socket.
func (w *Worker) converse(c *conn, writable, readable bool) {
	if writable {
		w.say(c)
	}
	if readable {
		w.listen(c)
	}
}

// listen takes what has arrived, and all there is before the end of the stream.
func (w *Worker) listen(c *conn) {
	c.dry = false
	w.talk(c)
}

func (w *Worker) talk(c *conn) {
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
			k = c.session.Eof()
		case pulledBytes:
			if w.rec.InWindow(w.now) {
				w.rec.BytesIn += int64(len(b))
			}
			if k = c.session.Feed(b, w.now); k == load.FailureNone {
				w.settle(c)
			}
		}
		if k != load.FailureNone {
			w.lose(c, k)
			return
		}
		if c.generation != generation {
			return
		}
	}
}

// settle records what has ended on c and gives its streams new work.
func (w *Worker) settle(c *conn) {
	s := c.session
	if c.state == connGreeting {
		if !s.Greeted {
			return
		}
		w.greeted(c)
	}
	w.finishStreams(c)
	if s.Closing && s.Active == 0 {
		w.reopen(c)
		return
	}
	w.fill(c)
	if len(s.Unsent()) > 0 {
		w.say(c)
	}
}

// greeted makes a session whose server has answered ready for requests.
func (w *Worker) greeted(c *conn) {
	w.opening--
	w.unawait(&c.awaited)
	c.state, c.backoff = connSession, 0
	if c.carries { // the one that waited for the connection, which is part of its service
		c.carries = false
		w.inFlight--
		if !c.session.Room() {
			w.inFlight++
			w.finish(c, load.FailureStreamRefused, 0)
			return
		}
		w.attach(c, c.intended, c.free, c.sent)
	}
}

// fill gives c's free streams requests that are due, and offers those left over.
func (w *Worker) fill(c *conn) {
	for c.session.Room() {
		if w.closedLoop() {
			if !w.started || !w.sending() {
				break
			}
			w.beginStream(c, w.now, w.now)
			continue
		}
		intended, ok := c.pool.queue.Pop()
		if !ok {
			break
		}
		w.beginStream(c, intended, w.now)
	}
	w.list(c)
}

// list offers c to requests that will be due, once for all its streams, so that
// they spread over the connections.
func (w *Worker) list(c *conn) {
	if c.session.Room() && !c.listed {
		c.listed = true
		c.pool.idle.Push(c.place())
	}
}

func (w *Worker) beginStream(c *conn, intended, free int64) {
	if w.closedLoop() {
		w.rec.Due(intended)
	}
	w.attach(c, intended, free, w.now)
}

func (w *Worker) attach(c *conn, intended, free, sent int64) {
	w.inFlight++
	w.lastSend = w.now
	st := c.session.Begin()
	call := &c.calls[st.Slot]
	*call = streamCall{awaited{of: c, stream: st, deadline: w.now + w.timeout}, intended, free, sent}
	w.await(&call.awaited)
	w.say(c)
}

// cancel gives up a request whose time is over; the connection stays.
func (w *Worker) cancel(c *conn, st *http2.Stream) {
	c.session.Abort(st, load.FailureTimeout)
	w.say(c)
	w.settle(c)
}

// finishStreams records the requests on c that have ended, and frees their streams.
func (w *Worker) finishStreams(c *conn) {
	for _, st := range c.session.TakeDone() {
		call := &c.calls[st.Slot]
		w.unawait(&call.awaited)
		w.inFlight--
		w.learnReply(w.now - call.sent)
		w.rec.Finish(record.Outcome{
			Intended: call.intended, Sent: call.sent, Free: call.free, First: st.First, End: w.now,
			Status: st.Status, Kind: st.Kind, Path: c.pool.target.Path, Messages: st.Messages, Message: st.Message,
		})
		c.session.Retire(st)
	}
}

// endStreams ends all that is under way on c.
func (w *Worker) endStreams(c *conn, k load.Failure) {
	c.session.Abandon(k)
	w.finishStreams(c)
}

// lose ends the connection for what happened to it, and all that is under way on it.
func (w *Worker) lose(c *conn, k load.Failure) {
	if c.state == connGreeting {
		w.openFailed(c, k)
		return
	}
	if c.session.Active == 0 && !c.session.GoneBy {
		w.rec.IdleClosed++
	}
	w.endStreams(c, k)
	w.reopen(c)
}
