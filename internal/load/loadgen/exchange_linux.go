package loadgen

import "golang.org/x/sys/unix"

// One request and its answer on a connection of HTTP/1.1 or an echo.

// begin attaches a request to c and sends it, or opens the connection for it.
func (w *worker) begin(c *conn, intended, free int64) {
	if c.state == connSession {
		w.beginStream(c, intended, free)
		w.list(c)
		return
	}
	// Where a connection must be opened first, that is part of the service.
	c.carries, c.intended, c.free, c.sent = true, intended, free, w.now
	if w.closedLoop() {
		w.rec.due(intended)
	}
	w.inFlight++
	w.lastSend = w.now
	if c.state == connClosed {
		w.open(c)
		return
	}
	c.state = connBusy
	w.send(c)
}

// send writes the request; what does not fit follows when there is room.
func (w *worker) send(c *conn) {
	c.parser.reset(c.pool.bodily)
	c.written = 0
	c.deadline = w.now + w.timeout
	w.await(&c.awaited)
	w.write(c)
}

func (w *worker) write(c *conn) {
	if c.secure != nil {
		w.writeSecure(c)
		return
	}
	request := c.request()
	for c.written < len(request) {
		n, errno := sysWrite(c.fd, request[c.written:])
		switch errno {
		case 0:
			c.written += n
			if w.rec.in(w.now) {
				w.rec.bytesOut += int64(n)
			}
		case unix.EINTR:
		case unix.EAGAIN:
			return
		default:
			w.writeFailed(c, errno)
			return
		}
	}
}

// writeFailed ends a request that cannot be written, unless its answer has come
// all the same: what explains a reset may be there already.
func (w *worker) writeFailed(c *conn, errno unix.Errno) {
	c.peerEnded = true
	w.read(c)
	if c.carries && c.state == connBusy {
		w.fail(c, kindOf(errno))
	}
}

// unsent says whether some of c's request is still to be written.
func (c *conn) unsent() bool {
	return c.written < len(c.request()) || c.secure != nil && c.secure.unsent()
}

// read takes what has arrived of the answer.
func (w *worker) read(c *conn) {
	c.dry = false
	for {
		b, p, k := w.pull(c)
		if p == pulledNothing {
			if c.secure != nil && c.secure.unsent() {
				w.write(c) // TLS has had to answer
			}
			return
		}
		w.tick()
		switch p {
		case pulledEnd:
			w.ended(c)
			return
		case pulledFailure:
			w.fail(c, k)
			return
		}
		if w.rec.in(w.now) {
			w.rec.bytesIn += int64(len(b))
		}
		if w.feed(c, b) {
			return
		}
	}
}

// feed gives bytes to the parser and acts when the response is complete; true
// means that the request has ended.
func (w *worker) feed(c *conn, b []byte) bool {
	if !c.parser.started() {
		c.first = w.now
	}
	used, done, k := c.parser.feed(b)
	switch {
	case k != kindNone:
		w.fail(c, k)
		return true
	case !done:
		return false
	case used < len(b):
		w.fail(c, kindExtraBytes)
		return true
	}
	if c.secure != nil { // the end of the connection may have come with the answer
		switch w.lull(c) {
		case kindNone:
		case kindExtraBytes:
			w.fail(c, kindExtraBytes)
			return true
		default:
			c.peerEnded = true
		}
	}
	w.answered(c)
	return true
}

// ended handles the end of the stream.
func (w *worker) ended(c *conn) {
	if done, k := c.parser.eof(); !done {
		w.fail(c, k)
		return
	}
	w.answered(c)
}

// answered handles a complete response.
func (w *worker) answered(c *conn) {
	status, k := c.parser.status, w.expect.check(c.parser.status, c.parser.body, &c.parser.content)
	// An answer to a request that is not yet written leaves the connection in doubt.
	reusable := !w.fresh && !c.parser.closing && !c.peerEnded && !c.unsent()
	c.backoff = 0
	w.unawait(&c.awaited)
	if c.parser.moved() {
		var on bool
		if on, k = w.follow(c, reusable); on {
			return
		}
	}
	w.finish(c, k, status)
	if !reusable {
		w.reopen(c)
		return
	}
	w.release(c)
}

// fail ends c's request, and the connection with it.
func (w *worker) fail(c *conn, k kind) {
	w.finish(c, k, 0)
	w.reopen(c)
}

// finish records what became of c's request.
func (w *worker) finish(c *conn, k kind, status int) {
	if c.carries {
		w.inFlight--
	}
	c.carries, c.hop = false, nil
	of := c.owner()
	w.learnReply(w.now - of.sent)
	w.rec.finish(outcome{intended: of.intended, sent: of.sent, free: of.free, first: c.first, end: w.now, status: status, kind: k, hops: of.hops, path: of.pool.target.path})
	of.hops = 0
}
