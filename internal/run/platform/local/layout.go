package local

import (
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// pod is one replica of a service, a process of the control plane, or the load generator.
type pod struct {
	name     string
	service  string
	protocol string // of the application
	replica  int
	ip       netip.Addr
	host     string // header Host of requests to the application

	app      netip.AddrPort // the application, zero in the load generator's pod
	api      netip.AddrPort // the application's REST interface, zero in the load generator's pod
	sidecar  mesh.SidecarContext
	own      app.Own                   // the program of the user, zero for tare's
	socket   *net.TCPListener          // of the application, before it starts, nil for a program of the user
	stand    *standIn                  // answers before the application starts, nil without a sidecar
	admin    *admin                    // nil without an admin interface like Envoy's
	local    *mesh.Local               // definition of the sidecar, nil without one
	sources  map[string]counters       // of the sidecar, by container
	admins   map[string]string         // addresses for admin interfaces, by container
	reloads  int                       // of the configuration, by changes
	inbound  netip.AddrPort            // the sidecar's inbound listener
	outbound map[string]netip.AddrPort // the sidecar's listener for each service
	helpers  map[string]netip.AddrPort // addresses of the processes beside the program of the user, by name

	handshakes atomic.Int64 // of tare itself with the sidecar, since its start
}

// layout is the trial as all parts read it: specification, programs, pods and addresses.
type layout struct {
	spec      platform.Spec
	programs  map[string]program // of the mesh, by the names in its definition
	addresses *addresses
	pods      map[string][]*pod // by service
	load      *pod
	front     *pod     // whose proxy the load reaches first: the load generator's, or a gateway
	entry     []string // URLs that the load is sent to
}

func (l *layout) proxied() bool { return l.spec.Mesh.Local != nil }

// sidecars reports whether every pod has a proxy: the other place is one gateway before the entry.
func (l *layout) sidecars() bool { return l.proxied() && !l.spec.Mesh.AtGateway() }

// reached is the address at which callers reach a pod: its sidecar, or its application.
func (l *layout) reached(p *pod) netip.AddrPort {
	if l.sidecars() {
		return p.inbound
	}
	return p.app
}

func (l *layout) newPod(name, service string) (*pod, error) {
	ip, err := l.addresses.reserve()
	if err != nil {
		return nil, fmt.Errorf("find an address for %s: %w", name, err)
	}
	of, _ := l.spec.Topology.Service(service)
	return &pod{name: name, service: service, ip: ip, host: l.spec.OwnHost(of), local: l.spec.Mesh.Local, outbound: map[string]netip.AddrPort{}, sources: map[string]counters{}, admins: map[string]string{}}, nil
}

// urls are the URLs of a service for a pod: its own proxy, or each replica.
func (l *layout) urls(from *pod, service string) []string {
	if at, ok := from.outbound[service]; ok {
		return []string{l.pods[service][0].rootURL(at)}
	}
	return printable.Texts(l.pods[service], func(p *pod) string { return p.rootURL(p.app) })
}

// pod returns a pod by name, or nil.
func (l *layout) pod(name string) *pod {
	for _, pods := range l.pods {
		for _, p := range pods {
			if p.name == name {
				return p
			}
		}
	}
	for _, p := range []*pod{l.load, l.front} {
		if p != nil && p.name == name {
			return p
		}
	}
	return nil
}

// proxiedPods are the pods with a proxy, the load's first.
func (l *layout) proxiedPods() []*pod {
	pods := []*pod{l.front}
	if !l.sidecars() {
		return pods
	}
	for _, s := range l.spec.Topology.Services {
		pods = append(pods, l.pods[s.Name]...)
	}
	return pods
}

// carried is the protocol that sidecars see: tcp for a program that speaks TLS itself.
func (p *pod) carried() string { return p.own.Carried(p.protocol) }

// rootURL is the root of the application at an address, its own or a sidecar's.
func (p *pod) rootURL(a netip.AddrPort) string {
	if p.own.Secure() {
		return "https://" + a.String() + "/"
	}
	return rootURL(a)
}

func rootURL(a netip.AddrPort) string { return "http://" + a.String() + "/" }
