package local

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// wire impairs the packets between pods. Its end removes every impairment.
type wire interface {
	impair(p station, how platform.Impairment) error
	mend(name string) error
	end() error
}

// station identifies the packets of a pod.
type station struct {
	name string
	ip   netip.Addr
	// port is the pod's port for others. Connections of load generators, and from
	// outside the trial, come from 127.0.0.1 and are identified by it.
	port uint16
	all  netip.Prefix
}

// canImpair tries an impairment on an unused address.
func canImpair(how platform.Impairment) error {
	w, err := newWire()
	if err != nil {
		return err
	}
	return errors.Join(w.impair(unused, how), w.end())
}

// unused is a pod that does not exist.
var unused = station{name: "unused", ip: netip.AddrFrom4([4]byte{127, unusedNet, 0, 1}), port: 1, all: prefixOf(unusedNet)}

// networkFaults implements [platform.NetworkFaults].
type networkFaults struct {
	layout    *layout
	processes *processes

	mu   sync.Mutex
	wire wire // nil until a network is impaired
}

// Impair implements [platform.NetworkFaults].
func (n *networkFaults) Impair(_ context.Context, pod string, how platform.Impairment) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.layout.pod(pod)
	switch {
	case n.processes.closed():
		return errRemoved
	case p == nil:
		return errors.New("the pod does not exist")
	case p.own.IsOwn() && p.app.Addr() != p.ip:
		return hint.Wrap(fmt.Errorf("%w: its program is reached at %s, which is not its pod's address", errors.ErrUnsupported, p.app.Addr()), "write ${host} in its command, so that it listens on the pod's address")
	case !n.layout.addresses.distinct():
		return fmt.Errorf("%w: this system has one loopback address, which all pods share", errors.ErrUnsupported)
	}
	if err := n.ownSources(); err != nil {
		return err
	}
	if n.wire == nil {
		var err error
		if n.wire, err = newWire(); err != nil {
			return err
		}
	}
	return n.wire.impair(station{p.name, p.ip, n.layout.reached(p).Port(), n.layout.addresses.all()}, how)
}

// Mend implements [platform.NetworkFaults].
func (n *networkFaults) Mend(_ context.Context, pod string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wire == nil {
		return nil
	}
	return n.wire.mend(pod)
}

// free removes every impairment.
func (n *networkFaults) free() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wire == nil {
		return nil
	}
	w := n.wire
	n.wire = nil
	if err := w.end(); err != nil {
		return fmt.Errorf("free the network: %w", err)
	}
	return nil
}

// ownSources refuses sidecars that call other pods from another address than their pod's. Packets
// of a pod would not be distinguishable from packets of others.
func (n *networkFaults) ownSources() error {
	if !n.layout.proxied() {
		return nil
	}
	inbound := map[netip.AddrPort]string{}
	for _, pods := range n.layout.pods {
		for _, p := range pods {
			inbound[n.layout.reached(p)] = p.name
		}
	}
	connections, err := sockets(tcpEstablished)
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	for _, c := range connections {
		if name, ok := inbound[c.to]; ok && c.from.Addr() == localhost {
			return hint.Wrap(fmt.Errorf("%w: a sidecar of mesh %s has called %s from %s, not from its pod's address", errors.ErrUnsupported, n.layout.spec.Mesh.Name, name, localhost),
				"bind outgoing connections to {{.IP}} in its definition, as envoy's does with upstream_bind_config")
		}
	}
	return nil
}
