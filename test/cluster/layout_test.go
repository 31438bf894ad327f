package cluster

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

func TestNamesThatMakeNoInterface(t *testing.T) {
	for _, name := range []string{"", "A", "1a", "a-b", "../x", "tenletters", "a b"} {
		if _, err := New(t.TempDir(), name); err == nil {
			t.Errorf("name %q was taken", name)
		}
	}
	l := must.Get(New(t.TempDir(), "ninechars"))(t)
	if n := len(l.Interface()); n > 15 { // IFNAMSIZ of netdevice(7), less its end
		t.Errorf("interface %s has %d letters", l.Interface(), n)
	}
}

func TestRootTooLongForASocket(t *testing.T) {
	if _, err := New("/"+strings.Repeat("long", 25), "dev"); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
}

func TestRootThatTheClusterCannotSee(t *testing.T) {
	for root, seen := range map[string]bool{"/var/lib/ci": false, "/run": false, "/var/library": true, "/home/me": true} {
		l := must.Get(New(root, "dev"))(t)
		if err := outside(l.Root, hidden); (err == nil) != seen {
			t.Errorf("%s: %v", root, err)
		}
	}
}

func TestNetworksKeepClear(t *testing.T) {
	for index := range networks {
		var others []netip.Prefix
		for other := range networks {
			if n := network(other); other != index {
				others = append(others, n.Link, n.Pods, n.Services)
			}
		}
		n := network(index)
		if !n.free(others) {
			t.Errorf("network %d overlaps another", index)
		}
		if n.free([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}) {
			t.Errorf("network %d does not see a route to 10.0.0.0/8", index)
		}
		if !n.Link.Contains(n.Node) || !n.Link.Contains(n.Host) || !n.Services.Contains(n.DNS) || !n.Services.Contains(n.API) {
			t.Errorf("network %d: an address outside its range: %+v", index, n)
		}
	}
}

// Addresses, pods, files and interfaces of nodes are apart, and the first node has a single node's.
func TestNodesKeepClear(t *testing.T) {
	l := must.Get(New(t.TempDir(), "ninechars"))(t)
	l.Network = network(3)
	alone := l.nodes()
	if len(alone) != 1 || alone[0].pods() != l.Network.Pods || alone[0].groupName() != l.cgroupName() || alone[0].Containerd() != l.Containerd() {
		t.Errorf("a single node: %+v", alone)
	}
	l.Nodes = MaxNodes
	seen := map[any]string{}
	for _, n := range l.nodes() {
		if !l.Network.Link.Contains(n.address()) || n.address() == l.Network.Host || !l.Network.Pods.Contains(n.pods().Addr()) {
			t.Errorf("%s: %s, %s", n.name(), n.address(), n.pods())
		}
		if len(n.port()) > 15 {
			t.Errorf("interface %s has %d letters", n.port(), len(n.port()))
		}
		for _, own := range []any{n.address(), n.pods().Masked(), n.Containerd(), n.port(), n.groupName(), n.name(), n.own("kubelet"), n.kubeconfig(n.suffixed("kubelet"))} {
			if other, taken := seen[own]; taken {
				t.Errorf("%v is of %s and %s", own, other, n.name())
			}
			seen[own] = n.name()
		}
	}
	if _, err := l.find("tare-node-10"); err == nil {
		t.Error("a node too many was found")
	}
}

func TestOwnerThatIsAnotherProcessByNow(t *testing.T) {
	o := self()
	if o.dead() {
		t.Error("this process is dead")
	}
	o.Began += "0"
	if !o.dead() {
		t.Error("a process of the same id that began at another time passes for the owner")
	}
	if (Owner{}).dead() {
		t.Error("a cluster without an owner is a leftover")
	}
}

// A number of a namespace that another process has by now is not a leftover.
func TestRecycledNamespaceNumber(t *testing.T) {
	self := "/proc/self"
	number, err := os.Readlink(self + "/ns/mnt")
	if err != nil {
		t.Skip(err)
	}
	s := Spaces{numbers: map[string][]string{"mnt": {number}}, members: map[string]string{self: startTime(self)}}
	if err := s.left(); err == nil {
		t.Error("a living process is not seen")
	}
	s.members[self] = "1" // another process had its number
	if err := s.left(); err != nil {
		t.Error(err)
	}
}

// A firewall that drops what the bridge forwards is recognised, and a rule for the cluster's frames before that is enough.
func TestFirewallDropsFramesOfTheBridge(t *testing.T) {
	const accepted = "-i tare-dev -o tare-dev -j ACCEPT"
	for rules, want := range map[string]bool{
		"-P FORWARD ACCEPT\n": false,
		"-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n-A FORWARD -i docker0 -o docker0 -j ACCEPT\n": true,
		"-P FORWARD DROP\n-A FORWARD " + accepted + "\n-A FORWARD -j DOCKER-USER\n":                false,
		"-P FORWARD ACCEPT\n-A FORWARD -j REJECT --reject-with icmp-host-prohibited\n":             true,
		"-P FORWARD ACCEPT\n-A FORWARD -j DROP\n-A FORWARD " + accepted + "\n":                     true,
		"-P FORWARD ACCEPT\n-A FORWARD -s 10.0.0.0/8 -j DROP\n-A FORWARD -i docker0 -j REJECT\n":   false,
		"-P FORWARD DROP\n-A FORWARD -j ACCEPT\n":                                                  false,
	} {
		if got := dropped(rules, accepted); got != want {
			t.Errorf("%q: %t", rules, got)
		}
	}
}
