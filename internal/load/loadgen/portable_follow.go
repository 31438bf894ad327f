package loadgen

// chase sends the request and follows where its answers lead, on connections of c's
// own. reusable is said of c's connection to its target.
func (c *portableConn) chase(p *Profile) (status int, k kind, reusable bool) {
	at, asked := c, c.target.root
	for hops := 0; ; hops++ {
		if at.conn == nil {
			if k := at.open(); k != kindNone {
				return 0, k, reusable && at != c
			}
		}
		status, k, again := at.exchange(p)
		c.request.first = at.request.first
		if at.hop = nil; at == c {
			reusable = again
		} else if !again {
			at.drop()
		}
		if k != kindNone || !at.parser.moved() {
			return status, k, reusable
		}
		to, k := c.route.next(asked, hops, status, at.parser.location)
		if k == kindNone && c.lane.now()-c.request.sent >= int64(p.Timeout) {
			k = kindTimeout
		}
		next := c
		if k == kindNone && to.origin != c.target.root.origin {
			next, k = c.detourTo(to)
		}
		if k != kindNone {
			return status, k, reusable
		}
		if next == c && !reusable {
			c.drop()
		}
		c.request.hops++
		at, asked = next, to
		at.hop = to
	}
}

// detourTo is c's connection to another origin.
func (c *portableConn) detourTo(to *hop) (*portableConn, kind) {
	if d := c.detours[to.origin]; d != nil {
		return d, kindNone
	}
	t, err := hopTarget(&c.lane.job.profile, to)
	if err != nil {
		return nil, kindTLS
	}
	if len(c.detours) >= maxDetours {
		for _, d := range c.detours {
			d.drop()
		}
		clear(c.detours)
	}
	d := &portableConn{lane: c.lane, pool: &portablePool{}, target: t, detour: true,
		parser: parser{content: c.lane.expect.content(), follow: true}, buffer: c.buffer}
	if c.detours == nil {
		c.detours = map[string]*portableConn{}
	}
	c.detours[to.origin] = d
	c.lane.mu.Lock()
	defer c.lane.mu.Unlock()
	c.lane.conns = append(c.lane.conns, d)
	return d, kindNone
}
