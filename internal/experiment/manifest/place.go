package manifest

import (
	"encoding/base64"
	"fmt"
	"regexp"
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
