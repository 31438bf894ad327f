package local

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// choosePorts chooses the ports of a sidecar that cannot take them from the
// kernel, once: a sidecar that is started again has the ones it had.
func (d *deployment) choosePorts(p *pod, to []string) error {
	if !d.spec.Mesh.Local.Sidecar.ChoosePorts || p.inbound.IsValid() {
		return nil
	}
	next := func() (netip.AddrPort, error) {
		port, err := d.choose(p.ip)
		return netip.AddrPortFrom(p.ip, uint16(port)), err
	}
	var err error
	if p.inbound, err = next(); err != nil {
		return err
	}
	for _, service := range to {
		if p.outbound[service], err = next(); err != nil {
			return err
		}
	}
	return nil
}

// writeSidecarConfig renders the configuration, or has it printed by the
// mesh's bootstrap after the pod was registered. A sidecar that is started again
// is registered still, and its bootstrap is what it was.
func (d *deployment) writeSidecarConfig(ctx context.Context, p *pod, again bool) error {
	local := d.spec.Mesh.Local
	name := filepath.Base(p.sidecar.ConfigPath)
	if again && local.Sidecar.Bootstrap != nil {
		if path := d.runtime.file(name); exists(path) {
			p.sidecar.ConfigPath = path
		}
		return nil
	}
	if !again {
		if err := d.register(ctx, p); err != nil {
			return err
		}
	}
	_, config, err := local.Sidecar.Render(p.sidecar)
	if err == nil && local.Sidecar.Bootstrap != nil {
		config, err = d.bootstrap(ctx, p)
	}
	if err == nil {
		p.sidecar.ConfigPath, err = d.keep(name, config)
	}
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// knowsItsCallees holds that the control plane has told the sidecar of every replica that it is to balance over.
func (p *pod) knowsItsCallees(ctx context.Context, definition mesh.Sidecar) error {
	names, err := definition.Listeners(p.sidecar)
	if err != nil || len(names.Endpoints) == 0 {
		return err
	}
	gauges, err := p.admin.gauges(ctx)
	if err != nil {
		return err
	}
	for _, out := range p.sidecar.Outbound {
		gauge := names.Endpoints[out.Service]
		if got, want := gauges[gauge], int64(len(out.Endpoints)); got != want {
			return fmt.Errorf("the sidecar knows %d of %d replicas of %s (%s)", got, want, out.Service, gauge)
		}
	}
	return nil
}

// sidecarVersions checks that each sidecar is the version that was found on this machine.
func (d *deployment) sidecarVersions(ctx context.Context) []platform.Check {
	local := d.spec.Mesh.Local
	if local == nil || local.Verify.Version == "" {
		return nil
	}
	want := d.programs[local.Sidecar.Program].version
	var checks []platform.Check
	for _, p := range d.sidecars() {
		answer, err := p.admin.get(ctx, "/server_info")
		said := ""
		if err == nil {
			said, err = field(answer, local.Verify.Version)
		}
		checks = append(checks, versionCheck("the sidecar of "+p.name, want, said, err))
	}
	return checks
}

// sidecars are the pods that have one, the load generator's first.
func (d *deployment) sidecars() []*pod {
	pods := []*pod{d.load}
	for _, s := range d.spec.Topology.Services {
		pods = append(pods, d.pods[s.Name]...)
	}
	return pods
}
