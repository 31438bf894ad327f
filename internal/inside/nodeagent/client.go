package nodeagent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/base/httpserver"
)

const (
	// callTimeout bounds one request and its response.
	callTimeout = 10 * time.Second
	// maxAnswer bounds a response, bytes: [maxPage] instants of [maxContainers].
	maxAnswer = 128 << 20
)

// Client calls one agent over a connection that it keeps. A failed request is repeated once, over a
// new connection.
type Client struct {
	http  *http.Transport
	token string
}

// NewClient returns a client that connects with dial.
func NewClient(dial func(ctx context.Context, network, address string) (net.Conn, error), token string) *Client {
	return &Client{http: &http.Transport{DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: 1}, token: token}
}

// Close closes the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Compare measures how far the agent's clock is ahead of this process's, and the maximum error of
// that.
func (c *Client) Compare(ctx context.Context) (ahead, unsure time.Duration, err error) {
	// Opening the connection is in no round trip.
	var stamps clock.Stamps
	if err := c.call(ctx, http.MethodGet, "/clock", nil, &stamps); err != nil {
		return 0, 0, err
	}
	ahead, unsure, err = clock.Measure(time.Now, func() (stamps clock.Stamps, err error) {
		return stamps, c.call(ctx, http.MethodGet, "/clock", nil, &stamps)
	})
	return ahead, unsure, err
}

// Read reads containers once.
func (c *Client) Read(ctx context.Context, q Query) (r Reading, err error) {
	return r, c.call(ctx, http.MethodPost, "/read", q, &r)
}

// Follow starts a plan.
func (c *Client) Follow(ctx context.Context, p Plan) error {
	var started Progress
	return c.call(ctx, http.MethodPost, "/follow", p, &started)
}

// Followed returns what a plan has read from an index on.
func (c *Client) Followed(ctx context.Context, id string, from int) (p Progress, err error) {
	q := url.Values{"id": {id}, "from": {strconv.Itoa(from)}}
	return p, c.call(ctx, http.MethodGet, "/followed?"+q.Encode(), nil, &p)
}

// call sends a request, and again if the connection is broken. All requests can be repeated.
func (c *Client) call(ctx context.Context, method, target string, body, into any) error {
	err := c.once(ctx, method, target, body, into)
	var refused *httpserver.Refused
	if err == nil || errors.As(err, &refused) || ctx.Err() != nil {
		return err
	}
	c.http.CloseIdleConnections()
	return c.once(ctx, method, target, body, into)
}

func (c *Client) once(ctx context.Context, method, target string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return httpserver.Call(ctx, c.http, c.token, method, "http://node-agent"+target, body, maxAnswer, into)
}
