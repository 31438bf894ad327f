package kube

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/printable"
)

// shownLimits are named in a check.
const shownLimits = 3

const adviceLimits = "a LimitRange of the namespace or an admission webhook sets them"

// checkLimits compares the limits of every container with its manifest. A limit that the cluster sets throttles or ends
// the load generator and the application. Of an application that others wrote it is a condition, as in production.
func (v *verifier) checkLimits() check.Check {
	c := check.Check{Name: "limits"}
	var own, others []string
	pods := v.pods.all()
	for _, pod := range pods {
		manifest, err := v.manifestOf(pod)
		if err != nil {
			continue // a gateway of the mesh in the namespace
		}
		for _, found := range lowered(pod, manifest) {
			if found = v.pods.name(pod) + "/" + found; v.othersWrote(pod) {
				others = append(others, found)
			} else {
				own = append(own, found)
			}
		}
	}
	if own != nil {
		c.Detail = "not of the manifests: " + printable.Listed(slices.Concat(own, others), shownLimits)
		c.Hint = adviceLimits + ": set the limits to measure with in platform.resources (app, load), or use another namespace"
		return c
	}
	c.OK, c.Detail = true, fmt.Sprintf("%d pods have the limits of their manifests", len(pods))
	if others != nil {
		c.Detail = "the cluster sets limits: " + printable.Listed(others, shownLimits)
		c.Caution = c.Detail + ", a condition of all figures"
		c.Hint = adviceLimits + ": write the limits to measure with into the manifests"
	}
	return c
}

// lowered are the limits of a pod's containers that are lower than in its manifest, or absent there.
func lowered(pod *corev1.Pod, manifest podTemplate) (all []string) {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		wanted, known := manifest.limits[c.Name]
		if !known {
			continue // the mesh injects it
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			has, limited := c.Resources.Limits[name]
			if want, is := wanted[name]; limited && (!is || has.Cmp(want) < 0) {
				all = append(all, fmt.Sprintf("%s %s %s", c.Name, name, has.String()))
			}
		}
	}
	return all
}
