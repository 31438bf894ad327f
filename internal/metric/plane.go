package metric

import "slices"

// Plane is the owner of a task's CPU and memory. Every task has exactly one.
type Plane string

const (
	App          Plane = "app"          // the services under test
	Data         Plane = "data"         // sidecars, node proxies, waypoints, gateways
	Control      Plane = "control"      // the mesh's control plane
	Load         Plane = "load"         // the load generator itself, without its proxy
	Platform     Plane = "platform"     // shared pods: kube-system
	Node         Plane = "node"         // nodes outside their pods: kubelet, container runtime, kernel
	Harness      Plane = "harness"      // tare itself
	Foreign      Plane = "foreign"      // workloads of others on the cluster
	Unattributed Plane = "unattributed" // matched no attribution rule, reported and never dropped
)

// Planes lists every plane in the order in which reports print them.
func Planes() []Plane {
	return []Plane{App, Data, Control, Platform, Node, Foreign, Unattributed, Load, Harness}
}

// Part is a plane, or a sum of planes: the part after the slash of a metric's name.
type Part struct {
	Name   string
	Planes []Plane // that are added up
	Doc    string
	Title  string // in words, empty for the name
	// Boundary names the part as an answer to "what does the mesh cost?". Empty
	// means that it is none. Boundaries may rank two meshes differently, so each is
	// a headline.
	Boundary string
}

// foreign is the part of other workloads. Only CPU and memory have it: other workloads answer no request of the load.
const foreign = string(Foreign)

var parts = []Part{
	{"app", []Plane{App}, "the services under test", "application", ""},
	{"data", []Plane{Data}, "the data plane: sidecars, node proxies, waypoints", "data plane", "data plane"},
	{"control", []Plane{Control}, "the mesh's control plane", "control plane", ""},
	{"platform", []Plane{Platform}, "shared pods: kube-system", "", ""},
	{"node", []Plane{Node}, "nodes outside their pods: kubelet, container runtime, kernel", "node outside pods", ""},
	{foreign, []Plane{Foreign}, "workloads of others on the cluster, in no sum", "other workloads", ""},
	{"unattributed", []Plane{Unattributed}, "tasks that matched no attribution rule", "", ""},
	{"load", []Plane{Load}, "the load generator", "load generator", ""},
	{"harness", []Plane{Harness}, "tare itself", "tare itself", ""},
	{"mesh", []Plane{Data, Control}, "data plane and control plane", "", "mesh"},
	{"business", []Plane{App, Data, Control, Load}, "application, mesh and load generator, without the platform", "app+mesh+load", "mesh + app + load"},
	{"total", []Plane{App, Data, Control, Platform, Unattributed}, "pods that the application's owner pays for", "", ""},
	{"cluster", []Plane{App, Data, Control, Platform, Node, Unattributed, Load}, "everything but the harness and the workloads of others", "", "whole cluster"},
}

// Parts lists the planes and their sums. The slice is shared, so do not change it.
func Parts() []Part { return parts }

// Boundaries lists the parts that are boundaries, the narrowest first.
func Boundaries() []Part {
	return slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return p.Boundary == "" })
}

// TotalParts lists the planes that add up to the total, each as a part.
func TotalParts() []Part {
	var planes []Plane
	for _, p := range parts {
		if p.Name == "total" {
			planes = p.Planes
		}
	}
	return slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return len(p.Planes) != 1 || !slices.Contains(planes, p.Planes[0]) })
}

// Includes reports whether a part is of a plane, perhaps among others.
func Includes(part string, plane Plane) bool {
	i := slices.IndexFunc(parts, func(p Part) bool { return p.Name == part })
	return i >= 0 && slices.Contains(parts[i].Planes, plane)
}

// InWords is the part's title.
func (p Part) InWords() string { return partTitle(p.Name) }

// partTitle is a part in words. Parts of times are quantiles and stages.
func partTitle(name string) string {
	if name == "calc" {
		return "calculation"
	}
	for _, p := range parts {
		if p.Name == name && p.Title != "" {
			return p.Title
		}
	}
	return name
}
