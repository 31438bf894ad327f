package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/dial"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/rpc"
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
var canonicalTrace = lists.Map(traceHeaders, http.CanonicalHeaderKey)

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
	return hint.Prefix(err, "call %s", c.service)
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

const (
	// maxReason bounds the part of a failed response in an error, bytes.
	maxReason = 200
	// maxRedirects is the redirect limit of one call, the same as in net/http.
	maxRedirects = 10
)

// transports send requests of one HTTP version.
type transports struct{ kept, single *http.Transport }

// newTransports returns transports that keep all open connections: closing some
// would add handshakes to the measurement.
func newTransports(version int, from dial.Func) transports {
	var protocols http.Protocols
	protocols.SetHTTP1(version == 1)
	protocols.SetUnencryptedHTTP2(version == 2)
	return transports{
		kept: &http.Transport{
			DialContext:         from,
			MaxIdleConns:        0, // no limit
			MaxIdleConnsPerHost: 1 << 16,
			DisableCompression:  true,
			Protocols:           &protocols,
		},
		single: &http.Transport{DialContext: from, DisableKeepAlives: true, DisableCompression: true, Protocols: &protocols},
	}
}

// httpWay calls one URL. Each call copies a prepared request.
type httpWay struct {
	template *http.Request
	header   bool // the template has headers, which must not be shared
	follow   bool
	transports
}

func newHTTPWay(raw, host string, o app.CallOptions, t transports) (*httpWay, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	if o.Path != "" {
		// Set as is: resolving it would parse "//" as a host.
		u.Path, u.RawQuery, _ = strings.Cut(o.Path, "?")
	}
	w := &httpWay{follow: o.FollowRedirects, header: len(o.Headers) > 0, transports: t}
	w.template = &http.Request{Method: http.MethodGet, URL: u, Host: cmp.Or(host, u.Host), Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	for name, value := range o.Headers {
		w.template.Header.Set(name, value)
	}
	return w, nil
}

func (w *httpWay) do(ctx context.Context, size int64, in incoming, alone bool) (sent int, err error) {
	client := w.kept
	if alone {
		client = w.single
	}
	r := w.template.WithContext(ctx)
	if pairs := in.pairs(); len(pairs) > 0 || w.header || size > 0 {
		r.Header = r.Header.Clone()
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Set(pairs[i], pairs[i+1])
		}
	}
	if size > 0 {
		r.Method = http.MethodPost
		r.Header["Content-Type"] = contentType
		r.Body, r.ContentLength = io.NopCloser(&filler{size}), size
	}
	for range maxRedirects {
		sent++
		to, err := w.send(client, r)
		if err != nil || to == nil {
			return sent, err
		}
		next := w.template.WithContext(ctx)
		if next.URL, next.Header = to, r.Header; to.Host != w.template.URL.Host {
			next.Host = to.Host
		}
		r = next
	}
	return sent, fmt.Errorf("sent elsewhere %d times", maxRedirects)
}

// send sends one request and reads the whole response, so that the connection is
// reused. It returns the target of a redirect to follow.
func (w *httpWay) send(client http.RoundTripper, r *http.Request) (*url.URL, error) {
	resp, err := client.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		return nil, nil
	}
	reason, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	_, _ = io.Copy(io.Discard, resp.Body)
	if location := resp.Header.Get("Location"); w.follow && location != "" && resp.StatusCode/100 == 3 {
		to, err := r.URL.Parse(location)
		if err != nil {
			return nil, fmt.Errorf("redirect: %w", err)
		}
		return to, nil
	}
	return nil, errors.New(strings.TrimSpace(resp.Status + ": " + strings.TrimSpace(string(reason))))
}

// filler is a body of equal bytes.
type filler struct{ left int64 }

func (f *filler) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, fill[:min(f.left, chunk)])
	f.left -= int64(n)
	return n, nil
}

// clients make the calls of a service. Their connections survive configuration
// changes.
type clients struct{ http1, http2 transports }

func newClients(from dial.Func) *clients {
	return &clients{http1: newTransports(1, from), http2: newTransports(2, from)}
}

func (c *clients) way(raw, host string, o app.CallOptions) (way, error) {
	switch o.Protocol {
	case app.GRPC:
		return newGRPCWay(raw, host, o, c.http2)
	case app.HTTP2:
		return newHTTPWay(raw, host, o, c.http2)
	}
	return newHTTPWay(raw, host, o, c.http1)
}

// closeIdle closes idle connections to URLs that may be unused.
func (c *clients) closeIdle() {
	c.http1.kept.CloseIdleConnections()
	c.http2.kept.CloseIdleConnections()
}

// grpcWay calls one address. Concurrent calls share a connection.
type grpcWay struct {
	address string
	headers http.Header
	transports
}

func newGRPCWay(raw, host string, o app.CallOptions, t transports) (*grpcWay, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	w := &grpcWay{address: u.Host, headers: http.Header{}, transports: t}
	for name, value := range o.Headers {
		w.headers.Set(name, value)
	}
	if host != "" {
		w.headers.Set("Host", host)
	}
	return w, nil
}

func (w *grpcWay) do(ctx context.Context, size int64, in incoming, alone bool) (sent int, err error) {
	over := w.kept
	if alone {
		over = w.single
	}
	header := w.headers.Clone()
	pairs := in.pairs()
	for i := 0; i < len(pairs); i += 2 {
		header.Set(pairs[i], pairs[i+1])
	}
	answer, err := rpc.Call(ctx, over, w.address, app.GRPCMethod, header, payload(size), maxMessage)
	if err == nil {
		_, err = rpc.Fields(answer)
	}
	return 1, err
}
