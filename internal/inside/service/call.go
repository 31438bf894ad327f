package service

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// step is calls that are made at the same time.
type step []*call

// call is one call of a configuration, ready to be made.
type call struct {
	service string
	options app.CallOptions
	ways    []way
	next    atomic.Uint64
}

// way leads to one replica, or to a proxy before them all.
type way interface {
	// do makes one attempt and reads the answer to its end. alone: on a connection of its own.
	do(ctx context.Context, size int64, in incoming, alone bool) error
}

// incoming is the part of a request that its calls need.
type incoming struct {
	// trace are the headers to pass on, name and value in turn.
	trace []string
	// alone: the request came on a connection of its own ("Connection: close", or
	// [app.AloneHeader]), so that its calls are made on connections of their own.
	// A probe can then be counted in connections all along its way.
	alone bool
}

// traceHeaders are passed on, as every program that takes part in a trace must:
// those of W3C Trace Context, B3, OpenTracing, Datadog, Google Cloud and gRPC,
// and the request ID that proxies join their logs by.
var traceHeaders = []string{
	"x-request-id", "traceparent", "tracestate", "baggage",
	"b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags",
	"x-ot-span-context", "x-cloud-trace-context", "grpc-trace-bin",
	"x-datadog-trace-id", "x-datadog-parent-id", "x-datadog-sampling-priority", "x-datadog-origin",
}

// canonicalTrace are the same as net/http keeps them.
var canonicalTrace = func() []string {
	names := make([]string, len(traceHeaders))
	for i, n := range traceHeaders {
		names[i] = http.CanonicalHeaderKey(n)
	}
	return names
}()

// traceOf finds the headers to pass on by names that are already in the form that values is keyed by.
func traceOf(names []string, values map[string][]string) []string {
	var found []string
	for i, name := range names {
		if v := values[name]; len(v) > 0 {
			found = append(found, traceHeaders[i], v[0])
		}
	}
	return found
}

// isAlone reports whether a request has [app.AloneHeader].
func isAlone(name string, values map[string][]string) bool {
	v := values[name]
	return len(v) > 0 && v[0] != ""
}

var canonicalAlone = http.CanonicalHeaderKey(app.AloneHeader)

// pairs are the headers of a call that come from the request that sets it off.
func (in incoming) pairs() []string {
	if !in.alone {
		return in.trace
	}
	return append(in.trace[:len(in.trace):len(in.trace)], app.AloneHeader, "1")
}

// newSteps groups the calls that are made at the same time.
func (s *Service) newSteps(ups []app.Upstream) ([]step, error) {
	var steps []step
	for _, up := range ups {
		c := &call{service: up.Service, options: up.CallOptions}
		for _, raw := range up.URLs {
			w, err := s.clients.way(raw, up.CallOptions)
			if err != nil {
				return nil, fmt.Errorf("call to %s: %w", up.Service, err)
			}
			c.ways = append(c.ways, w)
		}
		if up.Alongside {
			steps[len(steps)-1] = append(steps[len(steps)-1], c)
		} else {
			steps = append(steps, step{c})
		}
	}
	return steps, nil
}

// callAll makes all calls. The first that fails ends it; those made alongside are waited for.
func (s *Service) callAll(ctx context.Context, steps []step, in incoming) error {
	for _, st := range steps {
		if len(st) == 1 {
			if err := s.call(ctx, st[0], in); err != nil {
				return err
			}
			continue
		}
		var all errgroup.Group
		for _, c := range st {
			all.Go(func() error { return s.call(ctx, c, in) })
		}
		if err := all.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) call(ctx context.Context, c *call, in incoming) error {
	o := &c.options
	if o.Probability != nil && rand.Float64() >= *o.Probability {
		return nil
	}
	if wait := o.Wait.Draw(); wait > 0 {
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	if len(c.ways) == 0 {
		return nil
	}
	size := o.RequestSize.Draw()
	var err error
	for attempt := 0; attempt <= o.Retries; attempt++ {
		if attempt > 0 {
			s.count.retries.Add(1)
		}
		if err = s.attempt(ctx, c, size, in); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("call %s: %w", c.service, err)
	}
	return nil
}

func (s *Service) attempt(ctx context.Context, c *call, size int64, in incoming) error {
	s.count.calls.Add(1)
	if c.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(c.options.Timeout))
		defer cancel()
	}
	w := c.ways[(c.next.Add(1)-1)%uint64(len(c.ways))]
	return w.do(ctx, size, in, in.alone || c.options.NewConnection)
}

// urls lists the URLs of steps, sorted, to compare two configurations.
func urls(calls []app.Upstream) []string {
	var all []string
	for _, up := range calls {
		all = append(all, up.URLs...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
