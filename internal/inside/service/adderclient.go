package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/dial"
)

// AdderClient is the client of the study. It calls all routes of the server
// concurrently, each at its own pace. It feeds the study's dashboards. For
// measurements use a load generator, which sends on a schedule.
type AdderClient struct {
	server  string
	payload []byte
	every   time.Duration
	metrics *prometheus.Registry
	times   *prometheus.HistogramVec
	failed  *prometheus.CounterVec
}

// NewAdderClient returns a client of the server URL. every is the time between
// two requests to a route.
func NewAdderClient(server string, payload int64, every time.Duration) (*AdderClient, error) {
	switch {
	case !strings.HasPrefix(server, "http://"):
		return nil, fmt.Errorf("server %.80q does not begin with http://", server)
	case every <= 0:
		return nil, fmt.Errorf("time between requests %v is not above 0", every)
	case payload < 0 || payload > maxAdderBody:
		return nil, fmt.Errorf("payload of %d bytes is not from 0 to %d", payload, maxAdderBody)
	}
	c := &AdderClient{server: strings.TrimSuffix(server, "/"), payload: filled(payload), every: every, metrics: prometheus.NewRegistry(),
		times: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "client_response_time", Help: "Seconds from sending a request to its answer read.", Buckets: adderBuckets}, []string{"route"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "client_failures_total", Help: "Requests that failed."}, []string{"route"}),
	}
	c.metrics.MustRegister(c.times, c.failed)
	return c, nil
}

// Metrics serves client_response_time for Prometheus.
func (c *AdderClient) Metrics() http.Handler { return metricsHandler(c.metrics) }

// Run calls all routes until ctx ends.
func (c *AdderClient) Run(ctx context.Context) error {
	transport := newTransports(1, dial.From(netip.Addr{})).kept
	var all errgroup.Group
	for _, r := range Routes() {
		all.Go(func() error {
			again := time.NewTicker(c.every)
			defer again.Stop()
			for {
				start := time.Now()
				if err := c.call(ctx, transport, r.Path); err != nil {
					c.failed.WithLabelValues(r.Client).Inc()
				} else {
					c.times.WithLabelValues(r.Client).Observe(time.Since(start).Seconds())
				}
				select {
				case <-ctx.Done():
					return nil
				case <-again.C:
				}
			}
		})
	}
	return all.Wait()
}

func (c *AdderClient) call(ctx context.Context, transport http.RoundTripper, path string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server+path, bytes.NewReader(c.payload))
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return err
}
