package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ways to place pods, as the experiment file names them (platform.affinity).
const (
	affinityAuto   = "auto"
	affinityLabels = "labels"
	affinityNone   = "none"
)

// labelRole says what a node is for, where platform.affinity is labels.
const (
	labelRole       = "tare.dev/role"
	roleApplication = "application"
	roleLoad        = "load"
)

// place says on which nodes pods may stand. On one node there is nothing to say; on several the replicas of a
// service stand on different ones, as far as there are so many, and the load keeps away from the application where
// it can. With labels, both stand where the nodes are labelled for them. It is the same for every treatment.
func (d *deployment) place(spec *corev1.PodSpec, service string, isLoad bool) {
	switch {
	case d.platform.options.Affinity == affinityNone:
		return
	case d.platform.options.Affinity == affinityLabels:
		role := roleApplication
		if isLoad {
			role = roleLoad
		}
		spec.NodeSelector = map[string]string{labelRole: role}
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
