package manifest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
)

// Call is a call between two Services that the configuration of pods shows: From's configuration contains To's address.
// The addresses of caches and databases are among them, and calls by other means are not.
type Call struct{ From, To string }

// findCalls searches the arguments and the environment of pods, and the ConfigMaps that they name, for addresses of
// Services. Values of Secrets are not searched.
func (s *Set) findCalls() {
	for _, o := range s.Objects {
		pod := podTemplate(o)
		from := s.serviceOf(pod)
		if from == "" {
			continue
		}
		texts := s.configuration(pod)
		for _, to := range s.Objects {
			if to.kind() != "Service" || to.group() != "" || to.name() == from {
				continue
			}
			c := Call{from, to.name()}
			if !slices.Contains(s.Calls, c) && s.names(texts, to) {
				s.Calls = append(s.Calls, c)
			}
		}
	}
	slices.SortFunc(s.Calls, func(a, b Call) int { return strings.Compare(a.From+" "+a.To, b.From+" "+b.To) })
}

// serviceOf is the first Service, by name, whose selector matches the labels of a pod template, or "" if there is none.
func (s *Set) serviceOf(pod map[string]any) string {
	if pod == nil {
		return ""
	}
	labels := mapping(pod, "metadata", "labels")
	for _, service := range s.Services {
		i := slices.IndexFunc(s.Objects, func(o Object) bool { return o.kind() == "Service" && o.name() == service.Name })
		selector, matches := mapping(s.Objects[i], "spec", "selector"), true
		for name, value := range selector {
			matches = matches && labels[name] == value
		}
		if matches {
			return service.Name
		}
	}
	return ""
}

func (s *Set) configuration(pod map[string]any) (texts []string) {
	for _, c := range containers(pod) {
		for _, e := range items(c, "env") {
			texts = append(texts, text(e, "value"))
		}
		for _, field := range []string{"command", "args"} {
			list, _ := c[field].([]any)
			for _, v := range list {
				word, _ := v.(string)
				texts = append(texts, word)
			}
		}
	}
	for _, r := range referencesOf(pod) {
		i := slices.IndexFunc(s.Objects, func(o Object) bool { return r.kind == "ConfigMap" && o.kind() == "ConfigMap" && o.name() == r.name })
		if i < 0 {
			continue
		}
		for _, v := range mapping(s.Objects[i], "data") {
			value, _ := v.(string)
			texts = append(texts, value)
		}
	}
	return texts
}

// names reports whether a text has an address of a Service: a URL, a qualified name, or its name with one of its ports.
func (s *Set) names(texts []string, service Object) bool {
	name := regexp.QuoteMeta(service.name())
	ports := printable.Texts(items(service, "spec", "ports"), func(p map[string]any) string { return strconv.Itoa(number(p["port"])) })
	const before, after = `(^|[^A-Za-z0-9_.-])`, `([^A-Za-z0-9_-]|$)`
	qualified := name + `\.[a-z0-9-]+\.svc` + after // NAME.NAMESPACE.svc
	if s.Namespace != "" {
		qualified = name + `\.` + regexp.QuoteMeta(s.Namespace) + after
	}
	patterns := []string{
		`://([^@/\s"']*@)?` + name + `([:/\s"';,]|$)`,
		before + qualified,
		before + name + `:(` + strings.Join(ports, "|") + `)([^0-9]|$)`,
	}
	if len(ports) == 0 {
		patterns = patterns[:2]
	}
	for _, p := range patterns {
		r := regexp.MustCompile(p)
		if slices.ContainsFunc(texts, r.MatchString) {
			return true
		}
	}
	return false
}
