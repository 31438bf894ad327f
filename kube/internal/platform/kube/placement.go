package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Values of the factor placement.
const (
	sameNode   = "same-node"
	otherNodes = "other-nodes"
)

// Values of platform.affinity.
const (
	affinityAuto   = "auto"
	AffinityLabels = "labels"
	affinityNone   = "none"
)

// LabelRole is the node label that [AffinityLabels] goes by, and its values.
const (
	LabelRole       = "tare.dev/role"
	RoleApplication = "application"
	RoleLoad        = "load"
)

// CheckLabels returns an error unless a schedulable node has each role. A load from outside needs no node.
func CheckLabels(nodes []Node, outside bool) error {
	has := map[string]bool{}
	for _, n := range nodes {
		has[n.Role] = has[n.Role] || n.Schedulable
	}
	for _, role := range []string{RoleApplication, RoleLoad} {
		if !has[role] && !(outside && role == RoleLoad) {
			return hint.New("label some: kubectl label node NODE "+LabelRole+"="+role,
				"platform.affinity is %s, and no schedulable node is labelled %s=%s", AffinityLabels, LabelRole, role)
		}
	}
	return nil
}

// checkLabels refuses a run whose pods would stay pending. Without permission to list nodes it checks nothing.
func (p *Platform) checkLabels() error {
	if p.options.Affinity != AffinityLabels || len(p.nodes) == 0 {
		return nil
	}
	return CheckLabels(p.nodes, p.options.Outside)
}

// place sets the nodes that pods are placed on, the same for every treatment. On one node it sets nothing. On several,
// replicas of a service go to different nodes where possible, and the load prefers nodes without the application. With
// labels, both go to the nodes labelled for them.
func (m manifests) place(spec *corev1.PodSpec, service string, isLoad bool) {
	if placement := m.spec.Treatment.Levels.Placement; placement != "" && !isLoad {
		spec.Affinity = together(placement, service) // in a dry run too, where the nodes are not known
		return
	}
	switch {
	case m.options.Affinity == affinityNone:
		return
	case m.options.Affinity == AffinityLabels:
		role := RoleApplication
		if isLoad {
			role = RoleLoad
		}
		spec.NodeSelector = map[string]string{LabelRole: role}
	case m.nodes.schedulable() < 2:
		return
	}
	same := &metav1.LabelSelector{MatchLabels: map[string]string{labelService: service}}
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: same,
		NodeTaintsPolicy: new(corev1.NodeInclusionPolicyHonor)}} // a replica avoids lost nodes and nodes of the control plane
	if isLoad {
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: awayFromServices()}
	}
}

// placeAway sets the nodes of a pod of tare that is not measured: preferably without the application, and with labels a node of the load.
func (m manifests) placeAway(spec *corev1.PodSpec) {
	switch {
	case m.options.Affinity == affinityNone:
		return
	case m.options.Affinity == AffinityLabels && !m.options.Outside:
		spec.NodeSelector = map[string]string{LabelRole: RoleLoad}
	}
	spec.Affinity = &corev1.Affinity{PodAntiAffinity: awayFromServices()}
}

// awayFromServices prefers nodes without a pod of the trial's services.
func awayFromServices() *corev1.PodAntiAffinity {
	return &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
		{Weight: 100, PodAffinityTerm: servicesExcept(loadService)}}}
}

// together requires one node for all services of the trial, or for each a node without another service.
func together(placement, service string) *corev1.Affinity {
	if placement == sameNode {
		return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{servicesExcept(loadService)}}}
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{servicesExcept(loadService, service)}}}
}

// servicesExcept selects the nodes with pods of the trial's other services.
func servicesExcept(names ...string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: labelService, Operator: metav1.LabelSelectorOpNotIn, Values: names},
		{Key: labelService, Operator: metav1.LabelSelectorOpExists},
	}}}
}

// checkPlacement refuses a placement that the nodes do not permit, or that cannot be checked. A dry run has no nodes.
func (p *Platform) checkPlacement(spec platform.Spec) error {
	placement, has := spec.Treatment.Levels.Placement, p.nodes.schedulable()
	need := 2
	if placement == otherNodes {
		need = max(2, len(spec.Topology.Services))
	}
	switch {
	case placement == "" || p.options.Cluster.DryRun() || has >= need:
		return nil
	case len(p.nodes) == 0:
		return hint.New(cluster.HintPermissions, "placement %s needs the nodes of the cluster, and the permission to list nodes is missing", placement)
	}
	return hint.New("use a cluster with more nodes, or fewer services", "placement %s needs %d nodes, and pods can be scheduled on %d", placement, need, has)
}

// placements are how pods of a run share nodes, of the first trial of each kind: by its services and replicas.
type placements struct {
	mu    sync.Mutex
	first map[string]string
}

