package manifest

import (
	"slices"
	"strings"
)

// SystemPatterns returns them as attribution rules write them: a prefix ends in "*".
func SystemPatterns() []string { return append(SystemNamespaces(), reservedPrefix+"*") }

// systemNamespaces are the namespaces of a cluster's own components, by distribution. They are whole names: users have namespaces such as azure-shop and kube-demo.
var systemNamespaces = []string{
	"kube-system", "kube-public", "kube-node-lease", // Kubernetes
	"kube-flannel", "calico-system", "calico-apiserver", "tigera-operator", // networks
	"local-path-storage", "metallb-system", // storage of kind and k3s, load balancers of bare metal
	"gke-managed-system", "gke-managed-cim", "gke-managed-dpv2-observability", "gke-managed-networking-dra-driver", // GKE
	"gke-managed-volumepopulator", "gke-managed-filestorecsi", "gke-managed-parallelstorecsi", "gke-managed-lustrecsi",
	"gke-gmp-system", "gke-mcs", "gmp-system", "gmp-public",
	"aks-command", "azure-arc", "azure-extensions-usage-system", "azure-workload-identity-system", // AKS
	"amazon-cloudwatch", "amazon-guardduty", "amazon-network-flow-monitor", // EKS
}

// reservedPrefix begins the names of OpenShift's namespaces. OpenShift gives it to no user.
const reservedPrefix = "openshift-"

// SystemNamespaces returns the namespaces of a cluster's own components by whole name.
func SystemNamespaces() []string { return slices.Clone(systemNamespaces) }

// IsSystemNamespace reports whether a namespace is one of them.
func IsSystemNamespace(name string) bool {
	return slices.Contains(systemNamespaces, name) || strings.HasPrefix(name, reservedPrefix)
}
