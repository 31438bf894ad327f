package epoll

import (
	"context"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
)

// Where a connection goes: to each of its host's addresses in turn, and on to the
// next where one does not take it.

// reach begins to connect c, with or without a look-up before.
func (w *Worker) reach(c *conn) {
	t := c.pool.target
	switch {
	case t.Socket != "":
		c.addrs = nil
		w.tryNext(c, load.FailureNone)
	case len(t.Addrs) == 0:
		w.lookUp(c)
	default:
		w.turnTo(c, t.Addrs)
	}
}

// lookUp has the name of c's host looked up elsewhere.
func (w *Worker) lookUp(c *conn) {
	at, t, began := c.place(), c.pool.target, w.now
	w.aides.Go(func() {
		ctx, cancel := context.WithTimeout(w.lookups, w.job.Profile.Timeout)
		defer cancel()
		addrs, err := w.job.Lookup.Addresses(ctx, t.URL, w.job.Profile.IPVersion)
		w.post(func() {
			if !at.current() || c.state != connConnecting {
				return // given up
			}
			w.tick()
			w.rec.Resolved(w.now - began)
			if err != nil {
				w.openFailed(c, target.LookupFailure(err))
				return
			}
			if w.job.Profile.Resolve != load.ResolveConnection {
				t.Addrs = addrs // of a host that a redirect led to
			}
			w.turnTo(c, addrs)
		})
	})
}

// turnTo connects c to the first in turn of addrs that has not failed of late.
func (w *Worker) turnTo(c *conn, addrs []netip.AddrPort) {
	c.addrs, c.turn, c.tried = addrs, c.pool.turn%len(addrs), 0
	for i := range addrs {
		if next := (c.pool.turn + i) % len(addrs); w.resting[addrs[next]] <= w.now {
			c.turn = next
			break
		}
	}
	c.pool.turn = c.turn + 1
	w.tryNext(c, load.FailureNone)
}

// tryNext connects c to the next of its addresses, after one has failed for k. With
// the last of them the connection has.
func (w *Worker) tryNext(c *conn, k load.Failure) {
	for c.tried < max(1, len(c.addrs)) {
		if k != load.FailureNone {
			w.rec.OpenKinds[k]++
		}
		c.opened = w.now
		if k = w.connect(c); k == load.FailureNone {
			return
		}
		w.passOver(c)
	}
	w.openFailed(c, k)
}

// connect begins to connect c's socket to the address that is next.
func (w *Worker) connect(c *conn) load.Failure {
	c.tried++
	fd, errno := dial(c.pool.target.Socket, c.address())
	if errno == 0 {
		if err := w.poll.add(fd, watched, c.index, c.generation); err != nil {
			_ = unix.Close(fd)
			errno = errnoOf(err)
		}
	}
	if errno != 0 {
		return failureOf(errno)
	}
	c.fd = int32(fd)
	return load.FailureNone
}

// address is the one that was tried last; none of a Unix socket.
func (c *conn) address() netip.AddrPort {
	if len(c.addrs) == 0 {
		return netip.AddrPort{}
	}
	return c.addrs[(c.turn+c.tried-1)%len(c.addrs)]
}

// unreached goes on from an address that could not be connected to.
func (w *Worker) unreached(c *conn, errno unix.Errno) {
	_ = unix.Close(int(c.fd))
	c.fd = -1
	c.generation++
	c.peerEnded = false
	w.passOver(c)
	w.tryNext(c, failureOf(errno))
}

// passOver lets the address that failed rest, where there are others.
func (w *Worker) passOver(c *conn) {
	if len(c.addrs) > 1 {
		w.resting[c.address()] = w.now + addressRest
	}
}

// reached counts the address of a connection that is there.
func (w *Worker) reached(c *conn) {
	w.rec.Connected(c.address(), w.now-c.opened)
}

// addressRest is how long an address that could not be connected to is passed over,
// where a name has others.
const addressRest = int64(time.Second)
