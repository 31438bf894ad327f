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
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
)

const (
	// stopGrace is the time from SIGTERM to SIGKILL.
	stopGrace = 2 * time.Second
	// removeTimeout bounds the whole removal.
	removeTimeout = 20 * time.Second
)

// deployment is one trial on this machine. It starts the parts in order and removes them. Each
// ability is implemented by a part.
type deployment struct {
	layout    *layout
	workspace *workspace
	processes *processes
	control   *controlPlane
	simulated *simulatedProxies
	proxies   *proxies
	apps      *applications
	own       *ownPrograms
	verifier  *verifier
	sockets   *socketCounts
	faults    *taskFaults
	network   *networkFaults

	mu    sync.Mutex
	loads int // started
}

// startAll starts every pod, callees first.
func (d *deployment) startAll(ctx context.Context) error {
	if err := d.proxies.prepare(); err != nil {
		return err
	}
	order, err := calleesFirst(d.layout.spec.Topology)
	if err != nil {
		return err
	}
	if err := d.control.start(ctx); err != nil {
		return err
	}
	if err := d.control.know(ctx); err != nil {
		return err
	}
	for _, wave := range waves(order) {
		if err := d.startWave(ctx, wave); err != nil {
			return err
		}
	}
	return d.simulated.start(ctx)
}

// startWave starts the replicas of services that do not call each other, several at a time: first all sidecars, the load's
// before its entry, then the applications. Between the two, stand-ins for the applications prove the path.
func (d *deployment) startWave(ctx context.Context, wave []app.Service) error {
	for _, s := range wave {
		for i := range d.layout.spec.Replicas(s) {
			p, err := d.layout.newPod(fmt.Sprintf("%s-%d", s.Name, i), s.Name)
			if err != nil {
				return err
			}
			p.protocol, p.replica = d.layout.spec.Protocol(s), i
			d.layout.pods[s.Name] = append(d.layout.pods[s.Name], p)
		}
	}
	defer func() {
		d.endStandIns(wave)
		for _, s := range wave {
			for _, p := range d.layout.pods[s.Name] {
				if p.socket != nil {
					p.socket.Close() // of an application that did not start
				}
			}
		}
	}()
	if err := d.eachPod(ctx, wave, d.startSidecar); err != nil {
		return err
	}
	if slices.ContainsFunc(wave, func(s app.Service) bool { return s.Name == d.layout.spec.Topology.EntryName() }) {
		if err := d.startLoadPod(ctx); err != nil {
			return err
		}
	}
	if d.layout.proxied() {
		for _, s := range wave {
			d.verifier.proven = append(d.verifier.proven, d.prove(ctx, s)...)
		}
		d.endStandIns(wave)
	}
	return d.eachPod(ctx, wave, d.startApplication)
}

// eachPod calls start for each pod of a wave, several at a time.
func (d *deployment) eachPod(ctx context.Context, wave []app.Service, start func(context.Context, *pod, app.Service) error) error {
	starting, ctx := errgroup.WithContext(ctx)
	starting.SetLimit(startingAtOnce())
	for _, s := range wave {
		for _, p := range d.layout.pods[s.Name] {
			starting.Go(routine.Guarded(func() error { return start(ctx, p, s) }))
		}
	}
	return starting.Wait()
}

func (d *deployment) endStandIns(wave []app.Service) {
	for _, s := range wave {
		for _, p := range d.layout.pods[s.Name] {
			if p.stand != nil {
				p.stand.stop()
				p.stand = nil
			}
		}
	}
}

// prove checks by nonces that the proxies lead to the applications of a service: from the load to the entry, and within a pod of
// another service without mutual TLS.
func (d *deployment) prove(ctx context.Context, s app.Service) (checks []check.Check) {
	if d.layout.spec.Mesh.Local.Translates { // proven once the application runs
		return nil
	}
	path := "/"
	if targets := d.layout.spec.Targets([]string{"http://x/"}); len(targets) > 0 {
		path, _, _ = strings.Cut(strings.TrimPrefix(targets[0], "http://x"), "?")
	}
	var behind []*standIn
	for _, p := range d.layout.pods[s.Name] {
		if p.stand == nil {
			return nil
		}
		behind = append(behind, p.stand)
	}
	first := d.layout.pods[s.Name][0]
	if s.Name == d.layout.spec.Topology.EntryName() {
		times := 2
		if d.sockets.needed() {
			times = mostNonces
		}
		through := "the sidecars of load and " + s.Name
		if !d.layout.sidecars() {
			through = d.layout.front.proxyText()
		}
		return []check.Check{d.nonces(first, path, behind).prove(ctx, through, d.layout.front.outbound[s.Name], times)}
	}
	if d.layout.spec.Mesh.Provides.MTLS {
		return nil
	}
	for i, p := range d.layout.pods[s.Name] {
		checks = append(checks, d.nonces(p, "/", behind[i:i+1]).prove(ctx, "the sidecar of "+p.name, p.inbound, 2))
	}
	return checks
}

