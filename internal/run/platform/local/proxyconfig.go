package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// choosePorts chooses the ports of a sidecar that cannot bind port 0. A restarted sidecar keeps
// its ports.
func (px *proxies) choosePorts(p *pod, to []string) error {
	if !px.layout.spec.Mesh.Local.Sidecar.ChoosePorts || p.inbound.IsValid() {
		return nil
	}
	next := func() (netip.AddrPort, error) {
		port, err := px.layout.addresses.choose(p.ip)
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

// writeConfig renders the configuration, or runs the mesh's bootstrap after registering the pod. A
// restarted sidecar is still registered and keeps its bootstrap.
func (px *proxies) writeConfig(ctx context.Context, p *pod, again bool) error {
	local := px.layout.spec.Mesh.Local
	name := filepath.Base(p.sidecar.ConfigPath)
	if again && local.Sidecar.Bootstrap != nil {
		if path := px.workspace.runtime.file(name); exists(path) {
			p.sidecar.ConfigPath = path
		}
		return nil
	}
	if !again {
		if err := px.register(ctx, p); err != nil {
			return err
		}
	}
	files, err := local.Sidecar.RenderFiles(p.sidecar)
	if err != nil {
		return err
	}
	p.sidecar.Files = map[string]string{}
	for name, text := range files {
		if p.sidecar.Files[name], err = px.workspace.keep(p.name+"-sidecar-"+name+".yaml", text); err != nil {
			return err
		}
	}
	_, config, err := local.Sidecar.Render(p.sidecar)
	if err == nil && local.Sidecar.Bootstrap != nil {
		config, err = px.bootstrap(ctx, p)
	}
	if err == nil {
		p.sidecar.ConfigPath, err = px.workspace.keep(name, config)
	}
	return err
}

// register registers a pod in the control plane, and records the requests as commands.
func (px *proxies) register(ctx context.Context, p *pod) error {
	for _, r := range px.layout.spec.Mesh.Local.Sidecar.Register {
		if _, err := px.control.request(ctx, r, p.sidecar); err != nil {
			return fmt.Errorf("register %s: %w", p.name, err)
		}
		r, err := r.Render(p.sidecar)
		if err != nil {
			return err
		}
		args := []string{"-fsS", "-X", r.Method}
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			args = append(args, "-H", name+": "+r.Header[name])
		}
		if r.Body != "" {
			args = append(args, "-d", r.Body)
		}
		if err := px.workspace.recordCommand(p.name+" is registered", 0, proc.Command{Path: "curl", Args: append(args, r.URL)}); err != nil {
			return err
		}
	}
	return nil
}

// bootstrap runs the mesh's command that prints a sidecar's configuration.
func (px *proxies) bootstrap(ctx context.Context, p *pod) ([]byte, error) {
	b := px.layout.spec.Mesh.Local.Sidecar.Bootstrap
	fail := func(err error) ([]byte, error) {
		return nil, fmt.Errorf("bootstrap the sidecar of %s: %w", p.name, err)
	}
	args, env, err := b.Render(p.sidecar)
	if err != nil {
		return fail(err)
	}
	var printed bytes.Buffer
	cmd := proc.Command{Path: px.layout.programs[b.Program].path, Args: args, Env: env, Stdout: &printed, Log: px.workspace.provenance.Path(p.name + "-bootstrap.log")}
	process, err := deployed.start(func() (*proc.Process, error) { return proc.Start(ctx, cmd) })
	if err != nil {
		return fail(err)
	}
	if err := px.workspace.recordCommand(p.name+"/bootstrap", process.PID, cmd); err != nil {
		return fail(errors.Join(err, process.Stop(ctx, 0)))
	}
	select {
	case <-process.Done():
	case <-ctx.Done():
		return fail(errors.Join(context.Cause(ctx), process.Stop(ctx, 0)))
	}
	if err := process.Wait(); err != nil {
		return fail(err)
	}
	return printed.Bytes(), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// hasEndpoints returns an error until the sidecar has received every replica of its callees from
// the control plane.
func (p *pod) hasEndpoints(ctx context.Context, definition mesh.Sidecar) error {
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
			return fmt.Errorf("the sidecar has %d of %d replicas of %s (%s)", got, want, out.Service, gauge)
		}
	}
	return nil
}

// keepDumps keeps the configuration dump of each sidecar that has one, as Envoy does. Private keys are redacted by
// Envoy, and the list of its extensions is left out: it is most of a dump. A dump that cannot be read, or above
// maxDump, is not kept. The dumps as read are returned.
func (px *proxies) keepDumps(ctx context.Context) map[*pod]dump {
	dumps := map[*pod]dump{}
	if !px.layout.proxied() {
		return dumps
	}
	for _, p := range px.layout.proxiedPods() {
		if p.admin == nil {
			continue
		}
		text, err := p.admin.getWithin(ctx, "/config_dump", dumpTimeout)
		dumps[p] = dump{text, err}
		if err != nil || len(text) > maxDump {
			continue
		}
		var content struct {
			Configs []map[string]any `json:"configs"`
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if d.Decode(&content) != nil || len(content.Configs) == 0 {
			continue
		}
		for _, c := range content.Configs {
			bootstrap, _ := c["bootstrap"].(map[string]any)
			node, _ := bootstrap["node"].(map[string]any)
			delete(node, "extensions")
		}
		if text, err = json.Marshal(content); err == nil {
			_ = px.workspace.provenance.WriteLarge(p.name+"-sidecar-config_dump.json", px.workspace.secrets.redact(text), maxPlainDump)
		}
	}
	return dumps
}

// dump is the configuration of a sidecar as it runs, or why it could not be read.
type dump struct {
	text []byte
	err  error
}

// Bounds of the dump of a sidecar, in bytes. 10,000 clusters have 6 MB, in every trial. They are a tenth compressed.
const (
	maxDump      = 32 << 20
	maxPlainDump = 1 << 20 // a larger one is compressed
)
