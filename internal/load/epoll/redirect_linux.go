package epoll

import (
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http1"
	"github.com/tare-mesh/tare/internal/load/target"
)

// Following redirects. A request stays that of the place it was given to. Within its
// target's origin the place's own connection carries it on; to other origins it takes
// a detour, a connection of the place's for each, while the place waits.

// owner is the place whose request c carries.
func (c *conn) owner() *conn {
	if c.home != nil {
		return c.home
	}
	return c
}

// request is what c sends.
func (c *conn) request() []byte {
	if c.hop != nil {
		return c.hop.Request
	}
	return c.pool.target.Request
}

// follow takes c's request to where its answer leads. It is not taken on, and the
// kind says why, where that is nowhere.
func (w *Worker) follow(c *conn, reusable bool) (on bool, k load.Failure) {
	home, from := c.owner(), c.hop
	if from == nil {
		from = c.pool.target.Root
	}
	to, k := w.route.Next(from, home.hops, c.parser.Status, c.parser.Location)
	if k == load.FailureNone && w.now-home.sent >= w.timeout {
		k = load.FailureTimeout // no chain is longer than a request may take, but for its last answer
	}
	if k != load.FailureNone {
		return false, k
	}
	next := home
	if to.Origin != home.pool.target.Root.Origin {
		if next, k = w.detour(home, c, to); k != load.FailureNone {
			return false, k
		}
	}
	home.hops++
	if next != c {
		w.stepAside(c, reusable)
		reusable = next.state == connIdle || next.state == connBusy && !next.peerEnded
	}
	next.hop, next.carries = to, true
	if reusable {
		next.state = connBusy
		w.send(next)
		return true, load.FailureNone
	}
	w.drop(next)
	w.open(next)
	return true, load.FailureNone
}

// stepAside leaves c without the request it carried.
func (w *Worker) stepAside(c *conn, reusable bool) {
	c.carries, c.hop = false, nil
	switch {
	case !reusable:
		w.drop(c)
	case c.home != nil:
		c.state = connIdle
	}
}

// detour is home's connection to another origin. busy is the one that is in use.
func (w *Worker) detour(home, busy *conn, to *http1.Hop) (*conn, load.Failure) {
	if d := home.detours[to.Origin]; d != nil {
		return d, load.FailureNone
	}
	p, k := w.poolTo(to)
	if k != load.FailureNone {
		return nil, k
	}
	var d *conn
	if len(home.detours) >= http1.MaxDetours {
		for origin, old := range home.detours {
			if old != busy {
				delete(home.detours, origin)
				w.drop(old)
				d = old
				break
			}
		}
	} else {
		d = &conn{home: home, fd: -1, index: int32(len(w.conns) + len(w.detours)), parser: http1.Parser{Content: w.expect.NewContent(), Follow: true}}
		d.of = d
		w.detours = append(w.detours, d)
	}
	if home.detours == nil {
		home.detours = map[string]*conn{}
	}
	d.pool, home.detours[to.Origin] = p, d
	return d, load.FailureNone
}

// poolTo is another origin as this worker sees it.
func (w *Worker) poolTo(to *http1.Hop) (*pool, load.Failure) {
	if p := w.origins[to.Origin]; p != nil {
		return p, load.FailureNone
	}
	t, err := target.ForHop(&w.job.Profile, to)
	if err != nil {
		return nil, load.FailureTLS
	}
	if t.TLS != nil && w.plain == nil {
		w.plain = make([]byte, plainBuffer)
	}
	if w.origins == nil || len(w.origins) >= http1.MaxHops {
		w.origins = map[string]*pool{}
	}
	p := &pool{target: t, turn: w.number, bodily: w.pools[0].bodily}
	w.origins[to.Origin] = p
	return p, load.FailureNone
}

// comeBack makes a place whose request has ended on a detour ready for the next.
func (w *Worker) comeBack(home *conn) {
	if home.state == connBusy && !home.peerEnded {
		w.release(home)
	} else {
		w.reopen(home)
	}
}

// at is the connection with an index.
func (w *Worker) at(index int32) *conn {
	if int(index) < len(w.conns) {
		return &w.conns[index]
	}
	return w.detours[int(index)-len(w.conns)]
}
