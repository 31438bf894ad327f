package epoll

import (
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http2"
	"github.com/tare-mesh/tare/internal/load/record"
)

// multiplexer sends requests and reads responses on HTTP/2 connections. Each
// connection has many requests in flight, and their writes are batched.
type multiplexer struct {
	w     *Worker
	dirty []*conn // sessions with something to send
	ended []*conn // free places for sessions that servers end
}

// startSession begins the session on a socket that has just connected. The deadline of
// the connect holds for the server's greeting too.
func (m *multiplexer) startSession(c *conn) {
	c.state, c.listed, c.holding = connSettings, false, false
	c.session.Reset()
	m.queueFlush(c)
}

// flushAll sends the pending bytes of the sessions. One write contains the requests
// of many streams.
func (m *multiplexer) flushAll() {
	for len(m.dirty) > 0 {
		c := m.dirty[len(m.dirty)-1]
		m.dirty = m.dirty[:len(m.dirty)-1]
		c.queued = false
		if c.state == connSettings || c.state == connSession {
			m.flush(c)
			m.w.holds.watch(c)
		}
	}
}

func (m *multiplexer) flush(c *conn) {
	if k := c.flush(m.w, c.session); k != load.FailureNone {
		m.flushFailed(c, k)
	} else if c.secure == nil && len(c.session.Unsent()) > 0 {
		c.session.Compact()
	}
}

// flushFailed reads the remaining bytes, which may explain the failed write, and ends the connection.
func (m *multiplexer) flushFailed(c *conn, k load.Failure) {
	c.peerEnded = true
	if m.readAll(c); c.state == connSettings || c.state == connSession {
		m.endSession(c, k)
	}
}

func (m *multiplexer) sessionEvent(c *conn, writable, readable bool) {
	if writable {
		m.queueFlush(c)
	}
	if readable {
		m.readAll(c)
	}
}

// readAll reads what has arrived, up to the end of the stream.
func (m *multiplexer) readAll(c *conn) {
	c.drained = false
	m.readSession(c)
}

func (m *multiplexer) readSession(c *conn) {
	generation := c.generation
	for reads := 0; ; reads++ {
		b, p, k := m.w.receive(c, reads)
		if p == receivedNothing {
			if c.secure != nil && c.secure.unsent() {
				m.queueFlush(c) // TLS has had to answer
			}
			return
		}
		switch p {
		case receivedEnd:
			k = c.session.EndReason()
		case receivedBytes:
			if k = c.session.Feed(b, m.w.now); k == load.FailureNone {
				m.settle(c)
			}
		}
		if k != load.FailureNone {
			m.endSession(c, k)
			return
		}
		if c.generation != generation {
			return
		}
	}
}

// cancel gives up a request whose time is over, but the connection stays.
func (m *multiplexer) cancel(c *conn, st *http2.Stream) {
	c.session.Abort(st, load.FailureTimeout)
	m.queueFlush(c)
	m.settle(c)
}

// settle records the ended requests on c and assigns new requests to its streams.
func (m *multiplexer) settle(c *conn) {
	s := c.session
	if c.state == connSettings {
		if !s.Ready {
			return
		}
		m.sessionReady(c)
	}
	m.noteGoAway(c)
	for _, ns := range s.TakeTrips() {
		m.w.rec.RoundTrip(m.w.now, ns)
	}
	for _, ns := range s.Gaps.Take() {
		m.w.rec.MessageGap(m.w.now, ns)
	}
	m.finishStreams(c)
	if s.Closing && s.Active == 0 {
		m.w.places.countUnused(c)
		m.w.places.reopen(c)
		return
	}
	if (s.GoAway.Given || s.Spent) && m.retire(c) {
		return
	}
	m.fill(c)
	if len(s.Unsent()) > 0 || s.Held {
		m.queueFlush(c)
	}
}

// sessionReady makes a session whose server has answered ready for requests.
func (m *multiplexer) sessionReady(c *conn) {
	m.w.deadlines.remove(&c.awaited)
	c.state = connSession
	m.w.connector.ready()
	if c.carries { // the one that waited for the connection, which is part of its service
		c.carries = false
		m.w.inFlight--
		switch {
		case c.session.Room():
			m.attach(c, c.call)
		case !m.w.resends.push(c.pool, c.call):
			m.w.giveUp(c.call, load.FailureStreamRefused)
		}
	}
}

// endSession ends the connection for what happened to it, and all that is under way on it.
func (m *multiplexer) endSession(c *conn, k load.Failure) {
	if c.state == connSettings {
		m.w.connector.openFailed(c, k)
		return
	}
	switch {
	case !c.session.GoAway.Given:
		if c.session.Active == 0 {
			m.w.rec.IdleClosed++
		}
		if k.Cut() {
			m.w.rec.Dropped(c.connection(), m.w.now)
		}
	case k == load.FailureReset || k == load.FailureClosedEarly:
		k = load.FailureGoAway
	}
	m.noteGoAway(c)
	if k == load.FailureReset || k == load.FailureClosedEarly || k == load.FailureGoAway {
		m.w.places.countUnused(c)
	}
	m.endStreams(c, k)
	m.w.places.reopen(c)
}

func (m *multiplexer) endStreams(c *conn, k load.Failure) {
	c.session.Abandon(k)
	m.finishStreams(c)
}

// finishStreams records the requests on c that have ended, and frees their streams.
// Requests that the server has not processed go to other connections.
func (m *multiplexer) finishStreams(c *conn) {
	for _, st := range c.session.TakeDone() {
		at := &c.calls[st.Slot]
		m.w.deadlines.remove(&at.awaited)
		m.w.inFlight--
		if c.heir != nil {
			c.heir.leaving--
		}
		if !st.Unprocessed || !m.w.resends.push(c.pool, at.call) {
			m.finishStream(c, st, at)
		}
		c.session.Retire(st)
	}
	if c.pool.again.Size > 0 {
		m.w.resends.spread(c)
	}
	if c.heir != nil && c.heir.state == connSession {
		m.fill(c.heir)
	}
}

