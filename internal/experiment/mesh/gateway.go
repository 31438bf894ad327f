package mesh

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/metric"
)

// Gateway is a mesh's ingress gateway: its objects in an application's namespace, its Service, and how readiness and
// traffic are verified.
type Gateway struct {
	// None is the reason why the mesh has no gateway. The other fields are then empty.
	None string `yaml:"none,omitempty" json:"none,omitempty"`
	// CRDs that it needs in addition to the mesh's. They are installed with the mesh if the gateway is used.
	CRDs []CRDs `yaml:"crds,omitempty" json:"crds,omitempty"`
	// Protocols that its routes support.
	Protocols []string `yaml:"protocols,omitempty" json:"protocols,omitempty"`
	// Manifests are streams of YAML, templates over [EnrolContext], applied in the application's namespace after the manifests
	// of the enrolment. Their .Gateway is the backend.
	Manifests []string `yaml:"manifests,omitempty" json:"manifests,omitempty" in:"front" as:"manifests"`
	// Workloads are created by them. Scaled ones have the profile's replicas.
	Workloads []Workload `yaml:"workloads,omitempty" json:"workloads,omitempty"`
	// Conditions must hold before the load is sent.
	Conditions []Condition `yaml:"conditions,omitempty" json:"conditions,omitempty"`
	// Service of the gateway, in the application's namespace, at Port.
	Service string `yaml:"service,omitempty" json:"service,omitempty"`
	Port    int    `yaml:"port,omitempty" json:"port,omitempty"`
	// Proxy in its pods. Its request counters must grow by every answered request.
	Proxy *Proxy `yaml:"proxy,omitempty" json:"proxy,omitempty"`
}

// Condition is a condition that a controller reports in an object's status, or in the status of each of its parents, as the
// Gateway API has it for routes.
type Condition struct {
	Group   string `yaml:"group,omitempty" json:"group,omitempty"` // of the API, empty for the core's
	Version string `yaml:"version" json:"version" required:"add the version of the API, such as v1"`
	Kind    string `yaml:"kind" json:"kind" required:"add the kind of object, such as Gateway"`
	Name    string `yaml:"name" json:"name" required:"add its name"`
	Type    string `yaml:"type" json:"type" required:"add the type of condition, such as Programmed"` // Programmed, Accepted
}

// Front is the backend of a gateway, and the type of the gateway's own Service.
type Front struct {
	Service  string // of the application's entry
	Port     int    // of that Service
	Protocol string // that the entry speaks
	// ServiceType of the gateway's own Service: ClusterIP, NodePort or LoadBalancer.
	ServiceType string
}

// Way is the path of the load to the application. The zero value is from outside the mesh to the entry's Service.
type Way struct {
	// LoadInside: the load generator is in the mesh.
	LoadInside bool
	// Front is the mesh's ingress gateway, for a load outside the mesh. Nil means no gateway.
	Front *Front
	// Services of the application.
	Services []ServiceProtocol
}

// ServiceProtocol is a service and its protocol: http1, http2, grpc or tcp.
type ServiceProtocol struct{ Name, Protocol string }

// Ingress returns the mesh's ingress gateway on Kubernetes. It is nil for a mesh without a data plane. Any other mesh
// without a gateway is an error that wraps [errors.ErrUnsupported] and has the reason.
func (d Definition) Ingress() (*Gateway, error) {
	if d.Kubernetes == nil {
		return nil, d.On(OnKubernetes)
	}
	switch g := d.Kubernetes.Gateway; {
	case g == nil:
		return nil, noGateway(d.Name, "its definition has no gateway", "docs/how-to/add-a-mesh.md describes how to write one")
	case g.None != "":
		return nil, noGateway(d.Name, g.None, "remove the mesh, or send the load to the entry's Service: load: {entry: service}")
	default:
		return g, nil
	}
}

// OnlyGateway reports whether the mesh acts on nothing but a load through its ingress gateway.
func (d Definition) OnlyGateway() bool {
	k := d.Kubernetes
	return k != nil && len(k.Proxies) == 0 && k.Gateway != nil && k.Gateway.Proxy != nil
}

// Forwards returns an error if the sidecars on this machine do not forward a protocol.
func (d Definition) Forwards(protocol string) error {
	l := d.Local
	instead := "use a mesh that forwards " + protocol + ", such as envoy; `tare list meshes` prints the protocols of each"
	if protocol == "tcp" {
		instead = "use a mesh that forwards connections, such as envoy-tcp"
	}
	switch {
	case l == nil:
		return nil
	case len(l.Protocols) > 0 && !slices.Contains(l.Protocols, protocol):
		return hint.New(instead, "%s forwards only %s", d.Name, strings.Join(l.Protocols, ", "))
	case protocol == "tcp" && d.Provides.L7 && !l.TCP && len(l.Protocols) == 0:
		return hint.New(instead, "%s forwards only HTTP", d.Name)
	}
	return nil
}

// Carries returns an error if the gateway's routes do not support a protocol.
func (g Gateway) Carries(protocol string) error {
	if slices.Contains(g.Protocols, protocol) {
		return nil
	}
	return fmt.Errorf("%w: the gateway's routes support %s, not %s", errors.ErrUnsupported, strings.Join(g.Protocols, ", "), protocol)
}

