// Package namespaces lists the namespaces of a cluster's own components, by distribution.
package namespaces

import (
	"slices"
	"strings"
)

// system are whole names: users have namespaces such as azure-shop and kube-demo.
var system = []string{
	"kube-system", "kube-public", "kube-node-lease", // Kubernetes
	"kube-flannel", "calico-system", "calico-apiserver", "tigera-operator", // networks
	"local-path-storage", "metallb-system", // storage of kind and k3s, load balancers of bare metal
	"gke-managed-system", "gke-managed-cim", "gke-managed-dpv2-observability", "gke-managed-networking-dra-driver", // GKE
	"gke-managed-volumepopulator", "gke-managed-filestorecsi", "gke-managed-parallelstorecsi", "gke-managed-lustrecsi",
	"gke-gmp-system", "gke-mcs", "gmp-system", "gmp-public",
	"aks-command", "azure-arc", "azure-extensions-usage-system", "azure-workload-identity-system", // AKS
	"amazon-cloudwatch", "amazon-guardduty", "amazon-network-flow-monitor", // EKS
}

// reserved begins the names of OpenShift's namespaces. OpenShift gives it to no user.
const reserved = "openshift-"

// System lists the namespaces by whole name.
func System() []string { return slices.Clone(system) }

// Patterns lists them as attribution rules do: a prefix ends in "*".
func Patterns() []string { return append(System(), reserved+"*") }

// IsSystem reports whether a namespace is one of them.
func IsSystem(name string) bool {
	return slices.Contains(system, name) || strings.HasPrefix(name, reserved)
}
