package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// startTimeout bounds the start of one process, until it answers.
const startTimeout = 30 * time.Second

// pod is one replica of a service, or the load generator.
type pod struct {
	name     string
	service  string
	protocol string // of the application
	replica  int
	ip       netip.Addr

	app      netip.AddrPort // the application; zero in the load generator's pod
	api      netip.AddrPort // the application's REST interface; zero in the load generator's pod
	sidecar  mesh.SidecarContext
	beside   *pod                      // the sidecar of an adder, which only counts
	admin    *admin                    // nil without a mesh
	inbound  netip.AddrPort            // the sidecar's way in
	outbound map[string]netip.AddrPort // the sidecar's way to each service
}

// startAll starts every pod, callees first.
func (d *deployment) startAll(ctx context.Context) error {
	order, err := calleesFirst(d.spec.Topology)
	if err != nil {
		return err
	}
	if err := d.startControl(ctx); err != nil {
		return err
	}
	for _, wave := range waves(order) {
		if err := d.startWave(ctx, wave); err != nil {
			return err
		}
	}
	return d.startLoadPod(ctx)
}

// startWave starts the replicas of services that do not call one another, some at a time.
func (d *deployment) startWave(ctx context.Context, wave []app.Service) error {
	for _, s := range wave {
		for i := range d.spec.Replicas(s) {
			p, err := d.newPod(fmt.Sprintf("%s-%d", s.Name, i), s.Name)
			if err != nil {
				return err
			}
			p.protocol, p.replica = d.spec.Protocol(s), i
			d.pods[s.Name] = append(d.pods[s.Name], p)
		}
	}
	starting, ctx := errgroup.WithContext(ctx)
	starting.SetLimit(startingAtOnce())
	for _, s := range wave {
		for _, p := range d.pods[s.Name] {
			starting.Go(func() error { return d.startPod(ctx, p, s) })
		}
	}
	return starting.Wait()
}

// startingAtOnce is how many pods start at one time. A start is half computing
// and half waiting, so that twice the processors are kept busy.
func startingAtOnce() int { return 2 * max(2, runtime.NumCPU()) }

func (d *deployment) newPod(name, service string) (*pod, error) {
	ip, err := d.addresses.take()
	if err != nil {
		return nil, fmt.Errorf("find an address for %s: %w", name, err)
	}
	return &pod{name: name, service: service, ip: ip, outbound: map[string]netip.AddrPort{}}, nil
}

func (d *deployment) startPod(ctx context.Context, p *pod, s app.Service) error {
	listener, err := listen(p.ip)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	defer listener.Close() // the application has a copy
	p.app = listener.Addr().(*net.TCPAddr).AddrPort()
	if d.sidecar != "" {
		var from []string
		for _, c := range callers(d.spec.Topology, s.Name) {
			identity, err := d.issuer().identity(c)
			if err != nil {
				return fmt.Errorf("start %s: %w", p.name, err)
			}
			from = append(from, identity)
		}
		in := &mesh.Inbound{AppIP: p.app.Addr().String(), AppPort: int(p.app.Port()), Callers: from, Protocol: p.protocol}
		if err := d.startSidecar(ctx, p, in, callees(s)); err != nil {
			return err
		}
	}
	return d.startApp(ctx, p, s, listener)
}

// startLoadPod makes the load generator's pod, whose sidecar is the last to start.
func (d *deployment) startLoadPod(ctx context.Context) error {
	entry := entryOf(d.spec.Topology)
	var err error
	if d.load, err = d.newPod(loadService, loadService); err != nil {
		return err
	}
	if d.sidecar != "" {
		if err := d.startSidecar(ctx, d.load, nil, []string{entry}); err != nil {
			return err
		}
	}
	d.entry = d.spec.Targets(d.ways(d.load, entry))
	return nil
}

// ways are the URLs by which a pod reaches a service: through its own sidecar, or straight to each replica.
func (d *deployment) ways(from *pod, service string) []string {
	if d.sidecar != "" {
		return []string{rootURL(from.outbound[service])}
	}
	var urls []string
	for _, p := range d.pods[service] {
		urls = append(urls, rootURL(p.app))
	}
	return urls
}

func rootURL(a netip.AddrPort) string { return "http://" + a.String() + "/" }

