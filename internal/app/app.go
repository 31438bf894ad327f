// Package app describes applications under test: topologies of services that
// call one another. A topology is a YAML file in topologies/ (embedded) or
// stands inline in the experiment file; both are the same type, read by the
// same strict decoder.
package app

// Topology is a set of services and the one that receives the load.
type Topology struct {
	Name        string    `yaml:"name" json:"name"`
	Description string    `yaml:"description,omitempty" json:"description,omitempty"`
	Entry       string    `yaml:"entry,omitempty" json:"entry"` // service that receives the load; default: the first
	Services    []Service `yaml:"services" json:"services"`
}

// Service is one service of a topology. Its replicas are alike.
type Service struct {
	Name     string `yaml:"name" json:"name"`
	Replicas int    `yaml:"replicas,omitempty" json:"replicas,omitempty"` // 0: the treatment's replicas
	// ResponseSize is the body's size in bytes; nil: the treatment's response size.
	ResponseSize *int64 `yaml:"responseSize,omitempty" json:"responseSize,omitempty"`
	// Calls are made one after another before the service answers; any that fails makes the answer a 502.
	Calls []Call `yaml:"calls,omitempty" json:"calls,omitempty"`
}

// Call is one request a service makes to another for every request it receives.
type Call struct {
	Service string `yaml:"service" json:"service"`
}

// Edges counts the calls between services that one request at the entry
// causes, the entry's own included: 1 for a single service, 3 for a chain of three.
func (t Topology) Edges() int {
	var count func(name string, depth int) int
	count = func(name string, depth int) int {
		if depth > len(t.Services) {
			return 0 // cyclic; Validate refuses it
		}
		n := 1
		s, ok := t.Service(name)
		if !ok {
			return n
		}
		for _, c := range s.Calls {
			n += count(c.Service, depth+1)
		}
		return n
	}
	return count(t.Entry, 0)
}

// Service finds a service by name.
func (t Topology) Service(name string) (Service, bool) {
	for _, s := range t.Services {
		if s.Name == name {
			return s, true
		}
	}
	return Service{}, false
}
