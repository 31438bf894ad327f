package mesh

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Gateway is a mesh's ingress gateway: how one is made in an application's namespace, what leads to it, and how to tell
// that it stands and that requests go through it.
type Gateway struct {
	// None says why the mesh has none; nothing else is given then.
	None string `yaml:"none,omitempty" json:"none,omitempty"`
	// CRDs that it needs beside the mesh's own. They come with the mesh where its gateway is asked for.
	CRDs []CRDs `yaml:"crds,omitempty" json:"crds,omitempty"`
	// Protocols of an application that its routes carry.
	Protocols []string `yaml:"protocols,omitempty" json:"protocols,omitempty"`
	// Manifests are streams of YAML, templates over [EnrolContext], put into the application's namespace after those of
	// the enrolment. Their .Gateway says what it leads to.
	Manifests []string `yaml:"manifests,omitempty" json:"manifests,omitempty"`
	// Workloads come of them; scaled ones are brought to the profile's replicas.
	Workloads []Workload `yaml:"workloads,omitempty" json:"workloads,omitempty"`
	// Conditions must hold before the load is sent.
	Conditions []Condition `yaml:"conditions,omitempty" json:"conditions,omitempty"`
	// Service is the one that leads to it, in the application's namespace, at Port.
	Service string `yaml:"service,omitempty" json:"service,omitempty"`
	Port    int    `yaml:"port,omitempty" json:"port,omitempty"`
	// Proxy is what runs in its pods. Its counters of requests must move by every request that is answered.
	Proxy *Proxy `yaml:"proxy,omitempty" json:"proxy,omitempty"`
}

// Condition is one that a controller reports in an object's status, or in the status of each of its parents, as the
// Gateway API has it for routes.
type Condition struct {
	Group   string `yaml:"group,omitempty" json:"group,omitempty"` // of the API; empty: the core's
	Version string `yaml:"version" json:"version"`
	Kind    string `yaml:"kind" json:"kind"`
	Name    string `yaml:"name" json:"name"`
	Type    string `yaml:"type" json:"type"` // Programmed, Accepted
}

// Front is what a gateway is to lead to, and how it is to be reached itself.
type Front struct {
	Service  string // of the application's entry
	Port     int    // of that Service
	Protocol string // that the entry speaks
	// ServiceType of the gateway's own Service: ClusterIP, NodePort or LoadBalancer.
	ServiceType string
}

// Way is how the load comes to the application. The zero value is from outside of the mesh, to the entry's Service.
type Way struct {
	// LoadInside says that the load generator is in the mesh as well.
	LoadInside bool
	// Front is the way through the mesh's ingress gateway, the load outside of the mesh; nil: not that way.
	Front *Front
}

// Ingress is the mesh's ingress gateway on Kubernetes. A mesh that is nothing has none and needs none: nil. The error of
// any other without one wraps [errors.ErrUnsupported] and says why.
func (d Definition) Ingress() (*Gateway, error) {
	if d.Kubernetes == nil {
		return nil, d.On(OnKubernetes)
	}
	switch g := d.Kubernetes.Gateway; {
	case g == nil:
		return nil, &NoGateway{d.Name, "its definition has no gateway", "docs/how-to/add-a-mesh.md says how to write one"}
	case g.None != "":
		return nil, &NoGateway{d.Name, g.None, "leave the mesh out, or send the load to the entry's Service: load: {entry: service}"}
	default:
		return g, nil
	}
}

// Carries says whether the gateway's routes carry what an entry speaks.
func (g Gateway) Carries(protocol string) error {
	if slices.Contains(g.Protocols, protocol) {
		return nil
	}
	return fmt.Errorf("%w: the gateway's routes carry %s, and not %s", errors.ErrUnsupported, strings.Join(g.Protocols, ", "), protocol)
}

// NoGateway says that a mesh has no ingress gateway, and why.
type NoGateway struct{ Mesh, Why, hint string }

func (e *NoGateway) Error() string {
	return fmt.Sprintf("mesh %s: %v through a gateway: %s", e.Mesh, errors.ErrUnsupported, e.Why)
}

