package epoll

import (
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http1"
	"github.com/tare-mesh/tare/internal/load/target"
)

// Following redirects. A request stays with the place it was given to. Within its
// target's origin the place's own connection carries it on. To other origins it takes
// a detour, a connection of the place's for each, while the place waits.

// redirector follows redirects.
type redirector struct {
	w       *Worker
	route   http1.Redirects
	origins map[string]*pool // that redirects led to
}

// follow takes c's request to where its answer leads. If the answer leads nowhere,
// the request is not taken on, and k is the reason.
func (r *redirector) follow(c *conn, reusable bool) (on bool, k load.Failure) {
	home, from := c.owner(), c.hop
	if from == nil {
		from = home.what.target.Root
	}
	to, k := r.route.Next(from, home.hops, c.parser.Status, c.parser.Location)
	if k == load.FailureNone && r.w.now-home.sent >= r.w.timeout {
		k = load.FailureTimeout // no chain is longer than a request may take, but for its last answer
	}
	if k != load.FailureNone {
		return false, k
	}
	next := home
	if to.Origin != home.pool.target.Root.Origin {
		if next, k = r.detour(home, c, to); k != load.FailureNone {
			return false, k
		}
	}
	home.hops++
	if next != c {
		r.detach(c, reusable)
		reusable = next.state == connIdle || next.state == connBusy && !next.peerEnded
	}
	next.hop, next.carries = to, true
	if reusable {
		next.state = connBusy
		r.w.exchanges.send(next)
		return true, load.FailureNone
	}
	r.w.places.drop(next)
	r.w.connector.open(next)
	return true, load.FailureNone
}

// detach leaves c without the request it carried.
func (r *redirector) detach(c *conn, reusable bool) {
	c.carries, c.hop = false, nil
	switch {
	case !reusable:
		r.w.places.drop(c)
	case c.home != nil:
		c.state = connIdle
	}
}

// detour is home's connection to another origin. busy is the one that is in use.
func (r *redirector) detour(home, busy *conn, to *http1.Hop) (*conn, load.Failure) {
	if d := home.detours[to.Origin]; d != nil {
		return d, load.FailureNone
	}
	p, k := r.poolTo(to)
	if k != load.FailureNone {
		return nil, k
	}
	var d *conn
	if len(home.detours) >= http1.MaxDetours {
		for origin, old := range home.detours {
			if old != busy {
				delete(home.detours, origin)
				r.w.places.drop(old)
				d = old
				break
			}
		}
	} else {
		d = r.w.places.add()
		d.home, d.parser = home, http1.Parser{Content: r.w.exchanges.expect.NewContent(), Follow: true}
	}
	if home.detours == nil {
		home.detours = map[string]*conn{}
	}
	d.pool, home.detours[to.Origin] = p, d
	return d, load.FailureNone
}

// poolTo is another origin as this worker sees it.
func (r *redirector) poolTo(to *http1.Hop) (*pool, load.Failure) {
	if p := r.origins[to.Origin]; p != nil {
		return p, load.FailureNone
	}
	t, err := target.ForHop(&r.w.job.Profile, to)
	if err != nil {
		return nil, load.FailureTLS
	}
	if t.TLS != nil && r.w.io.plain == nil {
		r.w.io.plain = make([]byte, plainBuffer)
	}
	if r.origins == nil || len(r.origins) >= http1.MaxHops {
		r.origins = map[string]*pool{}
	}
	p := &pool{target: t, turn: r.w.number}
	r.origins[to.Origin] = p
	return p, load.FailureNone
}

// returnHome makes a place whose request has ended on a detour ready for the next.
func (r *redirector) returnHome(home *conn) {
	if home.state == connBusy && !home.peerEnded {
		r.w.places.release(home)
	} else {
		r.w.places.reopen(home)
	}
}
