package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// chooseNetwork is the first of the networks whose ranges no route of this machine touches.
func chooseNetwork() (Network, error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return Network{}, fmt.Errorf("list routes: %w", err)
	}
	var taken []netip.Prefix
	for _, r := range routes {
		if p, ok := prefix(r.Dst); ok && p.Bits() > 0 {
			taken = append(taken, p)
		}
	}
	for index := range networks {
		if n := network(index); n.free(taken) {
			return n, nil
		}
	}
	return Network{}, errors.New("every address range for clusters is in use on this machine")
}

func (n Network) free(taken []netip.Prefix) bool {
	for _, t := range taken {
		if t.Overlaps(n.Link) || t.Overlaps(n.Pods) || t.Overlaps(n.Services) {
			return false
		}
	}
	return true
}

func prefix(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	address, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), ones), ok
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}

// link is the pair of interfaces between this machine and the node.
type link struct{ Layout }

// connect links this machine to the network namespace of a process and routes pods and services there.
func (l link) connect(pid int) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = l.Interface()
	veth := &netlink.Veth{LinkAttrs: attributes, PeerName: l.peer(), PeerNamespace: netlink.NsPid(pid)}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("create interface %s: %w", l.Interface(), err)
	}
	link, err := address(l.Interface(), l.Network.Host, l.Network.Link.Bits())
	if err != nil {
		return err
	}
	for _, to := range []netip.Prefix{l.Network.Pods, l.Network.Services} {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(to), Gw: l.Network.Node.AsSlice()}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("route %s to the cluster: %w", to, err)
		}
	}
	return nil
}

// address gives an interface an address and brings it up.
func address(name string, ip netip.Addr, bits int) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", name, err)
	}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(ip, bits))}); err != nil {
		return nil, fmt.Errorf("address interface %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("bring up interface %s: %w", name, err)
	}
	return link, nil
}

// disconnect removes the interface, and with it its routes. It is no error if there is none.
func (l link) disconnect() error {
	link, err := netlink.LinkByName(l.Interface())
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find interface %s: %w", l.Interface(), err)
	}
	// The kernel may be removing it at this moment, together with the namespace of its peer.
	if err := netlink.LinkDel(link); err != nil {
		if _, again := netlink.LinkByName(l.Interface()); errors.As(again, &none) {
			return nil
		}
		return fmt.Errorf("remove interface %s: %w", l.Interface(), err)
	}
	return nil
}

// connectInside is the other end's part, called in the cluster's network namespace.
func (l initProcess) connectInside() error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback interface: %w", err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("bring up the loopback interface: %w", err)
	}
	link, err := address(l.peer(), l.Network.Node, l.Network.Link.Bits())
	if err != nil {
		return err
	}
	// A packet to a service needs a route before kube-proxy's rules can rewrite where it goes.
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(l.Network.Services), Src: l.Network.Node.AsSlice(), Scope: netlink.SCOPE_LINK}
	if err := netlink.RouteAdd(route); err != nil {
		return fmt.Errorf("route services: %w", err)
	}
	return nil
}
