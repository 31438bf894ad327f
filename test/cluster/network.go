package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"

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
	return !slices.ContainsFunc(taken, func(t netip.Prefix) bool { return t.Overlaps(n.Link) || t.Overlaps(n.Pods) || t.Overlaps(n.Services) })
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

// link is the pair of interfaces between this machine and the node, or a bridge between this machine and several.
type link struct{ Layout }

// create makes the bridge for several nodes.
func (l link) create() error {
	if !l.several() {
		return nil
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = l.Interface()
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil {
		return fmt.Errorf("create bridge %s: %w", l.Interface(), err)
	}
	_, err := address(l.Interface(), l.Network.Host, l.Network.Link.Bits())
	return err
}

// checkForwarding refuses several nodes where the kernel gives the bridge's frames to iptables and that drops them, as
// Docker's policy does. The firewall is the machine's own, so that its owner changes it.
func (l link) checkForwarding(ctx context.Context) error {
	if on, err := os.ReadFile(bridgeRules); !l.several() || err != nil || strings.TrimSpace(string(on)) != "1" {
		return nil
	}
	rules, err := output(exec.CommandContext(ctx, "iptables", "-S", "FORWARD"))
	if err != nil {
		return err
	}
	if accepted := fmt.Sprintf("-i %[1]s -o %[1]s -j ACCEPT", l.Interface()); dropped(rules, accepted) {
		return fmt.Errorf("%w of several nodes: chain FORWARD of iptables drops frames between them; accept those: iptables -I FORWARD %s", ErrUnsupported, accepted)
	}
	return nil
}

// dropped reports whether the rules, as `iptables -S FORWARD` prints them, drop frames unless a rule accepts
// them first. Rules with other conditions, and other chains, are not followed.
func dropped(rules, accepted string) bool {
	policy := false
	for line := range strings.Lines(rules) {
		switch line = strings.TrimSpace(line); {
		case line == "-P FORWARD DROP":
			policy = true
		case line == "-A FORWARD "+accepted, line == "-A FORWARD -j ACCEPT":
			return false
		case line == "-A FORWARD -j DROP", strings.HasPrefix(line, "-A FORWARD -j REJECT"):
			return true
		}
	}
	return policy
}

// connect links this machine to the network namespace of a node's first process and routes the node's pods there, and
// services to the first node.
func (l link) connect(n node, pid int) error {
	link, err := l.attach(n, pid)
	if err != nil {
		return err
	}
	routes := []netip.Prefix{n.pods()}
	if n.first() {
		routes = append(routes, l.Network.Services)
	}
	for _, to := range routes {
		if err := routeVia(link, to, n.address()); err != nil {
			return fmt.Errorf("route %s to the cluster: %w", to, err)
		}
	}
	return nil
}

// attach makes the pair of interfaces and returns the one with this machine's address.
func (l link) attach(n node, pid int) (netlink.Link, error) {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = l.Interface()
	if l.several() {
		bridge, err := netlink.LinkByName(l.Interface())
		if err != nil {
			return nil, fmt.Errorf("find bridge %s: %w", l.Interface(), err)
		}
		attributes.Name, attributes.MasterIndex = n.port(), bridge.Attrs().Index
	}
	veth := &netlink.Veth{LinkAttrs: attributes, PeerName: l.peer(), PeerNamespace: netlink.NsPid(pid)}
	if err := netlink.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("create interface %s: %w", attributes.Name, err)
	}
	if !l.several() {
		return address(l.Interface(), l.Network.Host, l.Network.Link.Bits())
	}
	if err := netlink.LinkSetUp(veth); err != nil {
		return nil, fmt.Errorf("bring up interface %s: %w", attributes.Name, err)
	}
	return netlink.LinkByName(l.Interface())
}

func routeVia(link netlink.Link, to netip.Prefix, via netip.Addr) error {
	return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(to), Gw: via.AsSlice()})
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

// disconnect removes the interfaces, and with them their routes. It is not an error if there is none.
func (l link) disconnect() error {
	names := []string{l.Interface()}
	for number := range MaxNodes {
		names = append(names, node{l.Layout, number + 1}.port())
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, remove(name))
	}
	return errors.Join(errs...)
}

func remove(name string) error {
	link, err := netlink.LinkByName(name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	// The kernel may be removing it at this moment, together with the namespace of its peer.
	if err := netlink.LinkDel(link); err != nil {
		if _, again := netlink.LinkByName(name); errors.As(again, &none) {
			return nil
		}
		return fmt.Errorf("remove interface %s: %w", name, err)
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
	link, err := address(l.peer(), l.address(), l.Network.Link.Bits())
	if err != nil {
		return err
	}
	// A packet to a service needs a route before kube-proxy's rules can rewrite where it goes.
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(l.Network.Services), Src: l.address().AsSlice(), Scope: netlink.SCOPE_LINK}
	if err := netlink.RouteAdd(route); err != nil {
		return fmt.Errorf("route services: %w", err)
	}
	for _, other := range l.nodes() {
		if other.Number == l.Number {
			continue
		}
		if err := routeVia(link, other.pods(), other.address()); err != nil {
			return fmt.Errorf("route the pods of %s: %w", other.name(), err)
		}
	}
	return nil
}
