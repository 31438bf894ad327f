// Package proxy is the reference proxy: a plain L7 proxy beside a pod, made of
// net/http and nothing else, with optional mutual TLS, whose cost can be set.
// Measuring it validates tare: a proxy that burns 100 µs per request must cost
// 100 µs more than the same proxy that burns nothing.
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
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// drainGrace bounds requests in flight after the proxy is stopped.
const drainGrace = time.Second

// Bounds of a weight: a typing error must not stop a machine.
const (
	MaxBurn   = time.Second
	MaxDelay  = time.Minute
	MaxMemory = 64 << 10 // MiB
)

// Weight is the configured additional cost of the proxy. Burn and Delay apply to
// inbound requests, so that a call between two pods has them once.
type Weight struct {
	Burn   time.Duration // CPU time a request
	Delay  time.Duration // waited for a request, without using CPU
	Memory int           // MiB held, every page of them touched
}

func (w Weight) check() error {
	switch {
	case w.Burn < 0 || w.Burn > MaxBurn:
		return fmt.Errorf("burn %v is not between 0 and %v", w.Burn, MaxBurn)
	case w.Delay < 0 || w.Delay > MaxDelay:
		return fmt.Errorf("delay %v is not between 0 and %v", w.Delay, MaxDelay)
	case w.Memory < 0 || w.Memory > MaxMemory:
		return fmt.Errorf("memory of %d MiB is not between 0 and %d MiB", w.Memory, MaxMemory)
	}
	return nil
}

// Proxy is one sidecar: a way in to the application, a way out to each service
// the pod calls, and an admin interface.
type Proxy struct {
	weight   Weight
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

// New listens on every way and on the admin socket; the ports are the kernel's
// choice. Nothing is answered before [Proxy.Run].
func New(c mesh.SidecarContext, w Weight) (_ *Proxy, err error) {
	if err := w.check(); err != nil {
		return nil, fmt.Errorf("reference proxy: %w", err)
	}
	p := &Proxy{weight: w, counters: newCounters()}
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
	// No timeouts: a deadline set for every request would be a cost of its own.
	w := &way{name: name, listener: l, server: &http.Server{Handler: h}}
	p.ways = append(p.ways, w)
	return w, nil
}

// listenAdmin takes the socket for this user alone; what a killed proxy left at the path is replaced.
func (p *Proxy) listenAdmin(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("listen for admin: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen for admin: %w", err)
	}
	p.admin = l
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("listen for admin: %w", err)
	}
	return nil
}

// Run answers until ctx ends, and then lets requests in flight finish, for a second at most.
func (p *Proxy) Run(ctx context.Context) error {
	defer p.close()
	group, ctx := errgroup.WithContext(ctx)
	admin := &http.Server{Handler: p.adminHandler()}
	group.Go(func() error { return serve(ctx, admin, p.admin) })
	for _, w := range p.ways {
		group.Go(func() error { return serve(ctx, w.server, w.listener) })
	}
	return group.Wait()
}

func serve(ctx context.Context, s *http.Server, l net.Listener) error {
	failed := make(chan error, 1)
	go func() {
		if s.TLSConfig != nil {
			failed <- s.ServeTLS(l, "", "")
			return
		}
		failed <- s.Serve(l)
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainGrace)
	defer cancel()
	if err := s.Shutdown(grace); errors.Is(err, context.DeadlineExceeded) {
		return s.Close()
	} else if err != nil {
		return fmt.Errorf("end serving on %s: %w", l.Addr(), err)
	}
	return nil
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
