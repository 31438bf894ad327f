// Package simulated plays proxies to a control plane: clients of xDS that subscribe, receive and acknowledge as sidecars do, and
// forget. They show what proxies cost a control plane, and when a change reaches them, without a proxy.
package simulated

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/rpc"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Options are the control plane and the nodes of simulated proxies.
type Options struct {
	Count   int
	Control string // host:port of its delta ADS, without TLS
	// ID and Metadata are of each node, the metadata as JSON. {number} is from 1, and {ip} an address of the range 198.19.0.0/16.
	ID, Metadata string
	// Mute is a mistake for a test: the proxy with this number never acknowledges. 0: none.
	Mute int
}

// Report counts the messages to the simulated proxies.
type Report struct {
	Proxies   int    `json:"proxies"`
	Synced    int    `json:"synced"`          // proxies with a whole first configuration
	SyncedMS  []int  `json:"syncedMs"`        // from their start until then, ms, unsorted
	Broken    int64  `json:"broken"`          // streams that ended
	LastError string `json:"error,omitempty"` // of the last one
	Messages  int64  `json:"messages"`        // received
	Bytes     int64  `json:"bytes"`           // of these
	Clusters  int    `json:"clusters"`        // with endpoints by EDS, that the first proxy has
	BeganNS   int64  `json:"beganNs"`         // start, Unix time, ns
}

// Arrival is when each proxy received a change.
type Arrival struct {
	Number int     `json:"number"` // of the change
	AtUS   []int64 `json:"atUs"`   // by proxy: after [Report.BeganNS], µs, 0 for never
}

// Proxies are the simulated proxies. They answer GET /proxies with a [Report], and GET /arrivals with each [Arrival] since the last.
type Proxies struct {
	*httpserver.TokenServer
	Options
	began time.Time

	mu       sync.Mutex
	report   Report
	synced   []time.Duration // by proxy, 0 for not
	arrivals map[int]*Arrival
}

// New returns proxies that connect when [Proxies.Serve] is called.
func New(token string, o Options) (*Proxies, error) {
	server, err := httpserver.NewTokenServer(token)
	if err != nil {
		return nil, err
	}
	if o.Count < 1 || o.Count > mesh.MaxBackgroundProxies {
		return nil, fmt.Errorf("%d is not between 1 and %d simulated proxies", o.Count, mesh.MaxBackgroundProxies)
	}
	p := &Proxies{TokenServer: server, Options: o, synced: make([]time.Duration, o.Count), arrivals: map[int]*Arrival{}}
	if _, err := p.node(1); err != nil {
		return nil, err
	}
	p.HandleFunc("GET /proxies", p.getReport)
	p.HandleFunc("GET /arrivals", p.getArrivals)
	return p, nil
}

// Serve connects all proxies at once, and serves on l until ctx ends.
func (p *Proxies) Serve(ctx context.Context, l net.Listener) error {
	p.began = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for number := 1; number <= p.Count; number++ {
		running.Go(routine.Guarded(func() { p.run(ctx, number) }))
	}
	err := p.TokenServer.Serve(ctx, l)
	cancel()
	running.Wait()
	return err
}

func (p *Proxies) getReport(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	r := p.report
	for _, d := range p.synced {
		if d > 0 {
			r.SyncedMS = append(r.SyncedMS, int(d.Milliseconds()))
		}
	}
	p.mu.Unlock()
	r.Proxies, r.Synced, r.BeganNS = p.Count, len(r.SyncedMS), p.began.UnixNano()
	httpserver.Answer(w, http.StatusOK, r)
}

// getArrivals empties the list.
func (p *Proxies) getArrivals(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	all := slices.AppendSeq([]*Arrival{}, maps.Values(p.arrivals)) // [] in JSON without any
	p.arrivals = map[int]*Arrival{}
	p.mu.Unlock()
	httpserver.Answer(w, http.StatusOK, all)
}

// Delays between connections of a proxy, as Envoy has them for its control plane.
const (
	minDelay = 500 * time.Millisecond
	maxDelay = 30 * time.Second
)

// run connects a proxy again and again.
func (p *Proxies) run(ctx context.Context, number int) {
	for delay := minDelay; ctx.Err() == nil; delay = min(2*delay, maxDelay) {
		began := time.Now()
		err := p.stream(ctx, number)
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		p.report.Broken++
		p.report.LastError = err.Error()
		p.mu.Unlock()
		if time.Since(began) > maxDelay {
			delay = minDelay
		}
		if wait.For(ctx, rand.N(delay)) != nil {
			return
		}
	}
}

