package proxy

import (
	"maps"
	"net"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/tare-mesh/tare/internal/base/httpserver"
)

// counters have Envoy's names. They are created before the proxy runs, and only
// their values change after that.
type counters struct{ all map[string]*atomic.Int64 }

// tlsCounters are the counters of one end of TLS connections.
type tlsCounters struct{ handshakes, failed, wrongName *atomic.Int64 }

// tls creates Envoy's TLS counters under a prefix (Envoy documentation, "TLS
// statistics"). Other failure counters remain 0.
func (c *counters) tls(prefix string) *tlsCounters {
	for _, other := range []string{"fail_verify_no_cert", "fail_verify_error", "fail_verify_cert_hash"} {
		c.counter(prefix + other)
	}
	return &tlsCounters{
		handshakes: c.counter(prefix + "handshake"),
		failed:     c.counter(prefix + "connection_error"),
		wrongName:  c.counter(prefix + "fail_verify_san"),
	}
}

func (c *counters) counter(name string) *atomic.Int64 {
	if c.all[name] == nil {
		c.all[name] = new(atomic.Int64)
	}
	return c.all[name]
}

// adminHandler serves the part of Envoy's admin interface that tare uses.
func (p *Proxy) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("LIVE\n")) })
	mux.HandleFunc("GET /listeners", func(w http.ResponseWriter, _ *http.Request) { httpserver.Answer(w, http.StatusOK, p.listeners()) })
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { httpserver.Answer(w, http.StatusOK, p.counters.stats()) })
	return mux
}

type socketAddress struct {
	Address string `json:"address"`
	Port    int    `json:"port_value"`
}

type listenerStatus struct {
	Name  string `json:"name"`
	Local struct {
		Socket socketAddress `json:"socket_address"`
	} `json:"local_address"`
}

func (p *Proxy) listeners() any {
	all := []listenerStatus{}
	for _, w := range p.ways {
		s := listenerStatus{Name: w.name}
		if a, ok := w.listener.Addr().(*net.TCPAddr); ok {
			s.Local.Socket = socketAddress{a.IP.String(), a.Port}
		}
		all = append(all, s)
	}
	return map[string]any{"listener_statuses": all}
}

type stat struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

func (c *counters) stats() any {
	all := []stat{}
	for _, name := range slices.Sorted(maps.Keys(c.all)) {
		all = append(all, stat{name, c.all[name].Load()})
	}
	return map[string]any{"stats": all}
}
