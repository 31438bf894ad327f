package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/run/platform"
)

// admin is the admin interface of a sidecar on a Unix socket, as Envoy has it: /ready, /listeners
// and /stats.
type admin struct {
	socket string // empty for a URL
	base   string // of its URLs, empty for a socket
	// statistics is a regular expression of the names that are read, empty for all.
	statistics string
}

// Timeouts of one request. A busy sidecar with thousands of clusters needs seconds for its dump.
const (
	adminTimeout = 5 * time.Second
	dumpTimeout  = 30 * time.Second
)

// adminPause is the time between two requests of a poll.
const adminPause = 5 * time.Millisecond

// maxAdmin is the maximum size of an answer, bytes. A sidecar with a hundred upstreams returns a few megabytes.
const maxAdmin = 64 << 20

func (a *admin) get(ctx context.Context, path string) ([]byte, error) {
	return a.getWithin(ctx, path, adminTimeout)
}

func (a *admin) getWithin(ctx context.Context, path string, timeout time.Duration) ([]byte, error) {
	b, err := get(ctx, a.socket, cmp.Or(strings.TrimSuffix(a.base, "/"), "http://admin")+path, timeout)
	if err != nil {
		return nil, fmt.Errorf("get %s from the sidecar: %w", path, err)
	}
	return b, nil
}

// get requests a URL, over a Unix socket unless that is empty, and returns the body of an answer 200.
func get(ctx context.Context, socket, url string, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, body, err := platform.Send(r, overSocket(socket), maxAdmin)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return body, err
}

// overSocket connects to a Unix socket instead of the address of a URL, unless it is empty.
func overSocket(socket string) *http.Transport {
	over := &http.Transport{}
	if socket != "" {
		over.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	return over
}

// ports returns the port of each listener by name, when all workers listen.
func (a *admin) ports(ctx context.Context) (map[string]int, error) {
	if _, err := a.get(ctx, "/ready"); err != nil {
		return nil, err
	}
	b, err := a.get(ctx, "/listeners?format=json")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Listeners []struct {
			Name    string `json:"name"`
			Address struct {
				Socket struct {
					Port int `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return nil, fmt.Errorf("read the sidecar's listeners: %w", err)
	}
	ports := map[string]int{}
	for _, l := range answer.Listeners {
		port := l.Address.Socket.Port
		if port < 0 || port > math.MaxUint16 {
			return nil, fmt.Errorf("read the sidecar's listeners: %.80q has port %d", l.Name, port)
		}
		ports[l.Name] = port
	}
	return ports, nil
}

const counterKind = "Counters"

// counters reads every counter by its name.
func (a *admin) counters(ctx context.Context, _ []string) (map[string]int64, error) {
	return a.stats(ctx, counterKind)
}

// gauges reads every gauge by its name.
func (a *admin) gauges(ctx context.Context) (map[string]int64, error) { return a.stats(ctx, "Gauges") }

func (a *admin) stats(ctx context.Context, kind string) (map[string]int64, error) {
	path := "/stats?format=json&type=" + kind
	if a.statistics != "" {
		path += "&filter=" + url.QueryEscape(a.statistics)
	}
	b, err := a.get(ctx, path)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Stats []struct {
			Name  string `json:"name"`
			Value uint64 `json:"value"` // some gauges are hashes of 64 bits
		} `json:"stats"`
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return nil, fmt.Errorf("read the sidecar's statistics: %w", err)
	}
	values := make(map[string]int64, len(answer.Stats))
	for _, s := range answer.Stats {
		if s.Value > math.MaxInt64 && kind == counterKind {
			return nil, fmt.Errorf("read the sidecar's statistics: counter %.80q is %d", s.Name, s.Value)
		}
		values[s.Name] = int64(s.Value)
	}
	return values, nil
}
