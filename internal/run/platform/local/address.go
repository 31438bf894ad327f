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
	"sync"
	"syscall"

	"github.com/tare-mesh/tare/internal/base/hint"
)

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
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", ip, err)
	}
	return l, nil
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
