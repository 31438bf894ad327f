package portable

import (
	"crypto/tls"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/host"
	"github.com/tare-mesh/tare/internal/load/http1"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/target"
)

// exchangeAll sends the request and follows where its answers lead, on connections of c's
// own. reusable is about c's connection to its target.
func (c *conn) exchangeAll(p *load.Profile) (status int, k load.Failure, reusable bool) {
	at, asked := c, c.target.Root
	for hops := 0; ; hops++ {
		if at != c {
			at.reused = at.conn != nil
		}
		if at.conn == nil {
			if k := at.open(); k != load.FailureNone {
				return 0, k, reusable && at != c
			}
		}
		status, k, again := at.exchange(p, c.until(p))
		if at.reused && !at.parser.Started() && (k == load.FailureReset || k == load.FailureClosedEarly) {
			if p.RetryIdle && c.request.Retries < job.MaxRetries {
				c.request.Retries++
				at.drop()
				at.reused = false
				hops--
				continue
			}
			if !at.arrived() {
				k = load.FailureIdleClosed
			}
		}
		c.request.First = at.request.First
		if at.hop = nil; at == c {
			reusable = again
		} else if !again {
			at.drop()
		}
		if k != load.FailureNone || !at.parser.Redirected() {
			return status, k, reusable
		}
		to, k := c.route.Next(asked, hops, status, at.parser.Location)
		if k == load.FailureNone && c.worker.now()-c.request.Sent >= int64(p.Timeout) {
			k = load.FailureTimeout
		}
		next := c
		if k == load.FailureNone && to.Origin != c.target.Root.Origin {
			next, k = c.detourTo(to)
		}
		if k != load.FailureNone {
			return status, k, reusable
		}
		if next == c && !reusable {
			c.drop()
		}
		c.request.Hops++
		at, asked = next, to
		at.hop = to
	}
}

// until is the deadline of an exchange that begins now, see [load.Profile.Timeout].
func (c *conn) until(p *load.Profile) time.Time {
	if c.request.Hops > 0 {
		return time.Now().Add(p.Timeout)
	}
	return c.worker.zero.Add(time.Duration(c.request.Sent) + p.Timeout)
}

// arrived reports whether the request may have reached the server, see [host.Arrived].
func (c *conn) arrived() bool {
	at := c.conn
	if s, ok := at.(*tls.Conn); ok {
		at = s.NetConn()
	}
	s, ok := at.(syscall.Conn)
	arrived := true
	if !ok {
		return arrived
	}
	if raw, err := s.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { arrived = host.Arrived(int32(fd), c.written) })
	}
	return arrived
}

// detourTo is c's connection to another origin.
func (c *conn) detourTo(to *http1.Hop) (*conn, load.Failure) {
	if d := c.detours[to.Origin]; d != nil {
		return d, load.FailureNone
	}
	t, err := target.ForHop(&c.worker.job.Profile, to)
	if err != nil {
		return nil, load.FailureTLS
	}
	if len(c.detours) >= http1.MaxDetours {
		for _, d := range c.detours {
			d.drop()
		}
		clear(c.detours)
	}
	d := &conn{worker: c.worker, pool: &pool{}, target: t, detour: true,
		parser: http1.Parser{Content: c.worker.expect.NewContent(), Follow: true}, buffer: c.buffer}
	if c.detours == nil {
		c.detours = map[string]*conn{}
	}
	c.detours[to.Origin] = d
	c.worker.mu.Lock()
	defer c.worker.mu.Unlock()
	c.worker.conns = append(c.worker.conns, d)
	return d, load.FailureNone
}