func (e *NoGateway) Unwrap() error { return errors.ErrUnsupported }

// Hint says what the user can do.
func (e *NoGateway) Hint() string { return e.hint }

// Holds says whether the condition is true of an object, and else what is said of it.
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
		if ok, state := c.in(place); !ok {
			return false, state
		}
	}
	return true, c.Type
}

// in looks for it in one list of conditions.
func (c Condition) in(place map[string]any) (ok bool, state string) {
	conditions, _ := place["conditions"].([]any)
	for _, one := range conditions {
		said, _ := one.(map[string]any)
		if said["type"] != c.Type {
			continue
		}
		if said["status"] == "True" {
			return true, c.Type
		}
		state = fmt.Sprintf("%s is %v", c.Type, said["status"])
		for _, more := range []string{"reason", "message"} {
			if text, _ := said[more].(string); text != "" {
				state += ": " + text
			}
		}
		return false, state
	}
	return false, "nobody says whether it is " + c.Type
}

// gateway checks how the ingress gateway is made.
func (v *validation) gateway(k Kubernetes, d Definition) {
	g := k.Gateway
	const at = "kubernetes.gateway"
	if g == nil {
		return
	}
	if g.None != "" {
		if v.doc.Has(at+".manifests") || v.doc.Has(at+".service") || v.doc.Has(at+".proxy") {
			v.report(at+".none", "a reason why there is none, and a gateway", "remove one of the two")
		}
		return
	}
	v.crdsAt(at+".crds", g.CRDs)
	v.given(at+".service", g.Service, "add the name of the Service that leads to it, or none with the reason why there is no gateway")
	if g.Port < 1 || g.Port > maxPort {
		v.report(at+".port", fmt.Sprintf("found %d, expected 1 to %d", g.Port, maxPort), "")
	}
	if len(g.Protocols) == 0 {
		v.report(at+".protocols", "missing: nothing says what its routes carry", "add protocols: [http1]")
	}
	if len(g.Manifests) == 0 {
		v.report(at+".manifests", "missing: nothing would make it", "add the objects that do")
	}
	samples := k.sampleFronts()
	for i, text := range g.Manifests {
		v.manifest(fmt.Sprintf("%s.manifests[%d]", at, i), text, samples)
	}
	for i, w := range g.Workloads {
		v.workload(fmt.Sprintf("%s.workloads[%d]", at, i), w)
	}
	for i, c := range g.Conditions {
		here := fmt.Sprintf("%s.conditions[%d]", at, i)
		v.given(here+".version", c.Version, "add the version of the API, such as v1")
		v.given(here+".kind", c.Kind, "add the kind of object, such as Gateway")
		v.given(here+".name", c.Name, "add its name")
		v.given(here+".type", c.Type, "add the type of condition, such as Programmed")
	}
	v.frontProxy(at+".proxy", g.Proxy, d)
}

// frontProxy checks that what runs in the gateway can be found and proves that requests come through it.
func (v *validation) frontProxy(at string, p *Proxy, d Definition) {
	if p == nil {
		v.report(at, "missing: nothing would prove that requests come through it", "add its role, container, podLabel and counters")
		return
	}
	proves := v.proxy(at, *p, d)
	if p.In != InNamespace {
		v.report(at+".in", fmt.Sprintf("found %q, expected %s", p.In, InNamespace), "a gateway stands in the application's namespace, and goes with it")
	}
	if !proves[ProvesL7] {
		v.report(at+".counters", "no counter proves "+ProvesL7+": nothing would tell whether each request came through the gateway", "add a counter of requests")
	}
}

func (k Kubernetes) sampleFronts() []any {
	var all []any
	for _, kind := range []string{"ClusterIP", "NodePort", "LoadBalancer"} {
		all = append(all, k.sampleEnrol(Way{Front: &Front{Service: "echo", Port: 8080, Protocol: "http1", ServiceType: kind}}))
	}
	return all
}