// nonces are the requests that prove the path to a pod's application, which stand-ins answer.
func (d *deployment) nonces(to *pod, path string, behind []*standIn) *nonces {
	return &nonces{host: to.host, path: path, protocol: to.carried(), behind: behind, retries: d.layout.spec.Mesh.Provides.Retries}
}

// startingAtOnce is the number of pods that start in parallel. Half of a start is waiting, so
// twice the number of processors are kept busy.
func startingAtOnce() int { return 2 * max(2, runtime.NumCPU()) }

// startSidecar chooses the address of a replica's application and starts its sidecar, if the mesh has one.
func (d *deployment) startSidecar(ctx context.Context, p *pod, s app.Service) error {
	var err error
	if s.IsOwn() {
		err = d.own.address(p, s)
	} else if p.socket, err = listen(p.ip); err == nil {
		p.app = p.socket.Addr().(*net.TCPAddr).AddrPort()
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	if !d.layout.sidecars() && (!d.layout.proxied() || s.Name != d.layout.spec.Topology.EntryName()) {
		return nil
	}
	if s.URL == "" {
		if p.stand, err = newStandIn(ctx, p.app, p.carried(), p.socket); err != nil {
			return fmt.Errorf("start %s: %w", p.name, err)
		}
	}
	if !d.layout.sidecars() {
		return nil
	}
	names := callers(d.layout.spec.Topology, s.Name)
	var from []string
	for _, c := range names {
		identity, err := d.proxies.issuer().identity(c)
		if err != nil {
			return fmt.Errorf("start %s: %w", p.name, err)
		}
		from = append(from, identity)
	}
	in := &mesh.Inbound{AppIP: p.app.Addr().String(), AppPort: int(p.app.Port()), Callers: from, CallerNames: names, Protocol: p.carried()}
	return d.proxies.start(ctx, p, in, callees(s))
}

func (d *deployment) startApplication(ctx context.Context, p *pod, s app.Service) error {
	if s.IsOwn() {
		if err := d.own.startBeside(ctx, p, s, false); err != nil {
			return err
		}
		if err := d.own.start(ctx, p, s); err != nil {
			return err
		}
		return d.own.startBeside(ctx, p, s, true)
	}
	return d.apps.start(ctx, p, s, p.socket)
}

// startLoadPod makes the load generator's pod. Its sidecar, or the gateway, starts after the entry's sidecar.
func (d *deployment) startLoadPod(ctx context.Context) error {
	entry := d.layout.spec.Topology.EntryName()
	var err error
	if d.layout.load, err = d.layout.newPod(loadService, loadService); err != nil {
		return err
	}
	d.layout.front = d.layout.load
	if d.layout.proxied() && !d.layout.sidecars() {
		if d.layout.front, err = d.layout.newPod(gatewayPod, loadService); err != nil {
			return err
		}
	}
	if d.layout.proxied() {
		if err := d.proxies.start(ctx, d.layout.front, nil, []string{entry}); err != nil {
			return err
		}
	}
	d.layout.entry = d.layout.spec.Targets(d.layout.urls(d.layout.front, entry))
	return nil
}

func (d *deployment) Entry() []string { return slices.Clone(d.layout.entry) }

func (d *deployment) StartLoad(ctx context.Context, cmd proc.Command) (platform.Process, error) {
	d.mu.Lock()
	d.loads++
	id := loadService + "/load"
	if d.loads > 1 {
		id = fmt.Sprintf("%s-%d", id, d.loads)
	}
	d.mu.Unlock()
	cmd.Log = d.workspace.provenance.Path(filepath.Base(id) + ".log")
	p, err := d.processes.run(ctx, mesh.Task{ID: id, Pod: loadService, Service: loadService, Container: "load"}, cmd, cmd)
	if err != nil {
		return nil, fmt.Errorf("start the load generator: %w", err)
	}
	return p.Process, nil
}

func (d *deployment) Tasks(ctx context.Context) ([]platform.Task, error) {
	return d.processes.tasks(ctx)
}

// Remove implements [platform.Running]. After the end of ctx it kills processes without grace.
func (d *deployment) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	all := d.processes.close()
	failed := make([]error, len(all), len(all)+3)
	freed := d.network.free()
	var stopping errgroup.Group
	for i, p := range all {
		stopping.Go(routine.Guarded(func() error {
			failed[i] = p.Stop(ctx, stopGrace)
			return nil
		}))
	}
	_ = stopping.Wait()
	d.sockets.close()
	deployed.leave(d.processes)
	d.layout.addresses.free()
	return hint.Prefix(errors.Join(append(failed, d.processes.limits.remove(), d.workspace.remove(), freed)...), "remove the deployment")
}

