package cluster

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// Pauses between two calls of a failing credential plugin.
const (
	firstPluginPause   = time.Second // doubled after each failure
	longestPluginPause = 30 * time.Second
)

// credentials returns the failure of a credential plugin again for a time. client-go calls the plugin for each request, and
// each call writes to standard error, or opens a browser.
type credentials struct {
	next http.RoundTripper
	now  func() time.Time

	mu     sync.Mutex
	failed error // the last failure, nil after a success
	until  time.Time
	pause  time.Duration
}

// RoundTrip implements [http.RoundTripper].
func (c *credentials) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	failed := c.failed
	if failed != nil && c.now().After(c.until) {
		failed = nil
	}
	c.mu.Unlock()
	if failed != nil {
		return nil, failed
	}
	response, err := c.next.RoundTrip(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case isPlugin(err):
		c.pause = min(max(firstPluginPause, 2*c.pause), longestPluginPause)
		c.failed, c.until = err, c.now().Add(c.pause)
	case err == nil:
		c.failed, c.pause = nil, 0
	}
	return response, err
}

// WrappedRoundTripper implements k8s.io/apimachinery's RoundTripperWrapper, by which client-go closes idle connections.
func (c *credentials) WrappedRoundTripper() http.RoundTripper { return c.next }

// isPlugin recognises the failure of a credential plugin, which client-go reports without a type.
func isPlugin(err error) bool {
	return err != nil && strings.Contains(err.Error(), "getting credentials: ")
}
