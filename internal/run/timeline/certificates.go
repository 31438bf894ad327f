package timeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

const (
	// handshakeEvery is the time between TLS handshakes while a certificate is renewed.
	handshakeEvery = 5 * time.Millisecond
	// handshakeShare of the time since the change is the least time between them too, so that a long wait costs little CPU.
	handshakeShare = 0.01
	// handshakesAfter is the least time of handshakes after the first with the new certificate.
	handshakesAfter = 50 * time.Millisecond
	// maxHandshakes is the number of them under way.
	maxHandshakes = 64
)

// readSerials reads the certificates of all endpoints, if one of them is renewed.
func (c *Changes) readSerials(ctx context.Context) error {
	for _, next := range c.plan {
		if next.described.Shown != metric.Certificate || c.serials[next.Endpoint] != "" {
			continue
		}
		if c.deployment.Serial == nil {
			return fmt.Errorf("change %s: %w by the platform", next.Kind, errors.ErrUnsupported)
		}
		if err := c.readSerial(ctx, next.Endpoint); err != nil {
			return fmt.Errorf("change %s: %w", next.Kind, err)
		}
	}
	return nil
}

func (c *Changes) readSerial(ctx context.Context, endpoint string) error {
	serial, err := c.deployment.Serial(ctx, endpoint)
	if err != nil {
		return fmt.Errorf("read the certificate of %s: %w", endpoint, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serials[endpoint] = serial
	return nil
}

// handshake is one TLS handshake. Its instants are from the change.
type handshake struct {
	sent, end time.Duration
	serial    string // empty: it failed
}

// renew changes a certificate, while handshakes at a fixed rate show which one is in use. They end when the new one was seen for as
// long as it took, or after half of the time to the next change, or before it without a new one.
func (c *Changes) renew(ctx context.Context, change change, sent time.Time, made *result.Change) error {
	c.mu.Lock()
	old := c.serials[change.Endpoint]
	c.mu.Unlock()
	accepted := make(chan error, 1)
	var prepared time.Duration // of the change, until it was sent
	change.Sending = sync.OnceFunc(func() { prepared = time.Since(sent) })
	go routine.Guarded(func() {
		err := c.deployment.Changer.Change(ctx, change.Change)
		made.AcceptedSeconds = made.SentSeconds + seconds(time.Since(sent))
		accepted <- err
	})()
	var mu sync.Mutex
	var all []handshake
	seen := time.Duration(math.MaxInt64) // when the new one was seen first
	latest := time.Duration(0)           // when a handshake was sent last
	probing, stop := context.WithTimeout(ctx, change.next*3/4-time.Since(sent))
	defer stop()
	wait.Every(probing, handshakeEvery, maxHandshakes, func() {
		h := handshake{sent: time.Since(sent)}
		mu.Lock()
		over := seen != math.MaxInt64 && (h.sent-seen > max(seen, handshakesAfter) || h.sent >= change.next/2-clockLead)
		due := float64(h.sent-latest) >= handshakeShare*float64(h.sent)
		if due {
			latest = h.sent
		}
		mu.Unlock()
		if over {
			stop()
		}
		if over || !due {
			return
		}
		serial, err := c.deployment.Serial(ctx, change.Endpoint)
		h.end = time.Since(sent)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			if h.serial = serial; serial != old {
				seen = min(seen, h.end)
			}
		}
		all = append(all, h)
	})
	if err := <-accepted; err != nil {
		return err
	}
	made.SentSeconds += seconds(prepared)
	all = since(all, prepared)
	c.mu.Lock()
	c.serials[change.Endpoint] = presented(all, old, made)
	c.mu.Unlock()
	return c.repeat(ctx, change, sent.Add(prepared), all)
}

// since counts the instants of handshakes from a later one. Handshakes that ended before it show nothing.
func since(all []handshake, later time.Duration) (after []handshake) {
	for _, h := range all {
		if h.sent, h.end = max(0, h.sent-later), h.end-later; h.end > 0 {
			after = append(after, h)
		}
	}
	return after
}

// repeat makes the handshakes of a change again in the second half of the time to the next, after one for the reading before it. That
// half has the level of CPU without a change, so that no handshake of tare is in the CPU of the change.
func (c *Changes) repeat(ctx context.Context, change change, sent time.Time, all []handshake) error {
	for _, h := range append([]handshake{{}}, all...) {
		if h.sent >= change.next/2-clockLead { // late, or the clocks were read before
			continue
		}
		if err := wait.For(ctx, time.Until(sent.Add(change.next/2+h.sent))); err != nil {
			return err
		}
		_, _ = c.deployment.Serial(ctx, change.Endpoint) // only its CPU counts
	}
	return nil
}

// presented adds to a change what handshakes show of it, and returns the certificate after it.
func presented(all []handshake, old string, made *result.Change) (serial string) {
	first, serial := handshake{end: math.MaxInt64}, old
	for _, h := range all {
		if h.serial != "" && h.serial != old && h.end < first.end {
			first, serial = h, h.serial
		}
	}
	var before, last time.Duration // when the last handshakes with the old one were sent, before the first new one and at all
	for _, h := range all {
		switch h.serial {
		case "":
			made.Failed++
			continue
		case old:
			last = max(last, h.sent)
			if h.sent < first.sent || first.end == math.MaxInt64 {
				before = max(before, h.sent)
			}
			if h.sent > first.end {
				made.Flaps++
			}
		}
		made.Probes++
	}
	none, known := bounds{0, never}, bounds{int64(before), int64(first.end)}
	made.FirstNew, made.LastOld = none.span(0), none.span(0)
	if first.end == math.MaxInt64 {
		made.FirstNew.AfterMS, made.LastOld.AfterMS = milliseconds(int64(last)), milliseconds(int64(last))
		return serial
	}
	made.FirstNew = known.span(0)
	after := bounds{int64(last), never}
	for _, h := range all {
		if h.serial == serial && h.sent > last {
			after.before = min(after.before, int64(h.end))
		}
	}
	made.LastOld = after.span(0)
	return serial
}
