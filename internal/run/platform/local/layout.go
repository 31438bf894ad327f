package local

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
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
	return lists.Map(l.pods[service], func(p *pod) string { return p.rootURL(p.app) })
}

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

// waves groups sorted services. Each calls only services of earlier groups.
func waves(order []app.Service) [][]app.Service {
	var all [][]app.Service
	height := map[string]int{}
	for _, s := range order {
		h := lists.Most(callees(s), func(c string) int { return height[c] + 1 })
		height[s.Name] = h
		if h == len(all) {
			all = append(all, nil)
		}
		all[h] = append(all[h], s)
	}
	return all
}

// callers lists the callers of a service, the load generator included.
func callers(t app.Topology, name string) []string {
	var names []string
	if t.EntryName() == name {
		names = append(names, loadService)
	}
	inside := lists.Where(t.Services, func(s app.Service) bool { return slices.Contains(callees(s), name) })
	return append(names, lists.Map(inside, func(s app.Service) string { return s.Name })...)
}

// visits counts the calls of each service for one request at the entry, which is called as first.
func visits(t app.Topology, first called) (map[string]called, error) {
	order, err := calleesFirst(t)
	if err != nil {
		return nil, err
	}
	all := map[string]called{t.EntryName(): first}
	for _, s := range slices.Backward(order) {
		for callee, n := range all[s.Name].calls(t, s) {
			all[callee] = all[callee].plus(n)
		}
	}
	return all, nil
}

