package experiment

import (
	"cmp"
	"fmt"
)

// Way describes the path of the load for people, or is empty for the default path.
func (e *Experiment) Way() string {
	if !e.Gateway() {
		return ""
	}
	service := "ClusterIP"
	if e.Outside() {
		service = cmp.Or(map[string]string{"loadBalancer": "LoadBalancer"}[e.Platform.Expose], "NodePort")
	}
	return fmt.Sprintf("Load through each mesh's ingress gateway, from outside of the mesh; without a mesh, to the entry's Service. Either is a Service of type %s", service)
}

// Entries of the load.
const (
	EntryService = "service"
	EntryGateway = "gateway"
)

// entries lists the entries of the load, the default first.
var entries = []string{EntryService, EntryGateway}

// Gateway reports whether the load enters through the ingress gateway of each mesh. Without a mesh it enters at the
// entry's Service.
func (e *Experiment) Gateway() bool { return e.Load.Entry == EntryGateway }
