package manifest

import (
	"fmt"
	"slices"
)

// disturbing are kinds of objects that stay in force while an application is measured in place.
var disturbing = []struct{ group, kind, text, hint string }{
	{"autoscaling", "HorizontalPodAutoscaler", "it can change the number of pods within a measure phase", "set its minReplicas and maxReplicas to one number while measuring"},
	{"networking.k8s.io", "NetworkPolicy", "it can keep out the load and the mesh", "a trial whose requests are not answered fails; measure a copy (without inPlace)"},
	{"", "ResourceQuota", "it counts the pods of the load, the proxies, and pods that replace others", "a trial whose pods are refused fails; measure a copy (without inPlace)"},
	{"", "LimitRange", "it applies to the pods of the load and to proxies too", ""},
	{"batch", "CronJob", "its pods can start within a measure phase", "`kubectl patch` sets spec.suspend"},
}

// InPlace replaces the notes by the notes for an application that is measured where it runs.
func (s *Set) InPlace() {
	s.Notes = nil
	for _, o := range s.Objects {
		pod := podTemplate(o)
		if pod == nil || o.kind() == "Job" {
			continue
		}
		s.host(o, pod)
		replicas := valueAt(o, "spec", "replicas")
		switch {
		case slices.Contains([]string{"Pod", "ReplicaSet"}, o.kind()):
			s.Notes = append(s.Notes, Note{About: o.String(), Text: "its pods cannot be restarted: nothing replaces them", Hint: "measure a copy, without inPlace", Fatal: true})
		case o.kind() == "StatefulSet", o.kind() == "DaemonSet", text(o, "spec", "strategy", "type") == "Recreate":
			s.note(o, "measure when nobody needs it", "restarted twice in each trial, and requests fail while a pod is replaced")
		case replicas == nil || number(replicas) == 1:
			s.note(o, "", "restarted twice in each trial, with one pod")
		default:
			s.note(o, "", "restarted twice in each trial, with %d pods", number(replicas))
		}
	}
	for _, o := range slices.Concat(s.Left, s.Objects) {
		if sendsLoad(o) {
			s.note(o, "`kubectl scale` it to 0 while measuring", "it sends requests of its own, which the load does not count")
		}
		for _, d := range disturbing {
			if d.kind == o.kind() && d.group == o.group() {
				s.Notes = append(s.Notes, Note{About: fmt.Sprint(o), Text: d.text, Hint: d.hint})
			}
		}
	}
}
