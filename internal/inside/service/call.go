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

// step is a group of concurrent calls.
type step []*call

// call is one prepared call of a configuration.
type call struct {
	service string
	options app.CallOptions
	ways    []way
	next    atomic.Uint64
	count   *callee // nil without ways
}

// callee counts the requests to one service.
type callee struct{ sent, failed, retries atomic.Int64 }

// way connects to one replica, or to a proxy in front of all replicas.
type way interface {
	// do makes one attempt and reads the whole response. If alone, it uses a
	// connection of its own. sent counts the requests, more than one with redirects.
	do(ctx context.Context, size int64, in incoming, alone bool) (sent int, err error)
}

// incoming is the part of a request that its calls need.
type incoming struct {
	// trace contains the headers to pass on: name, value, name, value.
	trace []string
	// alone is set if the request came on a connection of its own ("Connection:
	// close", or [app.AloneHeader]). Its calls then use connections of their own
	// too, so that a probe can be counted in connections at every hop.
	alone bool
}

// traceHeaders are passed on, as distributed tracing requires: the headers of
// W3C Trace Context, B3, OpenTracing, Datadog, Google Cloud and gRPC, and the
// request ID that joins proxy logs.
var traceHeaders = []string{
	"x-request-id", "traceparent", "tracestate", "baggage",
	"b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags",
	"x-ot-span-context", "x-cloud-trace-context", "grpc-trace-bin",
	"x-datadog-trace-id", "x-datadog-parent-id", "x-datadog-sampling-priority", "x-datadog-origin",
}

// canonicalTrace contains the same names in net/http's canonical form.
var canonicalTrace = func() []string {
	names := make([]string, len(traceHeaders))
	for i, n := range traceHeaders {
		names[i] = http.CanonicalHeaderKey(n)
	}
	return names
}()

// traceOf returns the headers to pass on. names have the form of the keys of
// values.
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

// pairs returns the headers that calls copy from the incoming request.
func (in incoming) pairs() []string {
	if !in.alone {
		return in.trace
	}
	return append(in.trace[:len(in.trace):len(in.trace)], app.AloneHeader, "1")
}

// newSteps groups concurrent calls.
func (s *Service) newSteps(ups []app.Upstream) ([]step, error) {
	var steps []step
	for _, up := range ups {
		c := &call{service: up.Service, options: up.CallOptions}
		if len(up.URLs) > 0 {
			c.count = s.callee(up.Service)
		}
		for _, raw := range up.URLs {
			w, err := s.clients.way(raw, up.Host, up.CallOptions)
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

// callee returns the counters of a service, while s.changing is held.
func (s *Service) callee(name string) *callee {
	if s.callees[name] == nil {
		s.callees[name] = new(callee)
	}
	return s.callees[name]
}

// callAll makes all calls until one fails. It waits for the calls concurrent
// with the failed one.
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
			c.count.retries.Add(1)
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
	sent, err := w.do(ctx, size, in, in.alone || c.options.NewConnection)
	c.count.sent.Add(int64(sent))
	if err != nil {
		c.count.failed.Add(1)
	}
	return err
}

// urls returns the sorted URLs of calls, to compare two configurations.
func urls(calls []app.Upstream) []string {
	var all []string
	for _, up := range calls {
		all = append(all, up.URLs...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
