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

// wire is where the packets between pods can be touched. Ending it undoes all it did.
type wire interface {
	impair(p station, how platform.Impairment) error
	mend(name string) error
	end() error
}

// station is what is known of a pod to find its packets by.
type station struct {
	name string
	ip   netip.Addr
	// port is where others reach it. Connections from outside of the trial, and
	// those of load generators, begin at 127.0.0.1 and are known by it.
	port uint16
	// all is what holds the addresses of every pod.
	all netip.Prefix
}

// CanImpair implements [platform.Impairer]: it is tried, on packets that nobody sends.
func (p *Platform) CanImpair(how platform.Impairment) error {
	w, err := newWire()
	if err != nil {
		return err
	}
	return errors.Join(w.impair(nobody(newAddresses()), how), w.end())
}

// nobody is a pod that is not there: the last byte of its address is not handed out.
func nobody(a *addresses) station {
	return station{name: "nobody", ip: netip.AddrFrom4([4]byte{127, a.net, 255, 255}), port: 1, all: a.all()}
}

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
	fail := func(err error) error { return fmt.Errorf("impair the network of %s: %w", pod, err) }
	p := n.layout.pod(pod)
	switch {
	case n.processes.closed():
		return fail(errRemoved)
	case p == nil:
		return fail(errors.New("there is no such pod"))
	case !n.layout.addresses.distinct():
		return fail(fmt.Errorf("%w: this system has no more than one loopback address, which all pods share", errors.ErrUnsupported))
	}
	if err := n.ownSources(); err != nil {
		return fail(err)
	}
	if n.wire == nil {
		var err error
		if n.wire, err = newWire(); err != nil {
			return fail(err)
		}
	}
	way := p.app
	if n.layout.proxied() {
		way = p.inbound
	}
	if err := n.wire.impair(station{p.name, p.ip, way.Port(), n.layout.addresses.all()}, how); err != nil {
		return fail(err)
	}
	return nil
}

// Mend implements [platform.NetworkFaults].
func (n *networkFaults) Mend(_ context.Context, pod string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wire == nil {
		return nil
	}
	if err := n.wire.mend(pod); err != nil {
		return fmt.Errorf("mend the network of %s: %w", pod, err)
	}
	return nil
}

// free undoes what was done to the network.
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

// ownSources refuses sidecars that call other pods from an address that is not
// their pod's: what a pod sends through one could not be told from what others send.
func (n *networkFaults) ownSources() error {
	if !n.layout.proxied() {
		return nil
	}
	inbound := map[netip.AddrPort]string{}
	for _, pods := range n.layout.pods {
		for _, p := range pods {
			inbound[p.inbound] = p.name
		}
	}
	connections, err := established()
	if err != nil {
		return fmt.Errorf("look at connections: %w", err)
	}
	for _, c := range connections {
		if name, ok := inbound[c.to]; ok && c.from.Addr() == localhost {
			return hint.Wrap(fmt.Errorf("%w: a sidecar of mesh %s has called %s from %s, and not from its pod's address", errors.ErrUnsupported, n.layout.spec.Mesh.Name, name, localhost),
				"let its definition bind what it connects to {{.IP}}, as envoy's does with upstream_bind_config")
		}
	}
	return nil
}
