package kube

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
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