// calleesFirst sorts the services, each after its callees.
func calleesFirst(t app.Topology) ([]app.Service, error) {
	var order []app.Service
	state := map[string]int{} // 1: being visited, 2: done
	var visit func(name string) error
	visit = func(name string) error {
		s, ok := t.Service(name)
		switch {
		case !ok:
			return fmt.Errorf("topology %s has no service %q", t.Name, name)
		case state[name] == 1:
			return fmt.Errorf("topology %s: service %s calls itself in a cycle", t.Name, name)
		case state[name] == 2:
			return nil
		}
		state[name] = 1
		for _, callee := range callees(s) {
			if err := visit(callee); err != nil {
				return err
			}
		}
		state[name] = 2
		order = append(order, s)
		return nil
	}
	for _, s := range t.Services {
		if err := visit(s.Name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// callees lists the callees of s once, in the order of the calls.
func callees(s app.Service) []string {
	var names []string
	for _, c := range s.Calls {
		if c.Service != "" && !slices.Contains(names, c.Service) {
			names = append(names, c.Service)
		}
	}
	return names
}

// calls counts the calls of each callee by a service with these visits.
func (c called) calls(t app.Topology, s app.Service) map[string]called {
	all := map[string]called{}
	for _, call := range s.Calls {
		all[call.Service] = all[call.Service].plus(called{
			times: c.times * int64(1+t.Redirected(call)), atMost: c.atMost || call.Probability != nil && *call.Probability < 1 || failsOften(s), some: c.some || s.IsOwn(),
		})
	}
	return all
}

// failsOften reports whether a service may answer all probes without its calls.
func failsOften(s app.Service) bool {
	return s.RateLimit > 0 || s.Errors != nil && s.Errors.Ratio > 0.5
}

var localhost = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// addresses assigns one address in 127.0.0.0/8 to each pod. Linux answers on all of them. On
// systems with only 127.0.0.1 all pods share it and differ by port.
type addresses struct {
	mu      sync.Mutex
	net     byte      // second byte
	claim   io.Closer // keeps it from other deployments
	next    int
	numbers int
	chosen  map[netip.AddrPort]bool
}

const (
	// Second bytes of deployments.
	firstNet, lastNet = 1, 250
	// unusedNet is of no deployment.
	unusedNet = 255
)

// newAddresses claims a second byte that no other deployment on this machine has. With equal addresses, a network
// fault of one would affect the other. A claim ends with [addresses.free], or with the process.
func newAddresses() (*addresses, error) {
	a := &addresses{chosen: map[netip.AddrPort]bool{}}
	const all = lastNet - firstNet + 1
	for i := range all {
		a.net = byte(firstNet + (os.Getpid()+i)%all) // processes start at different ones
		// An abstract socket: its name belongs to the network namespace, as the addresses do.
		claim, err := net.Listen("unix", fmt.Sprintf("@tare/127.%d", a.net))
		if err == nil {
			a.claim = claim
			return a, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("claim addresses 127.%d.0.0/16: %w", a.net, err)
		}
	}
	return nil, hint.Wrap(fmt.Errorf("claim addresses: all %d ranges of 127.0.0.0/8 belong to other deployments", all), "wait for other runs of tare on this machine, or end them")
}

// free ends the claim. It may be called more than once.
func (a *addresses) free() { a.claim.Close() }

// number returns a unique number in the deployment.
func (a *addresses) number() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.numbers++
	return a.numbers
}

// lastHosts: 1 to 254 in the last byte, 0 to 255 in the third.
const lastHosts = 254

func (a *addresses) reserve() (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next >= 256*lastHosts {
		return netip.Addr{}, fmt.Errorf("more than %d pods", a.next)
	}
	ip := netip.AddrFrom4([4]byte{127, a.net, byte(a.next / lastHosts), byte(a.next%lastHosts + 1)})
	a.next++
	if !bindable(ip) {
		return localhost, nil
	}
	return ip, nil
}

// Ports of programs that bind every address: below the ports of outgoing connections (ephemeral
// ports, from 32768 on Linux), which would keep such a program from binding.
const (
	firstPort = 10_000
	lastPort  = 32_000
)

// everywhere chooses a port that is free on every address of this machine.
func (a *addresses) everywhere() (uint16, error) {
	const tries = 100
	for range tries {
		port := uint16(firstPort + rand.N(lastPort-firstPort))
		if a.fresh(netip.AddrPortFrom(netip.IPv4Unspecified(), port)) && unbound(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port from %d to %d: all %d tries failed", firstPort, lastPort, tries)
}

// unbound reports whether no socket has a port, by IPv4 or IPv6.
func unbound(port uint16) bool {
	four, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", port))
	if err != nil {
		return false
	}
	defer four.Close()
	six, err := net.Listen("tcp6", fmt.Sprintf("[::]:%d", port))
	if err != nil {
		return !errors.Is(err, syscall.EADDRINUSE) // a machine without IPv6
	}
	return six.Close() == nil
}

// all is the prefix of all pods' addresses, and of no others.
func (a *addresses) all() netip.Prefix { return prefixOf(a.net) }

func prefixOf(second byte) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, second, 0, 0}), 16)
}

// distinct reports whether each pod has its own address.
func (a *addresses) distinct() bool { return bindable(netip.AddrFrom4([4]byte{127, a.net, 0, 1})) }

func bindable(ip netip.Addr) bool {
	l, err := listen(ip)
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// choose finds a free port for TCP and UDP, for programs that cannot bind port 0 and
// report the result. The port is free until the program binds it. The address is the pod's own,
// where no other process binds ports.
func (a *addresses) choose(ip netip.Addr) (int, error) {
	const tries = 20
	var last error
	for range tries {
		l, err := listen(ip)
		if err != nil {
			return 0, err
		}
		address := l.Addr().(*net.TCPAddr).AddrPort()
		udp, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(address))
		l.Close()
		if err != nil {
			last = err
			continue
		}
		udp.Close()
		if a.fresh(address) {
			return int(address.Port()), nil
		}
	}
	return 0, fmt.Errorf("find a free port on %s: %w", ip, cmp.Or(last, errors.New("all were used before")))
}

// listen binds a port that the kernel chooses.
func listen(ip netip.Addr) (*net.TCPListener, error) {
	l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
	return l, hint.Prefix(err, "listen on %s", ip)
}

// fresh reports whether an address is new, and records it.
func (a *addresses) fresh(at netip.AddrPort) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.chosen[at] {
		return false
	}
	a.chosen[at] = true
	return true
}
