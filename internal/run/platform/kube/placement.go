package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
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
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: same}}
	if isLoad {
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: awayFromServices()}
	}
}

// awayFromServices prefers nodes without a pod of the trial's services.
func awayFromServices() *corev1.PodAntiAffinity {
	others := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: labelService, Operator: metav1.LabelSelectorOpNotIn, Values: []string{loadService}},
		{Key: labelService, Operator: metav1.LabelSelectorOpExists},
	}}
	return &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
		{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: others, TopologyKey: corev1.LabelHostname}}}}
}
