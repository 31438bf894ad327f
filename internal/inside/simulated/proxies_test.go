package simulated_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/inside/simulated"
	"github.com/tare-mesh/tare/test/must"
)

const (
	token    = "0123456789abcdef"
	services = 50
)

// proxies are simulated proxies that run.
type proxies struct{ url string }

func start(t *testing.T, o simulated.Options) proxies {
	served := must.Get(simulated.New(token, o))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		_ = served.Serve(ctx, l)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return proxies{"http://" + l.Addr().String()}
}

func (p proxies) get(t *testing.T, path string, into any) {
	t.Helper()
	over := &http.Transport{}
	defer over.CloseIdleConnections()
	must.OK(t, httpserver.Call(t.Context(), over, token, http.MethodGet, p.url+path, nil, 100<<20, into))
}

// synced waits until all proxies have a configuration.
func (p proxies) synced(t *testing.T) (r simulated.Report) {
	t.Helper()
	must.OK(t, wait.Within(t.Context(), time.Minute, 10*time.Millisecond, func(context.Context) error {
		p.get(t, "/proxies", &r)
		if r.Synced < r.Proxies {
			return fmt.Errorf("%+v", r)
		}
		return nil
	}))
	return r
}

// arrived waits until the change has reached n of the proxies, and returns when, 0 for never.
func (p proxies) arrived(t *testing.T, change, count, n int) []time.Duration {
	t.Helper()
	at := make([]time.Duration, count)
	must.OK(t, wait.Within(t.Context(), time.Minute, 10*time.Millisecond, func(context.Context) error {
		var all []simulated.Arrival
		p.get(t, "/arrivals", &all)
		for _, a := range all {
			for i, us := range a.AtUS {
				if a.Number == change && us > 0 {
					at[i] = time.Duration(us) * time.Microsecond
				}
			}
		}
		if reached := count - len(slices.DeleteFunc(slices.Clone(at), func(d time.Duration) bool { return d > 0 })); reached < n {
			return fmt.Errorf("change %d reached %d of %d proxies", change, reached, n)
		}
		return nil
	}))
	return at
}

// goControlPlane is a server of go-control-plane with endpoints of one service that change.
type goControlPlane struct {
	address string
	cache   cache.SnapshotCache
}

type everyNode struct{}

func (everyNode) ID(*corev3.Node) string { return "all" }

func startGoControlPlane(t *testing.T) *goControlPlane {
	g := &goControlPlane{cache: cache.NewSnapshotCache(true, everyNode{}, nil)}
	g.set(t, 0)
	s := grpc.NewServer(grpc.MaxConcurrentStreams(1000))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, server.NewServer(t.Context(), g.cache, nil))
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	g.address = l.Addr().String()
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return g
}

// set changes the first service.
func (g *goControlPlane) set(t *testing.T, change int) {
	byADS := &corev3.ConfigSource{ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
	var clusters, endpoints []types.Resource
	for i := range services {
		name, address := fmt.Sprintf("background-%d", i+1), "127.0.0.1"
		if i == 0 && change > 0 {
			address = mesh.BackgroundAddress(change)
		}
		clusters = append(clusters, &clusterv3.Cluster{Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: byADS}})
		endpoints = append(endpoints, &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
				SocketAddress: &corev3.SocketAddress{Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 1}}}}}}}}}}})
	}
	manager := must.Get(anypb.New(&hcmv3.HttpConnectionManager{RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: "http", ConfigSource: byADS}}}))(t)
	listener := &listenerv3.Listener{Name: "http", FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager}}}}}}
	snapshot := must.Get(cache.NewSnapshot(fmt.Sprint(change), map[resource.Type][]types.Resource{
		resource.ClusterType: clusters, resource.EndpointType: endpoints, resource.ListenerType: {listener}, resource.RouteType: {&routev3.RouteConfiguration{Name: "http"}},
	}))(t)
	must.OK(t, g.cache.SetSnapshot(t.Context(), "all", snapshot))
}

// Every stream has the configuration of a real server, and a change reaches each after the server's delay, not before.
func TestDelayIsRecoveredByEveryStream(t *testing.T) {
	const count = 40
	g := startGoControlPlane(t)
	p := start(t, simulated.Options{Count: count, Control: g.address, ID: "proxy-{number}"})
	if r := p.synced(t); r.Clusters != services || r.Broken != 0 || r.Messages < 4*count {
		t.Errorf("got %+v, want %d clusters, no broken stream, and clusters, endpoints, listeners and routes for each proxy", r, services)
	}
	var r simulated.Report
	p.get(t, "/proxies", &r)
	for change, delay := range []time.Duration{20 * time.Millisecond, 300 * time.Millisecond} {
		sent := time.Since(time.Unix(0, r.BeganNS))
		time.Sleep(delay) // the control plane's
		g.set(t, change+1)
		if first := slices.Min(p.arrived(t, change+1, count, count)) - sent; first < delay {
			t.Errorf("a change after %v reached a proxy after %v", delay, first)
		}
	}
}

// A proxy that never acknowledges gets no change from go-control-plane, and is found among the others.
func TestMuteProxyIsFound(t *testing.T) {
	const count, mute = 10, 4
	g := startGoControlPlane(t)
	p := start(t, simulated.Options{Count: count, Control: g.address, ID: "proxy-{number}", Mute: mute})
	p.synced(t)
	for change := 1; change <= 2; change++ {
		g.set(t, change)
		for i, at := range p.arrived(t, change, count, count-1) {
			if (at == 0) != (i+1 == mute) {
				t.Errorf("change %d reached proxy %d: %v, want all but proxy %d", change, i+1, at > 0, mute)
			}
		}
	}
}

// Mistakes are refused before a stream is opened.
func TestRefusals(t *testing.T) {
	for name, o := range map[string]simulated.Options{
		"no proxy": {Count: 0},
		"too many": {Count: mesh.MaxBackgroundProxies + 1},
		"no JSON":  {Count: 1, Metadata: "{"},
		"a number": {Count: 1, Metadata: `{"A": 1}`},
	} {
		if _, err := simulated.New(token, o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := simulated.New(token, simulated.Options{Count: 1, Metadata: `{"LABELS": {"app": "a"}, "X": true, "Y": false}`}); err != nil {
		t.Error(err)
	}
	var refused *httpserver.Refused
	p := start(t, simulated.Options{Count: 1, Control: "127.0.0.1:1"})
	err := httpserver.Call(t.Context(), &http.Transport{DisableKeepAlives: true}, token+"x", http.MethodGet, p.url+"/proxies", nil, 1000, nil)
	if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
		t.Errorf("another token: %v", err)
	}
}
