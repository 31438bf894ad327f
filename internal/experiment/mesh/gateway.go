package mesh

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
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
		return nil, noGateway(d.Name, "its definition has no gateway", "docs/how-to/add-a-mesh.md describes how to write one")
	case g.None != "":
		return nil, noGateway(d.Name, g.None, "remove the mesh, or send the load to the entry's Service: load: {entry: service}")
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

// noGateway is the error about a mesh without an ingress gateway. It wraps [errors.ErrUnsupported].
func noGateway(mesh, why, advice string) error {
	return hint.New(advice, "mesh %s: %w through a gateway: %s", mesh, errors.ErrUnsupported, why)
}

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

func (k Kubernetes) sampleFronts() []any {
	var all []any
	for _, kind := range []string{"ClusterIP", "NodePort", "LoadBalancer"} {
		all = append(all, k.sampleEnrol(Way{Front: &Front{Service: "echo", Port: 8080, Protocol: "http1", ServiceType: kind}}))
	}
	return all
}
