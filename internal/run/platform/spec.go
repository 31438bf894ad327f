package platform

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/rpc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Replicas is the number of replicas of a service, by default the treatment's.
func (s Spec) Replicas(of app.Service) int {
	return max(1, cmp.Or(of.Replicas, s.Treatment.Levels.Replicas))
}

// Attribute returns t with its plane, role and component.
func (s Spec) Attribute(t mesh.Task) mesh.Task {
	return s.Mesh.Attribute(t, s.Topology.BesideNames()...)
}

// Check refuses a specification that no platform can run: without services, or with a service of the load generator's name.
func (s Spec) Check() error {
	if len(s.Topology.Services) == 0 {
		return errors.New("the topology has no services")
	}
	for _, of := range s.Topology.Services {
		if of.Name == LoadService {
			return hint.New("rename the service", "the service name %q is reserved for the load generator", LoadService)
		}
	}
	return nil
}

// Instance is the configuration of the program that plays a service. at returns the URLs of
// another service for it.
func (s Spec) Instance(of app.Service, at func(service string) []string) app.Instance {
	i := app.Instance{Name: of.Name, Protocol: s.Protocol(of), Behavior: of.Behavior}
	if i.ResponseSize.IsZero() {
		i.ResponseSize = app.FixedSize(int64(s.Treatment.Levels.ResponseSize))
	}
	for _, c := range of.Calls {
		up := app.Upstream{Service: c.Service, CallOptions: c.CallOptions}
		if c.Service != "" {
			callee, _ := s.Topology.Service(c.Service)
			up.URLs, up.Protocol = at(c.Service), cmp.Or(c.Protocol, s.Protocol(callee))
		}
		i.Calls = append(i.Calls, up)
	}
	return i
}

// Targets are the URLs that the load is sent to: the entry's roots with the treatment's routes, or
// with the method of gRPC. A gRPC program of others has methods as routes, by default its health check.
func (s Spec) Targets(roots []string) []string {
	grpc := s.Protocol(s.Entry()) == app.GRPC
	if grpc && !s.Entry().IsOwn() && !s.Topology.Foreign() {
		return each(roots, []string{app.GRPCMethod})
	}
	if grpc && s.Treatment.Levels.Route == "" {
		return each(roots, []string{rpc.HealthCheck})
	}
	if routes := s.Treatment.Levels.Route; routes != "" {
		return each(roots, strings.Split(routes, ","))
	}
	return slices.Clone(roots)
}

// LoadService is the name of the load generator's pod and of its service.
const LoadService = "load"

// Entry is the service that receives the load.
func (s Spec) Entry() app.Service {
	entry, _ := s.Topology.Service(s.Topology.EntryName())
	return entry
}

// Protocol is the protocol of a service, by default the treatment's.
func (s Spec) Protocol(of app.Service) string {
	return s.Topology.ProtocolOf(of, s.Treatment.Levels.Protocol)
}

func each(roots, paths []string) (all []string) {
	for _, root := range roots {
		for _, path := range paths {
			all = append(all, strings.TrimSuffix(root, "/")+path)
		}
	}
	return all
}
