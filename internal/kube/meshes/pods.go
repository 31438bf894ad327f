package meshes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// divided are the pods of an application's namespace.
type divided struct {
	in  []*corev1.Pod // must be in the mesh
	out []*corev1.Pod // must stay out
	own []*corev1.Pod // the mesh's own, such as waypoints and gateways
}

// split divides the pods of a namespace: the application's and the load's from the mesh's own that stand there.
func (m *Mesh) split(pods []*corev1.Pod, t Target) (d divided) {
	for _, p := range pods {
		switch {
		case slices.ContainsFunc(m.proxies(true), func(x mesh.Proxy) bool { return x.In == mesh.InNamespace && x.Selects(p.Labels) }):
			d.own = append(d.own, p)
		case t.IsLoad(p) && !t.LoadInside:
			d.out = append(d.out, p)
		default:
			d.in = append(d.in, p)
		}
	}
	return d
}

// inside checks that every pod of the application really has its proxy, ready, and carries the mesh's own mark.
func (m *Mesh) inside(d divided, proof mesh.Marks) []check.Check {
	var checks []check.Check
	if len(d.in) == 0 {
		return []check.Check{{Name: "pods in the mesh", Detail: "there is no pod of an application", Hint: "verify a namespace that an application runs in"}}
	}
	for _, x := range m.k.Proxies {
		if x.In != mesh.InPod {
			continue
		}
		var without, unready []*corev1.Pod
		for _, p := range d.in {
			switch has, ready := proxyOf(p, x.Container); {
			case !has:
				without = append(without, p)
			case !ready:
				unready = append(unready, p)
			}
		}
		checks = append(checks, judged("each pod has a "+x.Role, len(d.in), x.Container, without, unready,
			"pods that are older than the namespace's enrolment must be made anew; the mesh's webhook must answer"))
	}
	if !none(proof) {
		var without []*corev1.Pod
		for _, p := range d.in {
			if !carries(p, proof) {
				without = append(without, p)
			}
		}
		checks = append(checks, judged("each pod is enrolled", len(d.in), marks(proof), without, nil, "`kubectl describe pod` and the mesh's own log show why"))
	}
	return checks
}

// outside checks that no pod that must stay out of the mesh is in it.
func (m *Mesh) outside(d divided, proof mesh.Marks) []check.Check {
	if len(d.out) == 0 {
		return nil
	}
	var in []*corev1.Pod
	for _, p := range d.out {
		has := !none(proof) && carries(p, proof)
		for _, x := range m.k.Proxies {
			if x.In == mesh.InPod {
				there, _ := proxyOf(p, x.Container)
				has = has || there
			}
		}
		if has {
			in = append(in, p)
		}
	}
	c := check.Check{Name: "the load is outside", OK: len(in) == 0, Detail: fmt.Sprintf("%d pods, none in the mesh", len(d.out))}
	if !c.OK {
		c.Detail, c.Hint = "in the mesh: "+names(in), "its pods need the definition's marks of exemption"
	}
	return []check.Check{c}
}

func judged(name string, all int, what string, without, unready []*corev1.Pod, hint string) check.Check {
	c := check.Check{Name: name, OK: len(without)+len(unready) == 0, Detail: fmt.Sprintf("%d of %d pods have %s", all-len(without), all, what), Hint: hint}
	if len(without) > 0 {
		c.Detail += ", not: " + names(without)
	}
	if len(unready) > 0 {
		c.Detail += ", not ready in: " + names(unready)
	}
	if c.OK {
		c.Hint = ""
	}
	return c
}

// proxyOf says whether a pod has a container of that name, a native sidecar (an init container that is restarted) among
// them, and whether it is ready.
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

func none(m mesh.Marks) bool { return len(m.Labels)+len(m.Annotations) == 0 }

func carries(p *corev1.Pod, m mesh.Marks) bool {
	for _, of := range []struct{ want, has map[string]string }{{m.Labels, p.Labels}, {m.Annotations, p.Annotations}} {
		for key, value := range of.want {
			if got, ok := of.has[key]; !ok || !mesh.Match(value, got) {
				return false
			}
		}
	}
	return true
}

func marks(m mesh.Marks) string {
	var all []string
	for _, of := range []map[string]string{m.Labels, m.Annotations} {
		for key, value := range of {
			all = append(all, key+"="+value)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
