package mesh

import (
	"strings"

	"github.com/tare-mesh/tare/internal/metric"
)

// localRules hold for every mesh on the local platform, after the mesh's own.
// Local tasks have no namespace, so that they never catch a container of a
// cluster that happens to be called "app".
var localRules = []Rule{
	{Plane: metric.App, Container: "app"},
	{Plane: metric.Data, Role: "sidecar", Container: "adder"}, // the function's own sidecar, in the sidecar study
	{Plane: metric.Load, Container: "load"},
	{Plane: metric.Harness, Container: "tare"},
}

// Attribute returns t with the plane, role and component of the first rule that
// matches it; [metric.Unattributed] when none does.
func (d Definition) Attribute(t Task) Task {
	t.Plane, t.Role, t.Component = metric.Unattributed, "", ""
	if apply(d.Tasks, &t) || t.Namespace != "" {
		return t
	}
	apply(localRules, &t)
	return t
}

func apply(rules []Rule, t *Task) bool {
	for _, r := range rules {
		if r.matches(*t) {
			t.Plane, t.Role, t.Component = r.Plane, r.Role, r.Component
			return true
		}
	}
	return false
}

func (r Rule) matches(t Task) bool {
	for label, want := range r.PodLabel {
		got, has := t.Labels[label]
		if !has || !match(want, got) {
			return false
		}
	}
	return (r.Namespace == "" || match(r.Namespace, t.Namespace)) &&
		(r.Pod == "" || match(r.Pod, t.Pod)) &&
		(r.Service == "" || match(r.Service, t.Service)) &&
		(r.Container == "" || match(r.Container, t.Container))
}

// match compares for equality, or for a prefix where want ends in "*".
func match(want, got string) bool {
	if prefix, is := strings.CutSuffix(want, "*"); is {
		return strings.HasPrefix(got, prefix)
	}
	return want == got
}
