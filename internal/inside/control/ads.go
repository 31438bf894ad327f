package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/rpc"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// streams are the streams of delta ADS (envoy/service/discovery/v3/ads.proto). They have the background services: a cluster with
// endpoints by EDS each. [Plane.mu] guards them.
type streams map[*adsStream]bool

type adsStream struct {
	changed chan struct{} // at least one message is due

	mu     sync.Mutex
	due    []rpc.Message
	pushed map[int]bool // services whose endpoints are due
}

// maxRequest is the maximum size of a request, in bytes: names of endpoints of all services.
const maxRequest = 1 << 20

// ServeADS serves proxies on l, until ctx ends.
func (p *Plane) ServeADS(ctx context.Context, l net.Listener) error {
	s := rpc.NewServer(maxRequest)
	s.Stream("envoy.service.discovery.v3.AggregatedDiscoveryService", "DeltaAggregatedResources", p.stream)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return httpserver.Serve(ctx, l, &http.Server{Handler: s, Protocols: &protocols, BaseContext: func(net.Listener) context.Context { return ctx }})
}

// stream serves a proxy until it ends the stream.
func (p *Plane) stream(s *rpc.Stream) error {
	a := &adsStream{changed: make(chan struct{}, 1), pushed: map[int]bool{}}
	p.mu.Lock()
	p.streams[a] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.streams, a)
		p.mu.Unlock()
	}()
	sent := make(chan error, 1)
	ctx, cancel := context.WithCancel(s.Context())
	go routine.Guarded(func() { sent <- p.send(ctx, a, s) })()
	err := p.answer(a, s)
	cancel()
	return errors.Join(err, <-sent)
}

// answer answers the first request of each type, which subscribes to all, and those with names of endpoints. The others acknowledge.
func (p *Plane) answer(a *adsStream, s *rpc.Stream) error {
	begun := map[string]bool{}
	for {
		m, err := s.Receive()
		switch {
		case errors.Is(err, io.EOF) || s.Context().Err() != nil:
			return nil
		case err != nil:
			return err
		}
		fields, err := rpc.Fields(m)
		if err != nil {
			return err
		}
		var kind string
		var services []int
		for _, f := range fields {
			switch f.Number {
			case 2:
				kind = string(f.Bytes)
			case 3:
				if i, ok := numberOf(string(f.Bytes)); ok {
					services = append(services, i)
				}
			}
		}
		switch {
		case kind == mesh.EndpointType && services != nil:
			a.push(services...)
		case kind != mesh.EndpointType && !begun[kind]:
			a.add(response(kind, p.clusters(kind)))
		}
		begun[kind] = true
	}
}

// clusters are the clusters of all services. There are no resources of other types.
func (p *Plane) clusters(kind string) (all [][]byte) {
	if kind != mesh.ClusterType {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.background.changes {
		ads := rpc.AppendInt(rpc.Append(nil, 3, nil), 6, 2)                                // ConfigSource: ads, resource_api_version V3
		cluster := rpc.AppendInt(rpc.Append(nil, 1, []byte(mesh.BackgroundName(i))), 2, 3) // type EDS
		cluster = rpc.Append(cluster, 3, rpc.Append(nil, 1, ads))
		all = append(all, resource(mesh.BackgroundName(i), "1", mesh.ClusterType, cluster))
	}
	return all
}

// send sends the due messages to a proxy, until ctx ends.
func (p *Plane) send(ctx context.Context, a *adsStream, s *rpc.Stream) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.changed:
		}
		due, pushed := a.take()
		if len(pushed) > 0 {
			due = append(due, response(mesh.EndpointType, p.endpoints(pushed)))
		}
		for _, m := range due {
			if err := s.Send(m); err != nil {
				return err
			}
		}
	}
}

func (p *Plane) endpoints(services map[int]bool) (all [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range services {
		if i >= len(p.background.changes) {
			continue
		}
		change := p.background.changes[i]
		socket := rpc.AppendInt(rpc.Append(nil, 2, []byte(backgroundAddress(change))), 3, backgroundPort)
		endpoint := rpc.Append(nil, 1, rpc.Append(nil, 1, rpc.Append(nil, 1, socket))) // LbEndpoint: Endpoint: Address: SocketAddress
		assignment := rpc.Append(rpc.Append(nil, 1, []byte(mesh.BackgroundName(i))), 2, rpc.Append(nil, 2, endpoint))
		all = append(all, resource(mesh.BackgroundName(i), strconv.Itoa(change), mesh.EndpointType, assignment))
	}
	return all
}

// push pushes the endpoints of a service to all proxies. p.mu is held.
func (p *Plane) push(service int) {
	for a := range p.streams {
		a.push(service)
	}
}

func (a *adsStream) push(services ...int) {
	a.mu.Lock()
	for _, i := range services {
		a.pushed[i] = true
	}
	a.mu.Unlock()
	a.wake()
}

func (a *adsStream) add(m rpc.Message) {
	a.mu.Lock()
	a.due = append(a.due, m)
	a.mu.Unlock()
	a.wake()
}

func (a *adsStream) wake() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func (a *adsStream) take() (due []rpc.Message, pushed map[int]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	due, pushed = a.due, a.pushed
	a.due, a.pushed = nil, map[int]bool{}
	return due, pushed
}

// numberOf returns the index of a background service by its name.
func numberOf(name string) (i int, ok bool) {
	var n int
	if _, err := fmt.Sscanf(name, "background-%d", &n); err != nil || n < 1 || n > mesh.MaxBackgroundServices {
		return 0, false
	}
	return n - 1, true
}

// response is a DeltaDiscoveryResponse.
func response(kind string, resources [][]byte) rpc.Message {
	m := rpc.Append(rpc.Append(nil, 4, []byte(kind)), 5, []byte("n"))
	for _, r := range resources {
		m = rpc.Append(m, 2, r)
	}
	return rpc.Message{m}
}

// resource is a Resource, with its message as an Any.
func resource(name, version, kind string, m []byte) []byte {
	r := rpc.Append(rpc.Append(nil, 3, []byte(name)), 1, []byte(version))
	return rpc.Append(r, 2, rpc.Append(rpc.Append(nil, 1, []byte(kind)), 2, m))
}
