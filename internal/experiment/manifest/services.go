package manifest

import (
	"slices"
	"strings"
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