// stream is one connection of a proxy, until it breaks.
func (p *Proxies) stream(ctx context.Context, number int) error {
	node, err := p.node(number)
	if err != nil {
		return err
	}
	over := &http.Transport{Protocols: &http.Protocols{}}
	over.Protocols.SetUnencryptedHTTP2(true)
	defer over.CloseIdleConnections()
	s := rpc.Open(ctx, over, "http", p.Control, method, http.Header{}, maxMessage)
	defer s.Close()
	c := &client{proxies: p, number: number, stream: s, known: map[string]map[string]bool{mesh.EndpointType: {}, mesh.RouteType: {}}, begun: map[string]bool{}}
	if err := c.begin(request{node: node, kind: mesh.ClusterType}); err != nil {
		return err
	}
	for {
		m, err := s.Receive()
		if err != nil {
			return err
		}
		if err := c.take(m, time.Since(p.began)); err != nil {
			return err
		}
	}
}

// maxMessage is the maximum size of a message, in bytes: clusters of 10,000 services.
const maxMessage = 128 << 20

func (p *Proxies) node(number int) ([]byte, error) {
	ip := netip.AddrFrom4([4]byte{198, 19, byte(number >> 8), byte(number)})
	fill := strings.NewReplacer("{number}", strconv.Itoa(number), "{ip}", ip.String())
	return encodeNode(fill.Replace(p.ID), "simulated", fill.Replace(p.Metadata))
}

// received counts a message, and keeps which changes it has.
func (p *Proxies) received(number, bytes int, changes []int, at time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report.Messages++
	p.report.Bytes += int64(bytes)
	for _, n := range changes {
		a := p.arrivals[n]
		if a == nil {
			a = &Arrival{Number: n, AtUS: make([]int64, p.Count)}
			p.arrivals[n] = a
		}
		if a.AtUS[number-1] == 0 {
			a.AtUS[number-1] = max(1, at.Microseconds())
		}
	}
}

type client struct {
	proxies *Proxies
	number  int
	stream  *rpc.ClientStream
	known   map[string]map[string]bool // subscribed names, by type
	begun   map[string]bool            // types with a subscription
}

var errType = errors.New("a message of an unknown type")

// take handles a message: it acknowledges first, then subscribes to what the message names. Like Envoy, a proxy begins with clusters,
// then endpoints, listeners and routes.
func (c *client) take(m []byte, at time.Duration) error {
	r, err := decode(m)
	if err != nil {
		return err
	}
	var changes []int
	var named []string
	for _, resource := range r.resources {
		switch r.kind {
		case mesh.ClusterType:
			named = append(named, endpointsOf(resource))
		case mesh.ListenerType:
			named = append(named, routesOf(resource)...)
		case mesh.EndpointType:
			changes = append(changes, changesOf(resource)...)
		}
	}
	c.proxies.received(c.number, len(m), changes, at)
	if c.number != c.proxies.Mute {
		if err := c.stream.Send(request{kind: r.kind, nonce: r.nonce}.encode()); err != nil {
			return err
		}
	}
	switch r.kind {
	case mesh.ClusterType:
		if err := c.follow(mesh.EndpointType, named, r.removed); err != nil || c.begun[mesh.EndpointType] {
			return err
		}
		return c.begin(request{kind: mesh.ListenerType})
	case mesh.EndpointType:
		return c.begin(request{kind: mesh.ListenerType})
	case mesh.ListenerType:
		if err := c.follow(mesh.RouteType, named, nil); err != nil || c.begun[mesh.RouteType] {
			return err
		}
	case mesh.RouteType:
	default:
		return fmt.Errorf("%w: %.80q", errType, r.kind)
	}
	c.proxies.sync(c.number, at, len(c.known[mesh.EndpointType]))
	return nil
}

// begin subscribes to a type, once.
func (c *client) begin(r request) error {
	if c.begun[r.kind] {
		return nil
	}
	c.begun[r.kind] = true
	return c.stream.Send(r.encode())
}

// follow subscribes to new names of a type, and ends the subscription of removed ones.
func (c *client) follow(kind string, names, removed []string) error {
	r := request{kind: kind}
	known := c.known[kind]
	for _, name := range names {
		if name != "" && !known[name] {
			known[name] = true
			r.subscribe = append(r.subscribe, name)
		}
	}
	for _, name := range removed {
		if known[name] {
			delete(known, name)
			r.unsubscribe = append(r.unsubscribe, name)
		}
	}
	if r.subscribe == nil && r.unsubscribe == nil {
		return nil
	}
	c.begun[kind] = true
	return c.stream.Send(r.encode())
}

// sync keeps that a proxy has a whole configuration.
func (p *Proxies) sync(number int, at time.Duration, clusters int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.synced[number-1] == 0 {
		p.synced[number-1] = max(1, at)
	}
	if number == 1 {
		p.report.Clusters = clusters
	}
}
