package experiment

import (
	"cmp"
	"fmt"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// What the load is sent to.
const (
	EntryService = "service"
	EntryGateway = "gateway"
)

// entries are the ways to the application, the default first.
var entries = []string{EntryService, EntryGateway}

// Gateway says that the load goes through the ingress gateway of each mesh. Without a mesh it goes to the entry's Service.
func (e *Experiment) Gateway() bool { return e.Load.Entry == EntryGateway }

// Way says in words which way the load takes where it is not the usual one; else it is empty.
func (e *Experiment) Way() string {
	if !e.Gateway() {
		return ""
	}
	service := "ClusterIP"
	if e.Outside() {
		service = map[string]string{"loadBalancer": "LoadBalancer"}[e.Platform.Expose]
		if service == "" {
			service = "NodePort"
		}
	}
	return fmt.Sprintf("Load through each mesh's ingress gateway, from outside of the mesh; without a mesh, to the entry's Service. Either is a Service of type %s", service)
}

// gateway checks what the load is sent to, and that each mesh has it.
func (v validation) gateway() {
	const field = "load.entry"
	if !v.doc.Has(field) {
		return
	}
	if v.e.Platform.Kind == mesh.OnLocal {
		v.report(field, "leave it out", "it is of clusters, and the platform is local")
		return
	}
	if v.oneOf(field, "entry of the load", v.e.Load.Entry, entries); !v.e.Gateway() {
		return
	}
	if v.e.Platform.Expose == "portForward" {
		v.report("platform.expose", "write nodePort, or loadBalancer where the cluster has one", "a forwarded port ends in a pod of the entry, past every gateway")
	}
	through := 0
	each(v, "factors.mesh", v.e.Factors.Mesh, func(path, name string) {
		d, ok := v.definition(name)
		if !ok || d.On(mesh.OnKubernetes) != nil {
			return // said elsewhere
		}
		g, err := d.Ingress()
		if err != nil {
			v.report(path, hintOf(err), "%v", err)
		}
		if g != nil {
			v.carried(*g, name)
		}
		if g != nil || err != nil {
			through++
		}
	})
	if through == 0 && v.known.Definition != nil && v.doc.Sound("factors.mesh") {
		v.report(field, "name a mesh with a gateway in factors.mesh, or leave it out", "no mesh is weighed: there is no gateway")
	}
}

// carried checks that the gateway's routes carry what the entry speaks: by its own protocol, or by each of the factor's.
func (v validation) carried(g mesh.Gateway, name string) {
	path, protocols := "factors.protocol", v.e.Factors.Protocol
	if len(protocols) == 0 {
		protocols = []string{DefaultLevels().Protocol}
	}
	if own := v.entryProtocol(); own != "" {
		path, protocols = "application", []string{own}
	}
	for i, p := range protocols {
		at := path
		if at == "factors.protocol" {
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		if err := g.Carries(p); err != nil {
			v.report(at, "write load: {entry: service}", "mesh %s: %v", name, err)
		}
	}
}

// entryProtocol is what the entry speaks whatever the treatment; empty: what the treatment says.
func (v validation) entryProtocol() (protocol string) {
	all, err := v.e.Topologies()
	if err != nil {
		return "" // that is reported
	}
	for _, t := range all {
		entry, ok := t.Service(t.Entry)
		if !ok && len(t.Services) > 0 {
			entry = t.Services[0]
		}
		protocol = cmp.Or(protocol, entry.Protocol)
	}
	return protocol
}
