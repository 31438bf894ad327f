package mesh

import (
	"cmp"
	"slices"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/metric"
)

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
