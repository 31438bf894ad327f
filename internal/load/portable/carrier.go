package portable

import (
	"context"
	"crypto/tls"
	"net/netip"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/target"
)

// Carrier carries the requests of one place, one after another, in place of a connection with HTTP/1.1.
type Carrier interface {
	// Open makes it usable. Several carriers may share a connection, which the first opens.
	Open(ctx context.Context) (Opened, load.Failure, error)
	// IsOpen reports whether it is usable.
	IsOpen() bool
	// Exchange sends the request of a target and reads its answer, until ctx ends.
	Exchange(ctx context.Context, t *target.Target) Answer
	// Close ends the connection.
	Close()
}

// Carriers makes the carriers that share one connection to the host of a target.
type Carriers func(t *target.Target, expect *check.Expectation) []Carrier

// Opened is a new connection. Without an address it was open already.
type Opened struct {
	Addr netip.AddrPort
	TLS  tls.ConnectionState
	Took time.Duration
}

// Answer is the outcome of one request.
type Answer struct {
	Status      int
	Kind        load.Failure
	Err         error     // its reason
	First       time.Time // of the first byte
	Unprocessed bool      // the server has guaranteed not to have acted on the request
	In, Out     int64     // bytes
}

// fineSleep is the time before a send that the pacer's thread sleeps by itself.
const fineSleep = 2 * time.Millisecond

// carryBy gives each connection the places of its carriers.
func (l *Worker) carryBy(carry Carriers) {
	l.fine = fineSleep
	var all []*conn
	for _, c := range l.conns {
		for n, carrier := range carry(c.target, &l.expect) {
			all = append(all, &conn{worker: l, pool: c.pool, target: c.target, carrier: carrier, shares: n > 0})
		}
	}
	l.conns = all
}

// isOpen reports whether c can send a request at once.
func (c *conn) isOpen() bool {
	if c.carrier != nil {
		return c.carrier.IsOpen()
	}
	return c.conn != nil
}

// openCarrier opens c's carrier, and counts a new connection.
func (c *conn) openCarrier(ctx context.Context) load.Failure {
	l := c.worker
	opened, k, err := c.carrier.Open(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case k != load.FailureNone:
		l.rec.Because(k, err)
	case opened.Addr.IsValid():
		l.rec.Connected(opened.Addr, l.now(), int64(opened.Took))
		l.rec.Handshaken(opened.TLS, int64(opened.Took))
		if !l.zero.IsZero() {
			l.rec.Reconnects++
		}
	}
	return k
}

// carry sends c's request, again on another connection if the server has not processed it.
func (c *conn) carry(p *load.Profile) (load.Failure, int) {
	l := c.worker
	ctx, cancel := context.WithDeadline(l.opening, l.zero.Add(time.Duration(c.request.Sent)+p.Timeout))
	defer cancel()
	for {
		a := c.carrier.Exchange(ctx, c.target)
		l.mu.Lock()
		if l.rec.InWindow(l.now()) {
			l.rec.BytesIn += a.In
			l.rec.BytesOut += a.Out
		}
		l.rec.Because(a.Kind, a.Err)
		l.mu.Unlock()
		if !a.First.IsZero() {
			c.request.First = int64(a.First.Sub(l.zero))
		}
		if !a.Unprocessed || c.request.Retries >= job.MaxRetries || ctx.Err() != nil {
			if a.Status != 0 {
				c.served, c.backoff = true, 0
			}
			return a.Kind, a.Status
		}
		c.request.Retries++
		if k := c.open(); k != load.FailureNone {
			return k, 0
		}
	}
}
