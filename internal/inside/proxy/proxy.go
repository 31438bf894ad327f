// Package proxy is the reference proxy: a plain L7 sidecar of net/http with
// optional mutual TLS and a configurable cost. Measuring it validates tare: a
// proxy that burns 100 µs per request must cost 100 µs more than the same proxy
// without burn.
//
// Its admin socket is compatible with Envoy's (/ready, /listeners, /stats), so
// that platforms start both in the same way.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Limits of a weight: a typo must not stop a machine.
const (
	maxBurn   = time.Second
	maxDelay  = time.Minute
	MaxMemory = 64 << 10 // MiB
	maxSteady = 1        // cores
	maxLeak   = 1 << 10  // KiB
)

// Weight is the configured additional cost of the proxy. What is per request applies to
// inbound requests, so that a call between two pods has it once.
type Weight struct {
	Burn   time.Duration // CPU time per request
	Delay  time.Duration // wait per request, without CPU use
	Memory int           // MiB held, every page touched

	Deferred   time.Duration // CPU time per request, after its answer
	DeferredBy time.Duration // from the answer to that work
	Flush      time.Duration // period after which the deferred work of all requests is done at once; 0: none
	Steady     float64       // cores, with and without requests

	Leak int // KiB kept of each request, every page touched
}

func (w Weight) check() error {
	switch {
	case w.Burn < 0 || w.Burn > maxBurn:
		return fmt.Errorf("burn %v is not between 0 and %v", w.Burn, maxBurn)
	case w.Delay < 0 || w.Delay > maxDelay:
		return fmt.Errorf("delay %v is not between 0 and %v", w.Delay, maxDelay)
	case w.Memory < 0 || w.Memory > MaxMemory:
		return fmt.Errorf("memory of %d MiB is not between 0 and %d MiB", w.Memory, MaxMemory)
	case w.Deferred < 0 || w.Deferred > maxBurn:
		return fmt.Errorf("deferred work of %v is not between 0 and %v", w.Deferred, maxBurn)
	case w.DeferredBy < 0 || w.DeferredBy > maxDelay || w.Flush < 0 || w.Flush > maxDelay:
		return fmt.Errorf("a delay of %v or a flush after %v is not between 0 and %v", w.DeferredBy, w.Flush, maxDelay)
	case !(w.Steady >= 0 && w.Steady <= maxSteady):
		return fmt.Errorf("steady use of %v cores is not between 0 and %d", w.Steady, maxSteady)
	case w.Leak < 0 || w.Leak > maxLeak:
		return fmt.Errorf("a leak of %d KiB is not between 0 and %d KiB", w.Leak, maxLeak)
	}
	return nil
}

// Proxy is one sidecar: an inbound listener for the application, an outbound
// listener for each called service, and an admin interface.
type Proxy struct {
	weight   Weight
	pending  atomic.Int64 // requests whose deferred work waits for a flush
	leaked   leaked
	ways     []*way
	counters *counters
	admin    net.Listener
	held     []byte
}

// way is one listener and its handler.
type way struct {
	name     string
	listener net.Listener
	server   *http.Server
}

// New listens on every way and on the admin socket. The kernel chooses the
// ports. Requests are served from [Proxy.Run] on.
func New(c mesh.SidecarContext, w Weight) (_ *Proxy, err error) {
	if err := w.check(); err != nil {
		return nil, fmt.Errorf("reference proxy: %w", err)
	}
	p := &Proxy{weight: w, counters: &counters{map[string]*atomic.Int64{}}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("reference proxy of %s: %w", c.Pod, err)
			p.close()
		}
	}()
	id, err := newIdentity(c)
	if err != nil {
		return nil, err
	}
	if p.held, err = hold(w.Memory); err != nil {
		return nil, err
	}
	if c.Inbound != nil {
		if err := p.listenInbound(c, id); err != nil {
			return nil, err
		}
	}
	for _, out := range c.Outbound {
		if err := p.listenOutbound(c, out, id); err != nil {
			return nil, err
		}
	}
	return p, p.listenAdmin(c.AdminPath)
}

func (p *Proxy) listen(name, ip string, port int, h http.Handler) (*way, error) {
	l, err := net.Listen("tcp", address(ip, port))
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", name, err)
	}
	// No timeouts: a deadline per request would add a cost.
	w := &way{name: name, listener: l, server: &http.Server{Handler: h}}
	p.ways = append(p.ways, w)
	return w, nil
}

// listenAdmin listens on a socket that only this user can access. It replaces
// the socket of a killed proxy.
func (p *Proxy) listenAdmin(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("listen for admin: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen for admin: %w", err)
	}
	p.admin = l
	return hint.Prefix(os.Chmod(path, 0o600), "listen for admin")
}

// Run serves until ctx ends. Requests in flight then have 1 s to finish.
func (p *Proxy) Run(ctx context.Context) error {
	defer p.close()
	group, ctx := errgroup.WithContext(ctx)
	admin := &http.Server{Handler: p.adminHandler()}
	group.Go(func() error { return httpserver.Serve(ctx, p.admin, admin) })
	group.Go(func() error { return p.flush(ctx) })
	group.Go(func() error { return p.burnSteadily(ctx) })
	for _, w := range p.ways {
		group.Go(func() error { return httpserver.Serve(ctx, w.listener, w.server) })
	}
	return group.Wait()
}

func (p *Proxy) close() {
	for _, w := range p.ways {
		w.listener.Close()
	}
	if p.admin != nil {
		p.admin.Close()
	}
	release(p.held)
	p.held = nil
}
