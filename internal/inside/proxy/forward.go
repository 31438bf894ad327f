package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tare-mesh/tare/internal/base/dial"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// clientCert is the header that contains the client's identity, as in Envoy.
const clientCert = "X-Forwarded-Client-Cert"

// listenInbound listens for requests to the application. The weight applies to
// them.
func (p *Proxy) listenInbound(c mesh.SidecarContext, id *identity) error {
	requests := p.counters.counter("http.inbound.downstream_rq_total")
	to := newForwarder([]string{address(c.Inbound.AppIP, c.Inbound.AppPort)}, transport(nil))
	w, err := p.listen("inbound", c.IP, c.Inbound.Port, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		burn(p.weight.Burn)
		p.leaked.add(p.weight.Leak)
		if d := p.weight.Delay; d > 0 && wait.For(r.Context(), d) != nil {
			return // the client is gone
		}
		setClientIdentity(r)
		to(w, r)
		p.deferWork()
	}))
	if err != nil || id == nil {
		return err
	}
	id.secure(w.server, c.Inbound.Callers, p.counters.tls("listener.inbound.ssl."))
	return nil
}

// listenOutbound listens for requests to another service, and rotates over its
// replicas.
func (p *Proxy) listenOutbound(c mesh.SidecarContext, out mesh.Outbound, id *identity) error {
	name := "outbound-" + out.Service
	requests := p.counters.counter("cluster." + name + ".upstream_rq_total")
	endpoints := lists.Map(out.Endpoints, func(e mesh.Endpoint) string { return address(e.IP, e.Port) })
	if len(endpoints) == 0 {
		return errors.New("service " + out.Service + " has no endpoint")
	}
	source, err := netip.ParseAddr(c.IP)
	if err != nil {
		return fmt.Errorf("the pod's address: %w", err)
	}
	connect := dial.From(source)
	if id != nil {
		connect = id.dial(connect, out, p.counters.tls("cluster."+name+".ssl."))
	}
	to := newForwarder(endpoints, transport(connect))
	_, err = p.listen(name, c.IP, out.Port, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		to(w, r)
	}))
	return err
}

func address(ip string, port int) string { return net.JoinHostPort(ip, strconv.Itoa(port)) }

// transport keeps all open connections: closing some would add handshakes to the
// measurement.
func transport(connect dial.Func) *http.Transport {
	return &http.Transport{
		DialContext:         connect, // nil: plain
		MaxIdleConnsPerHost: 1 << 16,
		DisableCompression:  true,
		ReadBufferSize:      16 << 10,
	}
}

type buffers struct{ sync.Pool }

const bufferSize = 32 << 10

func (b *buffers) Get() []byte {
	if p, ok := b.Pool.Get().(*[bufferSize]byte); ok {
		return p[:]
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(p []byte) { b.Pool.Put((*[bufferSize]byte)(p)) }

func newForwarder(endpoints []string, t *http.Transport) http.HandlerFunc {
	var next atomic.Uint64
	to := &httputil.ReverseProxy{
		Transport:  t,
		BufferPool: &buffers{},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme = "http" // with TLS, the dialer encrypts
			r.Out.URL.Host = endpoints[(next.Add(1)-1)%uint64(len(endpoints))]
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				return // the client is gone
			}
			http.Error(w, "reference proxy: "+err.Error(), http.StatusServiceUnavailable)
		},
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil // package net/http guesses none
		to.ServeHTTP(w, r)
	}
}

// setClientIdentity sets the client's identity, and removes one that the client sent.
func setClientIdentity(r *http.Request) {
	delete(r.Header, clientCert)
	if r.TLS != nil {
		if uri := uriOf(*r.TLS); uri != "" {
			r.Header[clientCert] = []string{"URI=" + uri}
		}
	}
}

func uriOf(s tls.ConnectionState) string {
	if len(s.PeerCertificates) == 0 || len(s.PeerCertificates[0].URIs) != 1 {
		return ""
	}
	return s.PeerCertificates[0].URIs[0].String()
}
