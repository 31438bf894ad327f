package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ways to place pods, as the experiment file names them (platform.affinity).
const (
	affinityAuto   = "auto"
	AffinityLabels = "labels"
	affinityNone   = "none"
)

// LabelRole says what a node is for, where platform.affinity is [AffinityLabels].
const (
	LabelRole       = "tare.dev/role"
	RoleApplication = "application"
	RoleLoad        = "load"
)

// Labelled says which nodes are missing where pods go by labels; a load from outside needs none.
func Labelled(nodes []Node, outside bool) error {
	has := map[string]bool{}
	for _, n := range nodes {
		has[n.Role] = has[n.Role] || n.Schedulable
	}
	for _, role := range []string{RoleApplication, RoleLoad} {
		if !has[role] && !(outside && role == RoleLoad) {
			return &Error{fmt.Errorf("platform.affinity is %s, and no node that takes pods is labelled %s=%s", AffinityLabels, LabelRole, role),
				"label some: kubectl label node NODE " + LabelRole + "=" + role}
		}
	}
	return nil
}

// labelled refuses a run whose pods would wait for nodes that are not there.
func (p *Platform) labelled() error {
	if p.options.Affinity != AffinityLabels || len(p.nodes) == 0 { // without the right to see nodes nobody knows
		return nil
	}
	return Labelled(p.nodes, p.options.Outside)
}

// place says on which nodes pods may stand. On one node there is nothing to say; on several the replicas of a
// service stand on different ones, as far as there are so many, and the load keeps away from the application where
// it can. With labels, both stand where the nodes are labelled for them. It is the same for every treatment.
func (d *deployment) place(spec *corev1.PodSpec, service string, isLoad bool) {
	switch {
	case d.platform.options.Affinity == affinityNone:
		return
	case d.platform.options.Affinity == AffinityLabels:
		role := RoleApplication
		if isLoad {
			role = RoleLoad
		}
		spec.NodeSelector = map[string]string{LabelRole: role}
	case d.platform.nodeCount() < 2:
		return
	}
	same := &metav1.LabelSelector{MatchLabels: map[string]string{labelService: service}}
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: same}}
	if isLoad {
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: awayFromServices()}
	}
}

// awayFromServices prefers nodes on which no service of the trial stands.
func awayFromServices() *corev1.PodAntiAffinity {
	others := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: labelService, Operator: metav1.LabelSelectorOpNotIn, Values: []string{loadService}},
		{Key: labelService, Operator: metav1.LabelSelectorOpExists},
	}}
	return &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
		{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: others, TopologyKey: corev1.LabelHostname}}}}
}
