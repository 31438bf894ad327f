package manifest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
)

// Protocols, as experiments name them.
const (
	http1 = "http1"
	http2 = "http2"
	grpc  = "grpc"
	tcp   = "tcp"
)

// byName are protocols by a port's appProtocol, or the first word of its name, as meshes read it.
var byName = map[string]string{
	"http": http1, "http1": http1, "web": http1, "www": http1, "ws": http1, "kubernetes.io/ws": http1,
	"http2": http2, "h2c": http2, "kubernetes.io/h2c": http2,
	"grpc": grpc,
	"tcp":  tcp, "tls": tcp, "https": tcp, "redis": tcp, "mysql": tcp, "mongo": tcp, "postgres": tcp, "postgresql": tcp, "amqp": tcp, "memcached": tcp, "kafka": tcp,
}

// preferred orders the ports of a Service: requests before plain connections.
var preferred = []string{http1, http2, grpc, "", tcp}

// findServices lists the Services with pods and a TCP port.
func (s *Set) findServices() {
	for _, o := range s.Objects {
		if o.kind() != "Service" || o.group() != "" || len(mapping(o, "spec", "selector")) == 0 {
			continue
		}
		best := Service{Name: o.name()}
		for _, port := range items(o, "spec", "ports") {
			if p := text(port, "protocol"); p != "" && p != "TCP" {
				continue
			}
			protocol := protocolOf(port)
			if best.Port == 0 || slices.Index(preferred, protocol) < slices.Index(preferred, best.Protocol) {
				best.Port, best.Protocol = number(port["port"]), protocol
			}
		}
		if best.Port != 0 {
			s.Services = append(s.Services, best)
		}
	}
	slices.SortFunc(s.Services, func(a, b Service) int { return strings.Compare(a.Name, b.Name) })
}

// byPort are protocols of customary ports.
var byPort = map[int]string{
	80: http1, 3000: http1, 5000: http1, 8000: http1, 8080: http1, 8081: http1, 8888: http1, 9090: http1,
	50051: grpc,
	443:   tcp, 8443: tcp, 1433: tcp, 2181: tcp, 3306: tcp, 5432: tcp, 5672: tcp, 6379: tcp, 9092: tcp, 11211: tcp, 27017: tcp,
}

// protocolOf is the protocol of a Service's port, or "" if unknown.
func protocolOf(port map[string]any) string {
	if p, ok := byName[strings.ToLower(text(port, "appProtocol"))]; ok {
		return p
	}
	word, _, _ := strings.Cut(strings.ToLower(text(port, "name")), "-")
	if p, ok := byName[word]; ok {
		return p
	}
	return byPort[number(port["port"])]
}

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
	ports := lists.Map(items(service, "spec", "ports"), func(p map[string]any) string { return strconv.Itoa(number(p["port"])) })
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