// compare returns how the pods of the first trial with as many pods of each service shared nodes, and how these do:
// "echo load, echo" are two nodes.
func (p *placements) compare(pods *trialPods) (first, now string) {
	if p == nil {
		return "", ""
	}
	var all []string
	nodes := map[string][]string{}
	for _, pod := range pods.all() {
		if service := pods.serviceOf(pod); service != "" && pod.Spec.NodeName != "" {
			all = append(all, service)
			nodes[pod.Spec.NodeName] = append(nodes[pod.Spec.NodeName], service)
		}
	}
	var groups []string
	for _, of := range nodes {
		slices.Sort(of)
		groups = append(groups, strings.Join(of, " "))
	}
	slices.Sort(groups)
	slices.Sort(all)
	kind, now := strings.Join(all, " "), strings.Join(groups, ", ")
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.first[kind]; !known {
		p.first[kind] = now
	}
	return p.first[kind], now
}

// Node is one node of the cluster.
type Node struct {
	Name        string
	CPUs        int    // of the machine
	Allocatable string // to pods: "1930m cpu, 3.2Gi"
	MemoryMB    int64
	OS          string
	Arch        string
	Kernel      string
	Kubelet     string
	Runtime     string
	// Addresses of the machine, external ones first.
	Addresses []string
	// Schedulable reports whether pods can be placed on it.
	Schedulable bool
	// Role is its label [LabelRole]: [RoleApplication], [RoleLoad] or "".
	Role string
}

// nodeList are the nodes of a cluster, empty without permission to list nodes.
type nodeList []Node

// Nodes lists the nodes of a cluster by name. Without permission to list nodes the list is empty.
func Nodes(ctx context.Context, c *cluster.Cluster) ([]Node, error) {
	if c.DryRun() {
		return nil, nil
	}
	list, err := cluster.Retried(ctx, c, "list nodes", func(ctx context.Context) (*corev1.NodeList, error) {
		return c.Typed().CoreV1().Nodes().List(ctx, cluster.RealNodes())
	})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return NodesFrom(list.Items), nil
}

// NodesOfInterest are the nodes that can have pods of a trial, and those that have pods of the cluster other than of
// DaemonSets. They are the same for all trials of a run. nil: unknown.
func NodesOfInterest(nodes []Node, pods []corev1.Pod, affinity string) map[string]bool {
	if len(nodes) == 0 {
		return nil
	}
	all := map[string]bool{}
	for _, n := range nodes {
		if n.Schedulable && (affinity != AffinityLabels || n.Role != "") {
			all[n.Name] = true
		}
	}
	for i := range pods {
		if p := &pods[i]; p.Spec.NodeName != "" && cluster.IsSystem(p) && !ofDaemonSet(p) {
			all[p.Spec.NodeName] = true
		}
	}
	return all
}

// ofDaemonSet reports whether a pod is one of those that every node has.
func ofDaemonSet(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "DaemonSet"
}

// NodesFrom converts nodes of the API server, sorted by name.
func NodesFrom(all []corev1.Node) (nodes []Node) {
	nodes = lists.Map(all, describe)
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

func describe(n corev1.Node) Node {
	info := n.Status.NodeInfo
	return Node{
		Name: n.Name, CPUs: int(n.Status.Capacity.Cpu().Value()), MemoryMB: n.Status.Capacity.Memory().Value() / 1e6,
		Allocatable: fmt.Sprintf("%s cpu, %s", n.Status.Allocatable.Cpu(), n.Status.Allocatable.Memory()),
		OS:          info.OperatingSystem, Arch: info.Architecture, Kernel: info.KernelVersion, Kubelet: info.KubeletVersion,
		Runtime: info.ContainerRuntimeVersion, Schedulable: cluster.TakesPods(n), Addresses: addresses(n), Role: n.Labels[LabelRole],
	}
}

func addresses(n corev1.Node) (all []string) {
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for _, a := range n.Status.Addresses {
			if a.Type == kind {
				all = append(all, a.Address)
			}
		}
	}
	return all
}

// schedulable is the number of nodes that pods can be placed on.
func (l nodeList) schedulable() (n int) {
	return lists.Count(l, func(node Node) bool { return node.Schedulable })
}

func (l nodeList) addressesOf(pod *corev1.Pod) []string {
	if n, _ := lists.First(l, func(n Node) bool { return n.Name == pod.Spec.NodeName }); len(n.Addresses) > 0 {
		return n.Addresses
	}
	return []string{pod.Status.HostIP}
}

// versions are the cluster's version, tare-agent's image and one line for each node.
func (p *Platform) versions(ctx context.Context) (map[string]string, error) {
	version, err := p.options.Cluster.Version(ctx)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{"kubernetes": version, "image": p.options.Image}
	for _, n := range p.nodes {
		versions["node "+n.Name] = fmt.Sprintf("kubelet %s, %s, Linux %s, %s, %d CPUs; allocatable: %s", n.Kubelet, n.Runtime, n.Kernel, n.Arch, n.CPUs, n.Allocatable)
	}
	return versions, nil
}