func (d *deployment) startApp(ctx context.Context, p *pod, s app.Service, listener *net.TCPListener) error {
	instance := d.instance(p, s)
	config, err := json.MarshalIndent(instance, "", "  ")
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	path := filepath.Join(d.spec.Provenance, p.name+"-app.json")
	if err := os.WriteFile(path, append(config, '\n'), 0o600); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	api, err := listen(p.ip)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	defer api.Close()
	p.api = api.Addr().(*net.TCPAddr).AddrPort()
	if s.Program == app.Adder {
		args, err := d.startAdder(ctx, p)
		if err != nil {
			return err
		}
		size, _ := d.instance(p, s).ResponseSize.Fixed()
		args = append(args, "--response-size", strconv.FormatInt(size, 10))
		return d.runApp(ctx, p, s, append([]string{"adder"}, args...), nil, listener, api)
	}
	return d.runApp(ctx, p, s, []string{"serve", "--config", path, "--source", p.ip.String()}, []string{"--token-file", d.tokenFile()}, listener, api)
}

// runApp starts the program of an application on its listeners. The secret
// arguments are not printed: the token is gone when the deployment is, and who
// pastes the command needs none to look, and can make one to change.
func (d *deployment) runApp(ctx context.Context, p *pod, s app.Service, args, secret []string, listener, api *net.TCPListener) error {
	sockets, err := descriptors(listener, api)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	defer closeAll(sockets)
	cmd := proc.Command{
		Path:  d.agent,
		Args:  slices.Concat(args, secret, []string{"--listen", "fd:3", "--admin", "fd:4"}),
		Files: sockets,
		Log:   filepath.Join(d.spec.Provenance, p.name+"-app.log"),
	}
	printed := cmd
	printed.Args = slices.Concat(args, []string{"--listen", p.app.String(), "--admin", p.api.String()})
	printed.Files = nil
	process, err := d.runIn(ctx, p, "app", cmd, printed, func(ctx context.Context) error {
		again, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(p.app))
		if err != nil {
			return fmt.Errorf("start %s again: %w", p.name, err)
		}
		defer again.Close()
		return d.startApp(ctx, p, s, again)
	})
	if err != nil {
		return err
	}
	// From here on a dead application refuses connections.
	listener.Close()
	api.Close()
	closeAll(sockets)
	return d.await(ctx, p.name+"/app", process, func(ctx context.Context) error { return answers(ctx, p.api) })
}

// instance is what the program that plays a service is told in one pod.
func (d *deployment) instance(p *pod, s app.Service) app.Instance {
	i := d.spec.Instance(s, func(service string) []string { return d.ways(p, service) })
	if d.edit != nil {
		d.edit(&i)
	}
	return i
}

