package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
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
	return hint.Prefix(os.WriteFile(px.workspace.runtime.file("ca.crt"), px.authority.PEM(), 0o600), "write the CA's certificate")
}

// start starts the sidecar of a pod and waits until it listens and has its callees.
func (px *proxies) start(ctx context.Context, p *pod, in *mesh.Inbound, to []string) error {
	if err := px.configure(ctx, p, in, to); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	if px.layout.spec.Mesh.Local.Sidecar.PerListener() {
		for _, one := range p.listeners() {
			if err := px.startListener(ctx, p, one); err != nil {
				return err
			}
		}
		return nil
	}
	all := sidecarProcess{container: p.proxy(), context: p.sidecar}
	for _, one := range p.listeners() {
		all.listens = append(all.listens, one.listens...)
	}
	return px.run(ctx, p, all, func(ctx context.Context) error { return px.start(ctx, p, in, to) })
}

func (px *proxies) startListener(ctx context.Context, p *pod, one sidecarProcess) error {
	one.context.ConfigPath = px.workspace.provenance.Path(p.name + "-" + one.container + ".yaml")
	var err error
	if one.context.Admin, err = px.adminAddress(p, one.container); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	_, config, err := px.layout.spec.Mesh.Local.Sidecar.Render(one.context)
	if err == nil && len(config) > 0 {
		one.context.ConfigPath, err = px.workspace.keep(filepath.Base(one.context.ConfigPath), config)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	return px.run(ctx, p, one, func(ctx context.Context) error { return px.startListener(ctx, p, one) })
}

// sidecarContainer is the name of the sidecar's process. With a process for each listener, the processes
// of calls to other services have the service behind it.
const sidecarContainer = "sidecar"

// gatewayPod is the name of a gateway's pod, and of its process.
const gatewayPod = mesh.RoleGateway

// proxy is the name of the process of a pod's proxy.
func (p *pod) proxy() string {
	if p.name == gatewayPod {
		return gatewayPod
	}
	return sidecarContainer
}

func (p *pod) proxyID() string { return p.name + "/" + p.proxy() }

// proxyOf names the proxies of a service in checks.
func (l *layout) proxyOf(service string) string {
	if !l.sidecars() {
		return l.front.proxyText()
	}
	return "the sidecar of " + service
}

// proxyText names the proxy of a pod in checks.
func (p *pod) proxyText() string {
	if p.name == gatewayPod {
		return "the gateway"
	}
	return "the sidecar of " + p.name
}

// sidecarProcess is a process of a sidecar, with the addresses where it listens.
type sidecarProcess struct {
	container string
	context   mesh.SidecarContext
	listens   []netip.AddrPort
}

// listeners are the listeners of a pod's sidecar, each as a process of its own.
func (p *pod) listeners() (all []sidecarProcess) {
	add := func(container string, listen netip.AddrPort, upstream ...string) {
		one := sidecarProcess{container, p.sidecar, []netip.AddrPort{listen}}
		one.context.Listen, one.context.Upstream = listen.String(), strings.Join(upstream, ",")
		if len(all) > 0 {
			one.context.AdminPath = fmt.Sprintf("%s-%d.sock", strings.TrimSuffix(one.context.AdminPath, ".sock"), len(all))
		}
		all = append(all, one)
	}
	if p.sidecar.Inbound != nil {
		add(sidecarContainer, p.inbound, p.app.String())
	}
	for _, out := range p.sidecar.Outbound {
		container := p.outboundContainer(out.Service)
		endpoints := lists.Map(out.Endpoints, func(e mesh.Endpoint) string { return net.JoinHostPort(e.IP, strconv.Itoa(e.Port)) })
		add(container, p.outbound[out.Service], endpoints...)
	}
	return all
}

// outboundContainer is the name of the process for calls of a service, with a process for each listener.
func (p *pod) outboundContainer(service string) string {
	if p.sidecar.Inbound == nil && p.sidecar.Outbound[0].Service == service {
		return p.proxy()
	}
	return sidecarContainer + "-" + service
}

// run starts a process of a sidecar and waits until it is ready. again restarts it.
func (px *proxies) run(ctx context.Context, p *pod, one sidecarProcess, again func(context.Context) error) error {
	definition := px.layout.spec.Mesh.Local.Sidecar
	args, _, err := definition.Render(one.context)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	env := lists.Map(slices.Sorted(maps.Keys(definition.Environment)), func(name string) string { return name + "=" + definition.Environment[name] })
	id := p.name + "/" + one.container
	cmd := proc.Command{Path: px.program, Args: args, Env: env, Dir: definition.Dir, Tree: true, MaxLog: ownLog,
		Log: px.workspace.provenance.Path(p.name + "-" + one.container + ".log")}
	if err := os.Remove(one.context.AdminPath); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a killed one
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	group, err := px.processes.limits.group(px.workspace, p.name)
	if err != nil {
		return err
	}
	p.handshakes.Store(0)
	process, err := px.processes.runIn(ctx, p, one.container, cmd, cmd, again)
	if err == nil && group != nil {
		err = group.Add(process.PID)
	}
	if err != nil {
		return err
	}
	return px.processes.limits.explain(p.name, px.awaitReady(ctx, p, one, id, process))
}

func (px *proxies) awaitReady(ctx context.Context, p *pod, one sidecarProcess, id string, process *proc.Process) error {
	definition := px.layout.spec.Mesh.Local.Sidecar
	source, err := px.counterSource(one)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	if kind := definition.ReadyKind(); kind != mesh.ReadyAdmin {
		return awaitReady(ctx, id, process, func(ctx context.Context) error {
			if err := serves(ctx, kind, one.listens); err != nil || source == nil {
				return err
			}
			p.sources[one.container] = source
			_, err := p.counters(ctx)
			return err
		}, one.listens...)
	}
	p.admin = &admin{socket: p.sidecar.AdminPath, statistics: px.layout.spec.Mesh.Local.Verify.Statistics}
	p.sources[one.container] = source
	return awaitReady(ctx, id, process, func(ctx context.Context) error {
		ports, err := p.admin.ports(ctx)
		if err != nil {
			return err
		}
		if err := p.setPorts(definition, ports); err != nil {
			return err
		}
		return p.hasEndpoints(ctx, definition)
	})
}

// serves returns an error until all addresses accept connections or, with a path, answer a request for it with 2xx or 3xx.
func serves(ctx context.Context, kind string, addresses []netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	for _, at := range addresses {
		if kind == mesh.ReadyTCP {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", at.String())
			if err != nil {
				return err
			}
			c.Close()
			continue
		}
		status, err := statusOf(ctx, strings.TrimSuffix(rootURL(at), "/")+kind)
		if err == nil && status/100 != 2 && status/100 != 3 {
			err = fmt.Errorf("GET %s at %s is answered with %d", kind, at, status)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func statusOf(ctx context.Context, url string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, _, err := platform.Send(r, &http.Transport{}, 0)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, nil
}

// configure chooses ports, issues the certificate, and renders the configuration of a sidecar into the provenance, unless
// each of its listeners has its own.
func (px *proxies) configure(ctx context.Context, p *pod, in *mesh.Inbound, to []string) error {
	if err := px.choosePorts(p, to); err != nil {
		return err
	}
	if in != nil {
		in.Port = int(p.inbound.Port()) // of a restarted sidecar, or chosen, else 0
	}
	identity, err := px.issuer().identity(p.service)
	if err != nil {
		return err
	}
	p.sidecar = mesh.SidecarContext{
		Pod: p.name, Service: p.service, Identity: identity, IP: p.ip.String(),
		Concurrency: px.layout.spec.Mesh.Local.Sidecar.Concurrency,
		ConfigPath:  px.workspace.provenance.Path(p.name + "-sidecar.yaml"),
		AdminPath:   px.workspace.runtime.file(strconv.Itoa(px.layout.addresses.number()) + ".sock"),
		Inbound:     in,
		Options:     px.layout.spec.Mesh.Local.Sidecar.Chosen(),
		Changing:    px.layout.spec.Changing,
		Port:        int(p.inbound.Port()),
		Control:     px.control.contexts(),
		Secrets:     px.workspace.secrets.get,
	}
	if px.layout.spec.Mesh.Local.Sidecar.UsesDir() {
		if p.sidecar.Dir, err = px.workspace.state(p.name); err != nil {
			return fmt.Errorf("make the directory of its proxy: %w", err)
		}
	}
	if px.layout.spec.Mesh.Local.Sidecar.ChoosePorts && !px.layout.spec.Mesh.Local.Sidecar.PerListener() {
		if p.sidecar.Admin, err = px.adminAddress(p, p.proxy()); err != nil {
			return err
		}
	}
	for _, service := range to {
		identity, err := px.issuer().identity(service)
		if err != nil {
			return err
		}
		out := mesh.Outbound{Service: service, Identity: identity, Protocol: px.layout.pods[service][0].carried(), Port: int(p.outbound[service].Port())}
		for _, callee := range px.layout.pods[service] {
			at := px.layout.reached(callee)
			out.Endpoints = append(out.Endpoints, mesh.Endpoint{IP: at.Addr().String(), Port: int(at.Port())})
		}
		p.sidecar.Outbound = append(p.sidecar.Outbound, out)
	}
	if err := px.certify(p); err != nil {
		return err
	}
	if px.layout.spec.Mesh.Local.Sidecar.PerListener() {
		return nil
	}
	return px.writeConfig(ctx, p, restarted(ctx))
}

func (px *proxies) certify(p *pod) error {
	if px.authority == nil {
		return nil
	}
	c, err := px.authority.issue(p.service)
	if err != nil {
		return err
	}
	s := &p.sidecar
	s.CertPath, s.KeyPath, s.CAPath = px.workspace.runtime.file(p.name+".crt"), px.workspace.runtime.file(p.name+".key"), px.workspace.runtime.file("ca.crt")
	return c.Write(s.CertPath, s.KeyPath)
}

func (px *proxies) MeshCounters(ctx context.Context) (map[string]map[string]int64, error) {
	all := map[string]map[string]int64{}
	if !px.layout.proxied() {
		return all, nil
	}
	for _, p := range px.layout.proxiedPods() {
		_, running, _ := px.processes.alive(p.proxyID())
		if running == nil || len(p.sidecar.Outbound) == 0 || len(p.sources) == 0 {
			continue
		}
		names, err := p.counterNames()
		if err != nil {
			return nil, err
		}
		values, err := p.counters(ctx)
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
func (px *proxies) bootstrap(ctx context.Context, p *pod) (_ []byte, err error) {
	defer func() { err = hint.Prefix(err, "bootstrap the sidecar of %s", p.name) }()
	b := px.layout.spec.Mesh.Local.Sidecar.Bootstrap
	args, env, err := b.Render(p.sidecar)
	if err != nil {
		return nil, err
	}
	var printed bytes.Buffer
	cmd := proc.Command{Path: px.layout.programs[b.Program].path, Args: args, Env: env, Stdout: &printed, Log: px.workspace.provenance.Path(p.name + "-bootstrap.log")}
	process, err := deployed.start(func() (*proc.Process, error) { return proc.Start(ctx, cmd) })
	if err != nil {
		return nil, err
	}
	if err := px.workspace.recordCommand(p.name+"/bootstrap", process.PID, cmd); err != nil {
		return nil, errors.Join(err, process.Stop(ctx, 0))
	}
	select {
	case <-process.Done():
		err = process.Wait()
		return printed.Bytes(), err
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), process.Stop(ctx, 0))
	}
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
