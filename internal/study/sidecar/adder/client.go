package adder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/scrape"
	"github.com/tare-mesh/tare/internal/inside/service"
)

// Client is the client of the study. It calls all routes of the server concurrently,
// each at its own pace. It feeds the study's dashboards. For measurements use a load
// generator, which sends on a schedule.
type Client struct {
	server  string
	payload []byte
	every   time.Duration
	metrics scrape.Registry
	times   *scrape.Histograms
	failed  *scrape.Counters
}

// NewClient returns a client of the server URL. every is the time between two requests
// to a route.
func NewClient(server string, payload int64, every time.Duration) (*Client, error) {
	switch {
	case !strings.HasPrefix(server, "http://"):
		return nil, fmt.Errorf("server %.80q does not begin with http://", server)
	case every <= 0:
		return nil, fmt.Errorf("time between requests %v is not above 0", every)
	case payload < 0 || payload > maxBody:
		return nil, fmt.Errorf("payload of %d bytes is not from 0 to %d", payload, maxBody)
	}
	c := &Client{server: strings.TrimSuffix(server, "/"), payload: bytes.Repeat([]byte("x"), int(payload)), every: every}
	c.times = c.metrics.Histograms("client_response_time", "Seconds from sending a request to its answer read.", buckets, "route")
	c.failed = c.metrics.Counters("client_failures_total", "Requests that failed.", "route")
	return c, nil
}

// Metrics serves client_response_time for Prometheus.
func (c *Client) Metrics() http.Handler { return service.MetricsOnly(&c.metrics) }

// Run calls all routes until ctx ends.
func (c *Client) Run(ctx context.Context) error {
	over := &http.Transport{MaxIdleConnsPerHost: len(routes), DisableCompression: true}
	var all errgroup.Group
	for _, r := range routes {
		all.Go(func() error {
			again := time.NewTicker(c.every)
			defer again.Stop()
			for {
				start := time.Now()
				if err := c.call(ctx, over, r.path); err != nil {
					c.failed.Add(r.client)
				} else {
					c.times.With(r.client).Observe(time.Since(start).Seconds())
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

func (c *Client) call(ctx context.Context, over http.RoundTripper, path string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server+path, bytes.NewReader(c.payload))
	if err != nil {
		return err
	}
	resp, err := over.RoundTrip(r)
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
