package local

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
)

var localhost = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// addresses hands out one address in 127.0.0.0/8 a pod. Linux answers on all of
// them; where a system has only 127.0.0.1, all pods share it and differ by port.
type addresses struct {
	mu      sync.Mutex
	net     byte // second byte
	next    int
	numbers int
	chosen  map[netip.AddrPort]bool
}

// fresh says whether an address is offered for the first time, and remembers it.
func (a *addresses) fresh(at netip.AddrPort) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.chosen[at] {
		return false
	}
	a.chosen[at] = true
	return true
}

// newAddresses takes a second byte by tare's own number, so that two runs at one
// time are easy to tell apart. They may be the same: ports never are.
func newAddresses() *addresses {
	return &addresses{net: byte(1 + os.Getpid()%250), chosen: map[netip.AddrPort]bool{}}
}

// number is a number no pod of this deployment has yet been given.
func (a *addresses) number() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.numbers++
	return a.numbers
}

// lastHosts: 1 to 254 in the last byte, 0 to 255 in the third.
const lastHosts = 254

func (a *addresses) take() (netip.Addr, error) {
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

func bindable(ip netip.Addr) bool {
	l, err := listen(ip)
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// listen binds a port of the kernel's choice.
func listen(ip netip.Addr) (*net.TCPListener, error) {
	l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", ip, err)
	}
	return l, nil
}

// all holds the address of every pod, and that of no process but theirs.
func (a *addresses) all() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, a.net, 0, 0}), 16)
}

// distinct says whether pods have addresses of their own.
func (a *addresses) distinct() bool { return bindable(netip.AddrFrom4([4]byte{127, a.net, 0, 1})) }

// choose finds a port that is free for TCP and UDP, for a program that cannot be
// left to take one from the kernel and to tell which. Nothing holds it until the
// program binds it: the address is the pod's own, where nobody else looks for one.
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
	return 0, fmt.Errorf("find a free port on %s: %w", ip, cmp.Or(last, errors.New("the same ones are offered again and again")))
}