// Declare returns the platform with its abilities.
func (p *Platform) Declare() platform.Platform {
	return platform.Platform{Deployer: p, Faults: platform.Faults{Abilities: experiment.Abilities(), CanImpair: canImpair}}
}

// declare returns the deployment with its abilities. Each reading of a process's
// counters is current, the load shares this machine's clock, and there is nothing
// to warn about. Those fields stay nil.
func (d *deployment) declare() *platform.Deployment {
	changer := &changer{layout: d.layout, workspace: d.workspace, control: d.control, proxies: d.proxies, verifier: d.verifier}
	all := &platform.Deployment{
		Running:          d,
		Host:             d.layout.spec.Host(d.layout.spec.Entry()),
		Verify:           d.verifier.Verify,
		Broken:           d.processes.Err,
		CheckConnections: d.layout.checkConnections,
		MeshCounters:     d.proxies.MeshCounters,
		RequestCounts:    (&requestCounters{layout: d.layout, processes: d.processes, sockets: d.sockets}).RequestCounts,
		TaskFaults:       d.faults,
		Ended:            d.faults.Ended,
		Configurer:       d.processes,
		NetworkFaults:    d.network,
		Changer:          changer,
		Serial:           changer.Serial,
		Moments:          d.control,
		StopAndStart:     (&starter{layout: d.layout, processes: d.processes, faults: d.faults, changer: changer}).StopAndStart,
	}
	if d.layout.proxied() && d.layout.spec.Mesh.Local.Background != nil {
		all.Background = d.simulated
	}
	return all
}

// applications are the programs that play the services.
type applications struct {
	layout    *layout
	workspace *workspace
	processes *processes
	agent     string              // path of tare-agent
	edit      func(*app.Instance) // changes the configuration of an application, nil but in tests
}

func (as *applications) start(ctx context.Context, p *pod, s app.Service, listener *net.TCPListener) error {
	instance := as.instance(p, s)
	config, err := json.MarshalIndent(instance, "", "  ")
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	path := as.workspace.provenance.Path(p.name + "-app.json")
	if err := os.WriteFile(path, append(config, '\n'), 0o600); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	api, err := listen(p.ip)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	defer api.Close()
	p.api = api.Addr().(*net.TCPAddr).AddrPort()
	return as.run(ctx, p, s, []string{"serve", "--config", path, "--source", p.ip.String()}, []string{"--token-file", as.workspace.tokenFile()}, listener, api)
}

// run starts the program of an application on its listeners. The secret arguments are not
// recorded. The token is removed with the deployment, and a pasted command works without one.
func (as *applications) run(ctx context.Context, p *pod, s app.Service, args, secret []string, listener, api *net.TCPListener) error {
	sockets, err := descriptors(listener, api)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	defer closeAll(sockets)
	cmd := proc.Command{
		Path:  as.agent,
		Args:  slices.Concat(args, secret, []string{"--listen", "fd:3", "--admin", "fd:4"}),
		Files: sockets,
		Log:   as.workspace.provenance.Path(p.name + "-app.log"),
	}
	printed := cmd
	printed.Args = slices.Concat(args, []string{"--listen", p.app.String(), "--admin", p.api.String()})
	printed.Files = nil
	process, err := as.processes.runIn(ctx, p, "app", cmd, printed, func(ctx context.Context) error {
		again, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(p.app))
		if err != nil {
			return fmt.Errorf("restart %s: %w", p.name, err)
		}
		defer again.Close()
		return as.start(ctx, p, s, again)
	})
	if err != nil {
		return err
	}
	// From here on a dead application refuses connections.
	listener.Close()
	api.Close()
	closeAll(sockets)
	return awaitReady(ctx, p.name+"/app", process, func(ctx context.Context) error { return answers(ctx, p.api) })
}

// instance is the configuration of the program that plays a service in one pod.
func (as *applications) instance(p *pod, s app.Service) app.Instance {
	i := as.layout.spec.Instance(s, func(service string) []string { return as.layout.urls(p, service) })
	for k := range i.Calls {
		if callee, ok := as.layout.spec.Topology.Service(i.Calls[k].Service); ok {
			i.Calls[k].Host = as.layout.spec.OwnHost(callee)
		}
	}
	if as.edit != nil {
		as.edit(&i)
	}
	return i
}

// descriptors are copies of the listeners' sockets, for a process to inherit.
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

// answers requests the health of an application.
func answers(ctx context.Context, a netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	status, err := statusOf(ctx, rootURL(a)+"readyz")
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("its health is %d %s", status, http.StatusText(status))
	}
	return err
}
