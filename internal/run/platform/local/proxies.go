package local

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// proxies is the data plane: the sidecar of each pod.
type proxies struct {
	layout    *layout
	workspace *workspace
	processes *processes
	control   *controlPlane
	program   string     // path of the sidecar's program
	authority *authority // nil without mTLS, or if the mesh has its own
}

// prepare makes the certificate authority, if the mesh needs tare's.
func (px *proxies) prepare() error {
	definition := px.layout.spec.Mesh
	if !definition.Provides.MTLS || definition.Local.Certificates != nil {
		return nil
	}
	var err error
	if px.authority, err = newAuthority(); err != nil {
		return err
	}
	if err := os.WriteFile(px.workspace.runtime.file("ca.crt"), px.authority.pem, 0o600); err != nil {
		return fmt.Errorf("write the CA's certificate: %w", err)
	}
	return nil
}

// start starts a sidecar and waits until it listens and has its callees.
func (px *proxies) start(ctx context.Context, p *pod, in *mesh.Inbound, to []string) error {
	id := p.name + "/sidecar"
	cmd, err := px.configure(ctx, p, in, to)
	if err != nil {
		return err
	}
	process, err := px.processes.runIn(ctx, p, "sidecar", cmd, cmd, func(ctx context.Context) error { return px.start(ctx, p, in, to) })
	if err != nil {
		return err
	}
	p.admin = newAdmin(p.sidecar.AdminPath, px.layout.spec.Mesh.Local.Verify.Statistics)
	return awaitReady(ctx, id, process, func(ctx context.Context) error {
		ports, err := p.admin.ports(ctx)
		if err != nil {
			return err
		}
		if err := p.setPorts(px.layout.spec.Mesh.Local.Sidecar, ports); err != nil {
			return err
		}
		return p.hasEndpoints(ctx, px.layout.spec.Mesh.Local.Sidecar)
	})
}

// configure renders the configuration into the provenance, issues the certificate, and returns the
// command.
func (px *proxies) configure(ctx context.Context, p *pod, in *mesh.Inbound, to []string) (proc.Command, error) {
	fail := func(err error) (proc.Command, error) { return proc.Command{}, fmt.Errorf("start %s: %w", p.name, err) }
	again := p.admin != nil
	if err := px.choosePorts(p, to); err != nil {
		return fail(err)
	}
	if in != nil {
		in.Port = int(p.inbound.Port()) // of a restarted sidecar, or chosen, else 0
	}
	identity, err := px.issuer().identity(p.service)
	if err != nil {
		return fail(err)
	}
	p.sidecar = mesh.SidecarContext{
		Pod: p.name, Service: p.service, Identity: identity, IP: p.ip.String(),
		Concurrency: px.layout.spec.Mesh.Local.Sidecar.Concurrency,
		ConfigPath:  filepath.Join(px.workspace.provenance, p.name+"-sidecar.yaml"),
		AdminPath:   px.workspace.runtime.file(strconv.Itoa(px.layout.addresses.number()) + ".sock"),
		Inbound:     in,
		Options:     px.layout.spec.Mesh.Local.Sidecar.Chosen(),
		Port:        int(p.inbound.Port()),
		Control:     px.control.contexts(),
		Secrets:     px.workspace.secrets.get,
	}
	for _, service := range to {
		identity, err := px.issuer().identity(service)
		if err != nil {
			return fail(err)
		}
		out := mesh.Outbound{Service: service, Identity: identity, Protocol: px.layout.pods[service][0].protocol, Port: int(p.outbound[service].Port())}
		for _, callee := range px.layout.pods[service] {
			out.Endpoints = append(out.Endpoints, mesh.Endpoint{IP: callee.inbound.Addr().String(), Port: int(callee.inbound.Port())})
		}
		p.sidecar.Outbound = append(p.sidecar.Outbound, out)
	}
	if err := px.certify(p); err != nil {
		return fail(err)
	}
	if err := px.writeConfig(ctx, p, again); err != nil {
		return fail(err)
	}
	args, _, err := px.layout.spec.Mesh.Local.Sidecar.Render(p.sidecar)
	if err != nil {
		return fail(err)
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(px.layout.spec.Mesh.Local.Sidecar.Environment)) {
		env = append(env, name+"="+px.layout.spec.Mesh.Local.Sidecar.Environment[name])
	}
	return proc.Command{Path: px.program, Args: args, Env: env, Log: filepath.Join(px.workspace.provenance, p.name+"-sidecar.log")}, nil
}

func (px *proxies) certify(p *pod) error {
	if px.authority == nil {
		return nil
	}
	c, err := px.authority.issue(p.sidecar.Identity)
	if err != nil {
		return err
	}
	s := &p.sidecar
	s.CertPath, s.KeyPath, s.CAPath = px.workspace.runtime.file(p.name+".crt"), px.workspace.runtime.file(p.name+".key"), px.workspace.runtime.file("ca.crt")
	return write(c, s.CertPath, s.KeyPath)
}

// MeshCounters implements [platform.MeshCounters].
func (px *proxies) MeshCounters(ctx context.Context) (map[string]map[string]int64, error) {
	all := map[string]map[string]int64{}
	if !px.layout.proxied() {
		return all, nil
	}
	pods := []*pod{px.layout.load}
	for _, s := range px.layout.spec.Topology.Services {
		pods = append(pods, px.layout.pods[s.Name]...)
	}
	for _, p := range pods {
		_, running, _ := px.processes.alive(p.name + "/sidecar")
		if running == nil || len(p.sidecar.Outbound) == 0 {
			continue
		}
		names, err := px.layout.spec.Mesh.Local.Counters(p.sidecar)
		if err != nil {
			return nil, err
		}
		values, err := p.admin.counters(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		sums := map[string]int64{}
		for _, o := range names.Outbound {
			for name, counter := range map[string]string{"retries": o.Retries, "timeouts": o.Timeouts} {
				if v, ok := values[counter]; ok && counter != "" {
					sums[name] += v
				}
			}
		}
		all[fmt.Sprintf("%s-%d", p.name, running.PID)] = sums
	}
	return all, nil
}

// setPorts sets the ports of the sidecar's listeners.
func (p *pod) setPorts(definition mesh.Sidecar, ports map[string]int) error {
	names, err := definition.Listeners(p.sidecar)
	if err != nil {
		return err
	}
	address := func(listener string) (netip.AddrPort, error) {
		port, ok := ports[listener]
		if !ok || port <= 0 || port > 65535 {
			return netip.AddrPort{}, fmt.Errorf("the sidecar has no bound listener %q", listener)
		}
		return netip.AddrPortFrom(p.ip, uint16(port)), nil
	}
	if p.sidecar.Inbound != nil {
		got, err := address(names.Inbound)
		if err != nil {
			return err
		}
		if p.inbound, err = same("inbound", p.inbound, got); err != nil {
			return err
		}
	}
	for _, out := range p.sidecar.Outbound {
		got, err := address(names.Outbound[out.Service])
		if err != nil {
			return err
		}
		if p.outbound[out.Service], err = same("outbound-"+out.Service, p.outbound[out.Service], got); err != nil {
			return err
		}
	}
	return nil
}

// same returns an error if a restarted sidecar listens on another port: its callers have the old
// one.
func same(listener string, before, now netip.AddrPort) (netip.AddrPort, error) {
	if before.IsValid() && before != now {
		return before, hint.Wrap(fmt.Errorf("the sidecar's listener %q moved to port %d from %d", listener, now.Port(), before.Port()),
			"use {{.Inbound.Port}}, and {{.Port}} of each of .Outbound, in the mesh definition's template")
	}
	return now, nil
}
