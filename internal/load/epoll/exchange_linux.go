package epoll

import (
	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
)

// One request and its answer on a connection of HTTP/1.1 or an echo.

// begin attaches a request to c and sends it, or opens the connection for it.
func (w *Worker) begin(c *conn, intended, free int64) {
	if c.state == connSession {
		w.beginStream(c, intended, free)
		w.list(c)
		return
	}
	// Where a connection must be opened first, that is part of the service.
	c.carries, c.intended, c.free, c.sent = true, intended, free, w.now
	if w.closedLoop() {
		w.rec.Due(intended)
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
func (w *Worker) send(c *conn) {
	c.parser.Reset(c.pool.bodily)
	c.written = 0
	c.deadline = w.now + w.timeout
	w.await(&c.awaited)
	w.write(c)
}

func (w *Worker) write(c *conn) {
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
			if w.rec.InWindow(w.now) {
				w.rec.BytesOut += int64(n)
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
func (w *Worker) writeFailed(c *conn, errno unix.Errno) {
	c.peerEnded = true
	w.read(c)
	if c.carries && c.state == connBusy {
		w.fail(c, failureOf(errno))
	}
}

// unsent says whether some of c's request is still to be written.
func (c *conn) unsent() bool {
	return c.written < len(c.request()) || c.secure != nil && c.secure.unsent()
}

// read takes what has arrived of the answer.
func (w *Worker) read(c *conn) {
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
		if w.rec.InWindow(w.now) {
			w.rec.BytesIn += int64(len(b))
		}
		if w.feed(c, b) {
			return
		}
	}
}

// feed gives bytes to the parser and acts when the response is complete; true
// means that the request has ended.
func (w *Worker) feed(c *conn, b []byte) bool {
	if !c.parser.Started() {
		c.first = w.now
	}
	used, done, k := c.parser.Feed(b)
	switch {
	case k != load.FailureNone:
		w.fail(c, k)
		return true
	case !done:
		return false
	case used < len(b):
		w.fail(c, load.FailureExtraBytes)
		return true
	}
	if c.secure != nil { // the end of the connection may have come with the answer
		switch w.lull(c) {
		case load.FailureNone:
		case load.FailureExtraBytes:
			w.fail(c, load.FailureExtraBytes)
			return true
		default:
			c.peerEnded = true
		}
	}
	w.answered(c)
	return true
}

// ended handles the end of the stream.
func (w *Worker) ended(c *conn) {
	if done, k := c.parser.Eof(); !done {
		w.fail(c, k)
		return
	}
	w.answered(c)
}

// answered handles a complete response.
func (w *Worker) answered(c *conn) {
	status, k := c.parser.Status, w.expect.Check(c.parser.Status, c.parser.Body, &c.parser.Content)
	// An answer to a request that is not yet written leaves the connection in doubt.
	reusable := !w.fresh && !c.parser.Closing && !c.peerEnded && !c.unsent()
	c.backoff = 0
	w.unawait(&c.awaited)
	if c.parser.Redirected() {
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
func (w *Worker) fail(c *conn, k load.Failure) {
	w.finish(c, k, 0)
	w.reopen(c)
}

// finish records what became of c's request.
func (w *Worker) finish(c *conn, k load.Failure, status int) {
	if c.carries {
		w.inFlight--
	}
	c.carries, c.hop = false, nil
	of := c.owner()
	w.learnReply(w.now - of.sent)
	w.rec.Finish(record.Outcome{Intended: of.intended, Sent: of.sent, Free: of.free, First: c.first, End: w.now, Status: status, Kind: k, Hops: of.hops, Path: of.pool.target.Path})
	of.hops = 0
}
