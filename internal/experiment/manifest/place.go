package manifest

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Place puts a copy of an object into a trial's namespace. It changes the object's own namespace, the namespace of RoleBinding
// subjects, and addresses of Services in the namespace that the objects were written for. Otherwise pods of a trial would
// call the application that it was copied from.
func (s *Set) Place(o map[string]any, namespace string) map[string]any {
	placed, _ := s.moved(o, namespace).(map[string]any)
	if values := mapping(placed, "data"); Object(placed).kind() == "Secret" {
		for name, value := range values {
			if plain, err := base64.StdEncoding.DecodeString(fmt.Sprint(value)); err == nil {
				moved, _ := s.moved(string(plain), namespace).(string)
				values[name] = base64.StdEncoding.EncodeToString([]byte(moved))
			}
		}
	}
	metadata := mapping(placed, "metadata")
	if metadata == nil {
		metadata = map[string]any{}
		placed["metadata"] = metadata
	}
	metadata["namespace"] = namespace
	for _, subject := range items(placed, "subjects") {
		if _, has := subject["namespace"]; has {
			subject["namespace"] = namespace
		}
	}
	return placed
}

// moved is a deep copy of a value, with the addresses of texts replaced. Identifiers such as names have no dot,
// and do not match.
func (s *Set) moved(v any, namespace string) any {
	r := s.addressed()
	var deep func(v any) any
	deep = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			all := make(map[string]any, len(v))
			for name, inner := range v {
				all[name] = deep(inner)
			}
			return all
		case []any:
			all := make([]any, len(v))
			for i, inner := range v {
				all[i] = deep(inner)
			}
			return all
		case string:
			for range 2 { // neighbours share the character between them
				if r != nil {
					v = r.ReplaceAllString(v, "${1}${2}."+namespace+"${3}")
				}
			}
			return v
		}
		return v
	}
	return deep(v)
}

// addressed matches NAME.NAMESPACE of a Service as a part of an address, or is nil if there is none to match.
func (s *Set) addressed() *regexp.Regexp {
	var names []string
	for _, o := range s.Objects {
		if o.kind() == "Service" {
			names = append(names, regexp.QuoteMeta(o.name()))
		}
	}
	if s.Namespace == "" || len(names) == 0 {
		return nil
	}
	return regexp.MustCompile(`(^|[^A-Za-z0-9_-])(` + strings.Join(names, "|") + `)\.` + regexp.QuoteMeta(s.Namespace) + `(\.svc\b|[:/\s"',;]|$)`)
}

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