// noGateway is the error about a mesh without an ingress gateway. It wraps [errors.ErrUnsupported].
func noGateway(mesh, why, advice string) error {
	return hint.New(advice, "mesh %s: %w through a gateway: %s", mesh, errors.ErrUnsupported, why)
}

// Holds reports whether an object meets the condition, and its state as text.
func (c Condition) Holds(object map[string]any) (ok bool, state string) {
	status, _ := object["status"].(map[string]any)
	places := []map[string]any{status}
	if parents, _ := status["parents"].([]any); len(parents) > 0 {
		places = nil
		for _, p := range parents {
			place, _ := p.(map[string]any)
			places = append(places, place)
		}
	}
	for _, place := range places {
		if ok, state := c.check(place); !ok {
			return false, state
		}
	}
	return true, c.Type
}

func (c Condition) check(place map[string]any) (ok bool, state string) {
	conditions, _ := place["conditions"].([]any)
	for _, one := range conditions {
		condition, _ := one.(map[string]any)
		if condition["type"] != c.Type {
			continue
		}
		if condition["status"] == "True" {
			return true, c.Type
		}
		state = fmt.Sprintf("%s is %v", c.Type, condition["status"])
		for _, more := range []string{"reason", "message"} {
			if text, _ := condition[more].(string); text != "" {
				state += ": " + text
			}
		}
		return false, state
	}
	return false, "condition " + c.Type + " is not reported"
}

func (k Kubernetes) sampleFronts() []any {
	var all []any
	for _, kind := range []string{"ClusterIP", "NodePort", "LoadBalancer"} {
		all = append(all, k.sampleEnrol(Way{Front: &Front{Service: "echo", Port: 8080, Protocol: "http1", ServiceType: kind}}))
	}
	return all
}

func (g Gateway) mistakes(report func(field, message, hint string)) {
	if g.None != "" {
		if len(g.Manifests) > 0 || g.Service != "" || g.Proxy != nil {
			report("none", "a reason why there is none, and a gateway", "remove one of the two")
		}
		return
	}
	if g.Service == "" {
		report("service", "missing", "add the name of the Service that leads to it, or none with the reason why there is no gateway")
	}
	if g.Port < 1 || g.Port > maxPort {
		report("port", fmt.Sprintf("found %d, expected 1 to %d", g.Port, maxPort), "")
	}
	if len(g.Protocols) == 0 {
		report("protocols", "missing: the routes support no protocol", "add protocols: [http1]")
	}
	if len(g.Manifests) == 0 {
		report("manifests", "missing: nothing would make it", "add the objects that do")
	}
	switch {
	case g.Proxy == nil:
		report("proxy", "missing: nothing would prove that requests come through it", "add its role, container, podLabel and counters")
	case g.Proxy.In != InNamespace:
		report("proxy.in", fmt.Sprintf("found %q, expected %s", g.Proxy.In, InNamespace), "a gateway belongs to the application's namespace, and is deleted with it")
	case !g.Proxy.proves(ProvesL7):
		report("proxy.counters", "no counter proves "+ProvesL7+": requests through the gateway cannot be verified", "add a counter of requests")
	}
}

// AtGateway reports whether the data plane on this machine is one process between the load and the entry.
func (d Definition) AtGateway() bool { return d.Local != nil && d.Local.Place == RoleGateway }

// Gateway returns the definition with its proxy as a gateway, on this machine alone. config replaces the template of its
// configuration: then its listener and counters are the user's, so that nothing is read from them. The error has a hint.
func (d Definition) Gateway(config string) (Definition, error) {
	switch {
	case d.Local == nil:
		return d, hint.New("meshes with a proxy on this machine: tare list meshes", "mesh %s has no proxy on this machine", cmp.Or(d.From, d.Name))
	case d.Provides.MTLS:
		return d, hint.New("write options: {mtls: false}, or another mesh: envoy-plaintext is Envoy without TLS", "mesh %s encrypts between two sidecars, and a gateway is one proxy", cmp.Or(d.From, d.Name))
	case slices.ContainsFunc(d.Local.Control, func(c Control) bool { return c.Option == "" }):
		return d, hint.New("name a mesh without a control plane, such as nginx", "the control plane of mesh %s configures sidecars", cmp.Or(d.From, d.Name))
	}
	local := *d.Local
	local.Place, local.Control, local.Background = RoleGateway, nil, nil
	if config != "" {
		text, err := commandTemplate(config)
		if err != nil {
			return d, err
		}
		local.Sidecar.Config, local.Sidecar.Counters, local.Sidecar.Ready, local.Sidecar.ChoosePorts = text, nil, ReadyTCP, true
		local.Verify, local.Changes, local.Sidecar.Reload = Verify{}, nil, nil
		if !local.Sidecar.PerListener() {
			return d, hint.New("write ${listen} where it listens, and ${upstream} where it forwards to, each also with .host and .port", "the configuration has no ${listen}")
		}
	}
	d.Tasks = []Rule{{Plane: metric.Data, Role: RoleGateway, Pod: RoleGateway}}
	d.Local, d.Kubernetes = &local, nil
	return d, nil
}