func (m *multiplexer) finishStream(c *conn, st *http2.Stream, at *streamCall) {
	k, status := st.Kind, st.Status
	if m.w.now >= at.deadline { // it ended after the deadline, in one batch with others
		k, status = load.FailureTimeout, 0
	}
	if status != 0 {
		c.served, c.backoff = true, 0
	}
	if st.Reason.Given {
		m.w.rec.Because(st.Kind, &st.Reason)
	}
	if st.Text != "" {
		m.w.rec.Said(status, st.Text)
	}
	m.w.sleep.answered(m.w.now - at.sent)
	m.w.rec.Finish(&record.Outcome{
		Intended: at.intended, Sent: at.sentAt(), Free: at.free, First: st.First, End: m.w.now,
		Status: status, Kind: k, Path: at.what.target.Path, Messages: st.Messages, Message: st.Message, Retries: at.retries,
		Conn: c.connection(), Version: st.Version,
	})
}

// fill gives c's free streams requests that are due, and offers those left over.
func (m *multiplexer) fill(c *conn) {
	for c.session.Room() {
		if r, ok := m.w.resends.pop(c.pool); ok {
			m.attach(c, r)
			continue
		}
		if m.w.pace.closedLoop() {
			if !m.w.pace.started || !m.w.sending() || c.session.Active+c.leaving >= c.session.Limit {
				break
			}
			m.beginStream(c, m.w.now, m.w.now)
			continue
		}
		intended, ok := c.pool.queue.Pop()
		if !ok {
			break
		}
		m.beginStream(c, intended, m.w.now)
	}
	m.offer(c)
}

func (m *multiplexer) beginStream(c *conn, intended, free int64) {
	if m.w.pace.closedLoop() {
		m.w.rec.Due(intended)
	}
	m.attach(c, call{intended: intended, free: free, sent: m.w.now, what: c.pool.next()})
}

func (m *multiplexer) attach(c *conn, r call) {
	m.w.inFlight++
	r.reached = true
	m.w.sleep.lastSend = m.w.now
	st := c.session.Begin(r.what.target.HTTP2, m.w.now)
	if m.w.places.spend(c) {
		c.session.Spent, c.session.Closing = true, true
	}
	at := &c.calls[st.Slot]
	*at = streamCall{awaited{of: c, stream: st, deadline: r.sent + m.w.timeout}, r}
	m.w.deadlines.add(&at.awaited)
	m.queueFlush(c)
}

// queueFlush makes sure that the session's bytes go out before the worker waits.
func (m *multiplexer) queueFlush(c *conn) {
	if !c.queued {
		c.queued = true
		m.dirty = append(m.dirty, c)
	}
}

// offer lists c to requests that will be due, once for all its streams, so that
// they spread over the connections.
func (m *multiplexer) offer(c *conn) {
	if c.session.Room() && !c.listed {
		c.listed = true
		c.pool.idle.Push(c.place())
	}
}

// retire moves a session that ends, with the requests still under way, to another place. It opens a new connection in c
// at once, as other clients do. A session ends by the server, or after its share of requests. It reports whether it did.
func (m *multiplexer) retire(c *conn) bool {
	if c.heir != nil || !m.w.sending() && c.pool.waiting() == 0 {
		return false
	}
	d := m.endingPlace()
	if m.w.poll.move(int(c.fd), watched, d.index, d.generation+1) != nil {
		m.ended = append(m.ended, d)
		return false
	}
	d.pool, d.heir = c.pool, c
	if d.session == nil {
		m.addSession(d)
	}
	d.generation++
	d.state, d.served, d.holding = connSession, c.served, false
	d.socket, c.socket = c.socket, socket{fd: -1}
	d.session, c.session = c.session, d.session
	d.calls, c.calls = c.calls, d.calls
	for i := range d.calls {
		d.calls[i].of = d
	}
	c.leaving += d.session.Active
	m.queueFlush(d)
	m.w.readLater(d)
	c.served = true // the server is at work on its requests
	m.w.places.reopen(c)
	return true
}

// addSession gives a place an HTTP/2 session, if its target has HTTP/2.
func (m *multiplexer) addSession(c *conn) {
	p := &m.w.job.Profile
	if c.pool.target.HTTP2 == nil {
		return
	}
	c.session = http2.NewSession(&m.w.exchanges.expect, p.Streams, p.Protocol == load.ProtocolGRPC)
	c.session.Streaming, c.session.Versions = p.GRPCStream, m.w.rec.Versions
	c.session.Chunks = p.Stream == load.StreamChunks
	c.calls = make([]streamCall, c.session.Size())
}

// endingPlace is a free place for a session that the server ends.
func (m *multiplexer) endingPlace() *conn {
	if last := len(m.ended) - 1; last >= 0 {
		d := m.ended[last]
		m.ended = m.ended[:last]
		return d
	}
	return m.w.places.add()
}

// noteGoAway counts a session that the server ends, and keeps the reason if it is an error: most
// servers end a session after a number of requests, or a time.
func (m *multiplexer) noteGoAway(c *conn) {
	if n := c.session.TakeGoAway(); n != nil {
		m.w.rec.GoAways++
		m.w.rec.Dropped(c.connection(), m.w.now)
		if n.IsError() {
			m.w.rec.Because(load.FailureGoAway, n)
		}
	}
}
