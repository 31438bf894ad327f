package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/test/cluster/internal/cgroup"
)

// MaxNodes limits the nodes of a cluster.
const MaxNodes = 9

// node is one node of a cluster. Number 1 is [Node] and has the control plane.
type node struct {
	Layout
	Number int `json:"number"`
}

// nodes are a cluster's nodes by number.
func (l Layout) nodes() (all []node) {
	for number := range max(1, l.Nodes) {
		all = append(all, node{l, number + 1})
	}
	return all
}

// several reports whether the cluster has more than one node. Each then has a view of the control groups of its own,
// with its group as the root.
func (l Layout) several() bool { return l.Nodes > 1 }

func (n node) first() bool { return n.Number == 1 }

// name is the node's name in Kubernetes, and its host name.
func (n node) name() string {
	if n.first() {
		return Node
	}
	return Node + "-" + strconv.Itoa(n.Number)
}

// suffixed marks a name as the node's. Those of the first have no mark.
func (n node) suffixed(name string) string {
	if n.first() {
		return name
	}
	return name + "-" + strconv.Itoa(n.Number)
}

// own is the path of a file that belongs to this node.
func (n node) own(parts ...string) string {
	if n.first() {
		return n.file(parts...)
	}
	return n.file(append([]string{"n" + strconv.Itoa(n.Number)}, parts...)...)
}

// Containerd is the socket of the node's containerd.
func (n node) Containerd() string { return n.own("containerd.sock") }

// address is the node's on the cluster's link.
func (n node) address() netip.Addr {
	address := n.Network.Node
	for range n.Number - 1 {
		address = address.Next()
	}
	return address
}

// podBits is the prefix length of a node's pods where there are several.
const podBits = 20

// pods are the addresses of the node's pods.
func (n node) pods() netip.Prefix {
	if !n.several() {
		return n.Network.Pods
	}
	all := n.Network.Pods.Addr().As4()
	all[2] = byte((n.Number - 1) << (24 - podBits))
	return netip.PrefixFrom(netip.AddrFrom4(all), podBits)
}

// port is the name of the machine's end of the link to the node, where there are several: a cluster's name has at most
// nine letters, an interface's 15.
func (n node) port() string { return "tarep" + n.Layout.Name + strconv.Itoa(n.Number) }

// groupName is the path of the node's control group.
func (n node) groupName() string {
	if !n.several() {
		return n.cgroupName()
	}
	return n.cgroupName() + "/n" + strconv.Itoa(n.Number)
}

func (n node) group() (cgroup.Group, error) { return cgroup.Find(n.groupName()) }

// init is the host's process id of the node's first process, or 0 if it was not started.
func (n node) init() int {
	if n.first() {
		return n.Init
	}
	if i := n.Number - 2; i < len(n.Workers) {
		return n.Workers[i]
	}
	return 0
}

// daemons are the programs of the node.
func (n node) daemons() []daemon {
	return slices.DeleteFunc(slices.Clone(daemons), func(d daemon) bool { return !n.first() && !d.everywhere })
}

// ErrNoNode is wrapped by the error of a name that no node has.
var ErrNoNode = errors.New("the cluster has no such node")

// find is the node of a name, where "" is the first.
func (l Layout) find(name string) (node, error) {
	for _, n := range l.nodes() {
		if name == n.name() || name == "" && n.first() {
			return n, nil
		}
	}
	return node{}, fmt.Errorf("%w: %s", ErrNoNode, name)
}

// memberVariable holds the node in the second start of its first process.
const memberVariable = "TARE_CLUSTER_MEMBER"

// enterGroups makes the control group that this process is in the root of what it and its children see. The kernel
// changes the calling thread only, so the program is started again in it.
func (n node) enterGroups(text string) error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("control groups of the node: %w", err)
	}
	return unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), memberVariable+"="+text))
}