// descriptors are copies of the listeners' sockets for a process to inherit.
func descriptors(listeners ...*net.TCPListener) ([]*os.File, error) {
	var files []*os.File
	for _, l := range listeners {
		f, err := l.File()
		if err != nil {
			closeAll(files)
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// runIn starts a container of a pod; every one of them is watched, and can be
// ended and started again.
func (d *deployment) runIn(ctx context.Context, p *pod, container string, cmd, printed proc.Command, again func(context.Context) error) (*proc.Process, error) {
	v := d.victim(p, container, again)
	id := v.incarnation()
	process, err := d.run(ctx, mesh.Task{ID: id, Pod: p.name, Service: p.service, Container: container}, cmd, printed)
	if err != nil {
		return nil, err
	}
	d.starts(v, process)
	d.watch(id, process)
	return process, nil
}

func (d *deployment) startSidecar(ctx context.Context, p *pod, in *mesh.Inbound, to []string) error {
	id := p.name + "/sidecar"
	cmd, err := d.configureSidecar(ctx, p, in, to)
	if err != nil {
		return err
	}
	process, err := d.runIn(ctx, p, "sidecar", cmd, cmd, func(ctx context.Context) error { return d.startSidecar(ctx, p, in, to) })
	if err != nil {
		return err
	}
	p.admin = newAdmin(p.sidecar.AdminPath)
	return d.await(ctx, id, process, func(ctx context.Context) error {
		ports, err := p.admin.ports(ctx)
		if err != nil {
			return err
		}
		if err := p.learn(d.spec.Mesh.Local.Sidecar, ports); err != nil {
			return err
		}
		return p.knowsItsCallees(ctx, d.spec.Mesh.Local.Sidecar)
	})
}

// configureSidecar renders its configuration into provenance/, issues its
// certificate, and returns its command.
func (d *deployment) configureSidecar(ctx context.Context, p *pod, in *mesh.Inbound, to []string) (proc.Command, error) {
	fail := func(err error) (proc.Command, error) { return proc.Command{}, fmt.Errorf("start %s: %w", p.name, err) }
	again := p.admin != nil
	if err := d.choosePorts(p, to); err != nil {
		return fail(err)
	}
	if in != nil {
		in.Port = int(p.inbound.Port()) // of a sidecar that is started again, or chosen; else 0
	}
	identity, err := d.issuer().identity(p.service)
	if err != nil {
		return fail(err)
	}
	p.sidecar = mesh.SidecarContext{
		Pod: p.name, Service: p.service, Identity: identity, IP: p.ip.String(),
		Concurrency: d.spec.Mesh.Local.Sidecar.Concurrency,
		ConfigPath:  filepath.Join(d.spec.Provenance, p.name+"-sidecar.yaml"),
		AdminPath:   d.runtime.file(strconv.Itoa(d.addresses.number()) + ".sock"),
		Inbound:     in,
		Port:        int(p.inbound.Port()),
		Control:     d.controlContexts(),
		Secrets:     d.secrets.get,
	}
	for _, service := range to {
		identity, err := d.issuer().identity(service)
		if err != nil {
			return fail(err)
		}
		out := mesh.Outbound{Service: service, Identity: identity, Protocol: d.pods[service][0].protocol, Port: int(p.outbound[service].Port())}
		for _, callee := range d.pods[service] {
			out.Endpoints = append(out.Endpoints, mesh.Endpoint{IP: callee.inbound.Addr().String(), Port: int(callee.inbound.Port())})
		}
		p.sidecar.Outbound = append(p.sidecar.Outbound, out)
	}
	if err := d.certify(p); err != nil {
		return fail(err)
	}
	if err := d.writeSidecarConfig(ctx, p, again); err != nil {
		return fail(err)
	}
	args, _, err := d.spec.Mesh.Local.Sidecar.Render(p.sidecar)
	if err != nil {
		return fail(err)
	}
	return proc.Command{Path: d.sidecar, Args: args, Log: filepath.Join(d.spec.Provenance, p.name+"-sidecar.log")}, nil
}

func (d *deployment) certify(p *pod) error {
	if d.authority == nil {
		return nil
	}
	c, err := d.authority.issue(p.sidecar.Identity)
	if err != nil {
		return err
	}
	s := &p.sidecar
	s.CertPath, s.KeyPath, s.CAPath = d.runtime.file(p.name+".crt"), d.runtime.file(p.name+".key"), d.runtime.file("ca.crt")
	return write(c, s.CertPath, s.KeyPath)
}

// learn takes the ports that the sidecar's listeners got.
func (p *pod) learn(definition mesh.Sidecar, ports map[string]int) error {
	names, err := definition.Listeners(p.sidecar)
	if err != nil {
		return err
	}
	at := func(listener string) (netip.AddrPort, error) {
		port, ok := ports[listener]
		if !ok || port <= 0 || port > 65535 {
			return netip.AddrPort{}, fmt.Errorf("the sidecar has no listener %q that is bound", listener)
		}
		return netip.AddrPortFrom(p.ip, uint16(port)), nil
	}
	if p.sidecar.Inbound != nil {
		got, err := at(names.Inbound)
		if err != nil {
			return err
		}
		if p.inbound, err = same("inbound", p.inbound, got); err != nil {
			return err
		}
	}
	for _, out := range p.sidecar.Outbound {
		got, err := at(names.Outbound[out.Service])
		if err != nil {
			return err
		}
		if p.outbound[out.Service], err = same("outbound-"+out.Service, p.outbound[out.Service], got); err != nil {
			return err
		}
	}
	return nil
}

// await asks until a process that was just started is ready, ends, or has taken too long.
func (d *deployment) await(ctx context.Context, id string, p *proc.Process, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errSlow)
	defer cancel()
	again := time.NewTicker(adminPause)
	defer again.Stop()
	var last error // the reason, and not that the time for looking was over
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-p.Done():
			return ended(id, p)
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if errors.Is(cause, errSlow) {
				return &Error{fmt.Errorf("start %s: %w after %v: %w", id, errSlow, startTimeout, last), "its log is " + p.Command().Log}
			}
			return fmt.Errorf("start %s: %w", id, cause)
		case <-again.C:
		}
	}
}

var errSlow = errors.New("it is not ready")

// answers asks an application for its health.
func answers(ctx context.Context, a netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, rootURL(a)+"readyz", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("its health is %s", resp.Status)
	}
	return nil
}
