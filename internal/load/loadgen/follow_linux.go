package loadgen

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
		return c.hop.request
	}
	return c.pool.target.request
}

// follow takes c's request to where its answer leads. It is not taken on, and the
// kind says why, where that is nowhere.
func (w *worker) follow(c *conn, reusable bool) (on bool, k kind) {
	home, from := c.owner(), c.hop
	if from == nil {
		from = c.pool.target.root
	}
	to, k := w.route.next(from, home.hops, c.parser.status, c.parser.location)
	if k == kindNone && w.now-home.sent >= w.timeout {
		k = kindTimeout // no chain is longer than a request may take, but for its last answer
	}
	if k != kindNone {
		return false, k
	}
	next := home
	if to.origin != home.pool.target.root.origin {
		if next, k = w.detour(home, c, to); k != kindNone {
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
		return true, kindNone
	}
	w.drop(next)
	w.open(next)
	return true, kindNone
}

// stepAside leaves c without the request it carried.
func (w *worker) stepAside(c *conn, reusable bool) {
	c.carries, c.hop = false, nil
	switch {
	case !reusable:
		w.drop(c)
	case c.home != nil:
		c.state = connIdle
	}
}

// detour is home's connection to another origin. busy is the one that is in use.
func (w *worker) detour(home, busy *conn, to *hop) (*conn, kind) {
	if d := home.detours[to.origin]; d != nil {
		return d, kindNone
	}
	p, k := w.poolTo(to)
	if k != kindNone {
		return nil, k
	}
	var d *conn
	if len(home.detours) >= maxDetours {
		for origin, old := range home.detours {
			if old != busy {
				delete(home.detours, origin)
				w.drop(old)
				d = old
				break
			}
		}
	} else {
		d = &conn{home: home, fd: -1, index: int32(len(w.conns) + len(w.detours)), parser: parser{content: w.expect.content(), follow: true}}
		d.of = d
		w.detours = append(w.detours, d)
	}
	if home.detours == nil {
		home.detours = map[string]*conn{}
	}
	d.pool, home.detours[to.origin] = p, d
	return d, kindNone
}

// poolTo is another origin as this worker sees it.
func (w *worker) poolTo(to *hop) (*pool, kind) {
	if p := w.origins[to.origin]; p != nil {
		return p, kindNone
	}
	t, err := hopTarget(&w.job.profile, to)
	if err != nil {
		return nil, kindTLS
	}
	if t.tls != nil && w.plain == nil {
		w.plain = make([]byte, plainBuffer)
	}
	if w.origins == nil || len(w.origins) >= maxHops {
		w.origins = map[string]*pool{}
	}
	p := &pool{target: t, turn: w.number, bodily: w.pools[0].bodily}
	w.origins[to.origin] = p
	return p, kindNone
}

// comeBack makes a place whose request has ended on a detour ready for the next.
func (w *worker) comeBack(home *conn) {
	if home.state == connBusy && !home.peerEnded {
		w.release(home)
	} else {
		w.reopen(home)
	}
}

// at is the connection with an index.
func (w *worker) at(index int32) *conn {
	if int(index) < len(w.conns) {
		return &w.conns[index]
	}
	return w.detours[int(index)-len(w.conns)]
}
