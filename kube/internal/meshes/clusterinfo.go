package meshes

import (
	"context"
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// clusterInfo is the properties of a cluster that a mesh's installation depends on.
type clusterInfo struct {
	nodes, allNodes int      // nodes that take any pod, and all nodes
	services        []string // service CIDRs
	networks        []string // private networks, and CIDRs of pods and services outside them
	distribution    string   // of Kubernetes, empty if unknown
	domain          string   // of the names of Services, empty if unknown
}

// readClusterInfo reads the cluster. serviceCIDR, unless empty, replaces detection.
func readClusterInfo(ctx context.Context, c *cluster.Cluster, serviceCIDR string) (clusterInfo, error) {
	var s clusterInfo
	var pods, ready []string // networks of pods, and names of nodes
	list, err := cluster.Retried(ctx, c, "list nodes", func(ctx context.Context) (*corev1.NodeList, error) {
		return c.Typed().CoreV1().Nodes().List(ctx, cluster.RealNodes())
	})
	if err != nil {
		return s, err
	}
	s.allNodes = len(list.Items)
	for _, n := range list.Items {
		if cluster.TakesPods(n) {
			s.nodes++
		}
		pods = append(pods, n.Spec.PodCIDRs...)
		s.distribution = distribution(n)
		if cluster.IsReady(n) {
			ready = append(ready, n.Name)
		}
	}
	for _, node := range ready[:min(3, len(ready))] { // one may not answer
		if s.domain = clusterDomain(ctx, c, node); s.domain != "" {
			break
		}
	}
	if serviceCIDR != "" {
		s.services = strings.Split(serviceCIDR, ",")
	} else if s.services, err = serviceNetworks(ctx, c); err != nil {
		return s, hint.New("set TARE_SERVICE_CIDR to it, such as 10.43.0.0/16", "detect the service CIDR: %w", err)
	}
	s.networks = privateNetworks()
	for _, text := range slices.Concat(s.services, pods) {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return s, hint.New("write it as 10.43.0.0/16", "network of the cluster: %w", err)
		}
		if !slices.ContainsFunc(private, func(p netip.Prefix) bool { return p.Contains(prefix.Addr()) && p.Bits() <= prefix.Bits() }) &&
			!slices.Contains(s.networks, prefix.String()) {
			s.networks = append(s.networks, prefix.String())
		}
	}
	return s, nil
}

// private are the networks that meshes assume to be the cluster's own by default (RFC 1918, 6598, 4193).
var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("fd00::/8"),
}

func privateNetworks() []string {
	return lists.Map(private, netip.Prefix.String)
}

// clusterDomain reads the domain of Services from the configuration of a kubelet, empty if it cannot be read.
func clusterDomain(ctx context.Context, c *cluster.Cluster, node string) string {
	body, err := c.Reader().NodeRead(ctx, node, "configz")
	if err != nil {
		return "" // without permission to get nodes/proxy
	}
	var z struct {
		Config struct {
			ClusterDomain string `json:"clusterDomain"`
		} `json:"kubeletconfig"`
	}
	if json.Unmarshal(body, &z) != nil || len(validation.IsDNS1123Subdomain(z.Config.ClusterDomain)) > 0 {
		return ""
	}
	return z.Config.ClusterDomain
}

// validRange is the service CIDR in an error of the API server.
var validRange = regexp.MustCompile(`range of valid IPs is ([0-9a-fA-F.:/]+)`)

// serviceNetworks reads the ServiceCIDR objects of Kubernetes 1.33 and later. Earlier API servers name the range when
// they refuse a Service with an invalid address, which is sent as a dry run.
func serviceNetworks(ctx context.Context, c *cluster.Cluster) ([]string, error) {
	found, err := cluster.Retried(ctx, c, "read the service CIDR", func(ctx context.Context) (*networkingv1.ServiceCIDR, error) {
		return c.Typed().NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
	})
	if err == nil && len(found.Spec.CIDRs) > 0 {
		return found.Spec.CIDRs, nil
	}
	impossible := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "tare-probes-the-range"},
		Spec:       corev1.ServiceSpec{ClusterIP: "198.51.100.1", Ports: []corev1.ServicePort{{Port: 80}}}, // RFC 5737
	}
	var refused error
	_ = c.Retry(ctx, "probe for the service CIDR", func(ctx context.Context) error {
		_, refused = c.Typed().CoreV1().Services(metav1.NamespaceDefault).Create(ctx, impossible, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if cluster.IsTransient(refused) {
			return refused
		}
		return nil
	})
	if refused != nil {
		if m := validRange.FindStringSubmatch(refused.Error()); m != nil {
			return []string{m[1]}, nil
		}
		return nil, refused
	}
	return nil, err
}

// distribution is the Kubernetes distribution of a node, empty if unknown.
func distribution(n corev1.Node) string {
	version := n.Status.NodeInfo.KubeletVersion
	switch {
	case strings.Contains(version, "-gke."):
		return "gke"
	case strings.Contains(version, "+k3s") && strings.HasPrefix(n.Name, "k3d-"):
		return "k3d"
	case strings.Contains(version, "+k3s"):
		return "k3s"
	case n.Labels["minikube.k8s.io/name"] != "":
		return "minikube"
	case n.Labels["microk8s.io/cluster"] != "":
		return "microk8s"
	}
	return ""
}
