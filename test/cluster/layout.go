// Package cluster brings up a real Kubernetes on this machine, for tests.
// API server, etcd, controllers, scheduler, kubelet, kube-proxy, containerd, CoreDNS and metrics-server run in
// namespaces of their own. While it is up, the machine has network interfaces, routes, a control group and a
// directory, all named after it. Only the cache of its programs remains once it is down.
//
// Of several nodes, each has a kubelet, a kube-proxy and a containerd in namespaces of its own. A bridge connects
// them, and each routes the pods of the others.
package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/tare-mesh/tare/test/cluster/internal/cgroup"
)

// Node is the name of a cluster's first node, which has the control plane.
const Node = "tare-node"

// Layout holds the paths and names of a cluster, which its parts share.
type Layout struct {
	Name    string  `json:"name"`
	Root    string  `json:"root"`    // the cache and every cluster's state
	Network Network `json:"network"` // zero until it is chosen
	Parts   string  `json:"parts"`   // directory of the built programs
	Sandbox string  `json:"sandbox"` // image that holds a pod's namespaces
	Istio   Istio   `json:"istio"`   // zero until it is added
	// Gateways has the directories of the charts of gateways whose images were loaded, by name.
	Gateways map[string]string `json:"gateways,omitempty"`
	Started  time.Time         `json:"started"`
	Ready    bool              `json:"ready"`
	Owner    Owner             `json:"owner"` // whose death makes this cluster a leftover, zero for none
	Init     int               `json:"init"`  // host's process id of the first process inside
	// Nodes is the number of nodes. 0 means one. Workers are the process ids of the other nodes' first processes.
	Nodes   int   `json:"nodes,omitempty"`
	Workers []int `json:"workers,omitempty"`
	// CAdvisor lets kubelet's cAdvisor know the containers, as it does on most clusters: their counters are then
	// refreshed every 10 to 20 seconds, and throttling is counted. Otherwise every request reads them.
	CAdvisor bool `json:"cadvisor,omitempty"`
	// CPUShares is the CPU weight of the cluster beside other programs. A thread of those has 1024.
	CPUShares int `json:"cpuShares,omitempty"`
}

var validName = regexp.MustCompile(`^[a-z][a-z0-9]{0,8}$`)

// New is the layout of the cluster of this name under root. An empty root means tare/cluster in the user's cache.
func New(root, name string) (Layout, error) {
	if !validName.MatchString(name) {
		return Layout{}, fmt.Errorf("name of a cluster %q: not one to nine lower-case letters and digits, a letter first", name)
	}
	if root == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return Layout{}, fmt.Errorf("find the user's cache: %w", err)
		}
		root = filepath.Join(cache, "tare", "cluster")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return Layout{}, fmt.Errorf("find the cluster's root: %w", err)
	}
	l := Layout{Name: name, Root: root}
	// sun_path of unix(7) holds 108 bytes.
	if len((node{l, MaxNodes}).Containerd()) > 107 {
		return Layout{}, fmt.Errorf("root %s: too long for the path of a socket in it", root)
	}
	return l, nil
}

// Load reads what a cluster that is up, or was being brought up, has saved. The second result reports whether
// there was anything.
func (l Layout) Load() (Layout, bool, error) {
	data, err := os.ReadFile(l.file("state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return l, false, nil
	}
	if err != nil {
		return l, false, fmt.Errorf("read the cluster's state: %w", err)
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return l, false, fmt.Errorf("read the cluster's state: %w", err)
	}
	return l, true, nil
}

func (l Layout) save() error {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	next := l.file("state.json.next")
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	return os.Rename(next, l.file("state.json"))
}

// Dir holds the cluster's state, and it is gone once the cluster is down.
func (l Layout) Dir() string { return filepath.Join(l.Root, "run", l.Name) }

// Logs holds the daemons' logs. They stay until the next cluster of the name.
func (l Layout) Logs() string { return filepath.Join(l.Root, "log", l.Name) }

// Kubeconfig is the administrator's, readable by its owner alone.
func (l Layout) Kubeconfig() string { return l.file("admin.kubeconfig") }

// Containerd is the socket of the cluster's containerd. It can be used from outside the cluster's namespaces.
func (l Layout) Containerd() string { return l.file("containerd.sock") }

// Interface is the name of the machine's end of the link to the node.
func (l Layout) Interface() string { return "tare-" + l.Name }

func (l Layout) peer() string { return "eth0" }

func (l Layout) cgroupName() string { return "tare-cluster-" + l.Name }

func (l Layout) cgroup() (cgroup.Group, error) { return cgroup.Find(l.cgroupName()) }

func (l Layout) file(parts ...string) string {
	return filepath.Join(append([]string{l.Dir()}, parts...)...)
}

func (l Layout) program(name string) string { return filepath.Join(l.Parts, "bin", name) }

// Network is a cluster's address ranges. They are routed on this machine only.
type Network struct {
	Index    int          `json:"index"`
	Link     netip.Prefix `json:"link"`     // machine and nodes
	Host     netip.Addr   `json:"host"`     // the machine as the cluster sees it
	Node     netip.Addr   `json:"node"`     // the first node, its node ports and the API server
	Pods     netip.Prefix `json:"pods"`     //
	Services netip.Prefix `json:"services"` //
	DNS      netip.Addr   `json:"dns"`      // service address of the cluster's DNS
	API      netip.Addr   `json:"api"`      // service address of the API server
}

// networks limits the clusters of a machine.
const networks = 8

func network(index int) Network {
	address := func(a, b, c, d int) netip.Addr { return netip.AddrFrom4([4]byte{byte(a), byte(b), byte(c), byte(d)}) }
	return Network{
		Index: index,
		Link:  netip.PrefixFrom(address(10, 201, index, 0), 28), Host: address(10, 201, index, 1), Node: address(10, 201, index, 2),
		Pods:     netip.PrefixFrom(address(10, 244-index, 0, 0), 16),
		Services: netip.PrefixFrom(address(10, 96+index, 0, 0), 16),
		API:      address(10, 96+index, 0, 1), DNS: address(10, 96+index, 0, 10),
	}
}

// Server is the API server's address.
func (n Network) Server() string { return "https://" + netip.AddrPortFrom(n.Node, 6443).String() }
