package meshes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// podGroups are the pods of an application's namespace, by their relation to the mesh.
type podGroups struct {
	inMesh  []*corev1.Pod // must be in the mesh
	outside []*corev1.Pod // must not be in it
	own     []*corev1.Pod // the mesh's own, such as waypoints and gateways
}

// groupPods separates the application's and the load's pods from the mesh's pods in the same namespace.
func groupPods(pods []*corev1.Pod, t Target, proxies []mesh.Proxy) (g podGroups) {
	for _, p := range pods {
		switch {
		case slices.ContainsFunc(proxies, func(x mesh.Proxy) bool { return x.In == mesh.InNamespace && x.Selects(p.Labels) }):
			g.own = append(g.own, p)
		case t.IsLoad(p) && !t.LoadInside, t.IsOutside != nil && t.IsOutside(p):
			g.outside = append(g.outside, p)
		default:
			g.inMesh = append(g.inMesh, p)
		}
	}
	return g
}

// checkInMesh checks that every pod in the mesh has its proxy, ready, and the mesh's own marks.
func (g podGroups) checkInMesh(proxies []mesh.Proxy, proof mesh.Marks) []check.Check {
	var checks []check.Check
	if len(g.inMesh) == 0 {
		return []check.Check{{Name: "pods in the mesh", Detail: "no pod of an application", Hint: "verify a namespace with a running application"}}
	}
	for _, x := range proxies {
		if x.In != mesh.InPod {
			continue
		}
		var without, unready []*corev1.Pod
		for _, p := range g.inMesh {
			switch has, ready := proxyOf(p, x.Container); {
			case !has:
				without = append(without, p)
			case !ready:
				unready = append(unready, p)
			}
		}
		checks = append(checks, podCheck("each pod has a "+x.Role, len(g.inMesh), x.Container, without, unready,
			"recreate pods that are older than the namespace's enrolment; the mesh's webhook must answer"))
	}
	if !isEmpty(proof) {
		var without []*corev1.Pod
		for _, p := range g.inMesh {
			if !carries(p, proof) {
				without = append(without, p)
			}
		}
		checks = append(checks, podCheck("each pod is enrolled", len(g.inMesh), marksText(proof), without, nil, "`kubectl describe pod` and the mesh's log show why"))
	}
	return checks
}

// checkOutside checks that no pod that must stay outside the mesh is in it.
func (g podGroups) checkOutside(proxies []mesh.Proxy, proof mesh.Marks) []check.Check {
	if len(g.outside) == 0 {
		return nil
	}
	var wrong []*corev1.Pod
	for _, p := range g.outside {
		in := !isEmpty(proof) && carries(p, proof)
		for _, x := range proxies {
			if x.In == mesh.InPod {
				has, _ := proxyOf(p, x.Container)
				in = in || has
			}
		}
		if in {
			wrong = append(wrong, p)
		}
	}
	c := check.Check{Name: "pods outside the mesh", OK: len(wrong) == 0, Detail: fmt.Sprintf("%d pods, none in the mesh", len(g.outside))}
	if !c.OK {
		c.Detail, c.Hint = "in the mesh: "+podNames(wrong), "its pods need the definition's marks of exemption"
	}
	return []check.Check{c}
}

func podCheck(name string, all int, what string, without, unready []*corev1.Pod, text string) check.Check {
	c := check.Check{Name: name, OK: len(without)+len(unready) == 0, Detail: fmt.Sprintf("%d of %d pods have %s", all-len(without), all, what), Hint: text}
	if len(without) > 0 {
		c.Detail += ", not: " + podNames(without)
	}
	if len(unready) > 0 {
		c.Detail += ", not ready in: " + podNames(unready)
	}
	if c.OK {
		c.Hint = ""
	}
	return c
}

// proxyOf reports whether a pod has a container of that name, native sidecars included, and whether it is ready.
func proxyOf(p *corev1.Pod, name string) (has, ready bool) {
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways && mesh.Match(name, c.Name) {
			has = true
		}
	}
	for _, c := range p.Spec.Containers {
		has = has || mesh.Match(name, c.Name)
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if mesh.Match(name, s.Name) {
			ready = s.Ready
		}
	}
	return has, has && ready
}

func hasContainer(p *corev1.Pod, name string) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
}

func isEmpty(m mesh.Marks) bool { return len(m.Labels)+len(m.Annotations) == 0 }

func carries(p *corev1.Pod, m mesh.Marks) bool {
	for _, of := range []struct{ marks, has map[string]string }{{m.Labels, p.Labels}, {m.Annotations, p.Annotations}} {
		for key, value := range of.marks {
			if got, ok := of.has[key]; !ok || !mesh.Match(value, got) {
				return false
			}
		}
	}
	return true
}

func marksText(m mesh.Marks) string {
	var all []string
	for _, of := range []map[string]string{m.Labels, m.Annotations} {
		for key, value := range of {
			all = append(all, key+"="+value)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// podNames lists the first pods of several.
func podNames(pods []*corev1.Pod) string {
	return printable.Listed(printable.Texts(pods, func(p *corev1.Pod) string { return p.Name }), 5)
}
