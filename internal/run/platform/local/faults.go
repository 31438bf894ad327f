package local

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// taskFaults implements [platform.TaskFaults] and [platform.Deployment.Ended].
type taskFaults struct {
	layout    *layout
	processes *processes
	control   *controlPlane
}

func (f *taskFaults) Victims() []platform.Victim {
	f.processes.mu.Lock()
	defer f.processes.mu.Unlock()
	var all []platform.Victim
	add := func(p *pod) {
		for _, container := range []string{"app", p.proxy(), controlContainer} {
			v := f.processes.find(p.name + "/" + container)
			if v == nil || v.process == nil {
				continue
			}
			all = append(all, platform.Victim{ID: v.id, Pod: p.name, Service: p.service, Replica: p.replica,
				Plane: v.process.task.Plane, Up: v.up()})
		}
	}
	for _, s := range f.layout.spec.Topology.Services {
		for _, p := range f.layout.pods[s.Name] {
			add(p)
		}
	}
	if f.layout.front != nil {
		add(f.layout.front)
	}
	for _, c := range f.control.running {
		add(c.pod)
	}
	return all
}

func (f *taskFaults) End(ctx context.Context, id string, grace time.Duration) error {
	v, p, err := f.processes.alive(id)
	if err != nil || p == nil {
		return err
	}
	f.processes.mu.Lock()
	p.ended = true
	f.processes.mu.Unlock()
	if grace > 0 && !v.frozen { // a suspended process does not handle SIGTERM
		return p.Stop(ctx, grace)
	}
	if err := p.Signal(os.Kill); err != nil {
		return err
	}
	return awaitEnd(ctx, p.Process)
}

// Freeze implements [platform.TaskFaults]. It suspends the descendants of the process too: they may be
// the ones that serve.
func (f *taskFaults) Freeze(ctx context.Context, id string, frozen bool) error {
	v, p, err := f.processes.alive(id)
	switch {
	case err == nil && p == nil && frozen:
		return errors.New("it is not running")
	case err != nil || p == nil:
		return err
	}
	f.processes.mu.Lock()
	v.frozen = frozen
	f.processes.mu.Unlock()
	if frozen {
		return suspend(ctx, p.Process)
	}
	return resume(p.Process)
}

// suspendTimeout bounds the time until suspended processes are stopped. One in a system call stops after the call.
const suspendTimeout = 10 * time.Second

// suspend returns when the process and its descendants are stopped.
func suspend(ctx context.Context, p *proc.Process) error {
	if err := p.SignalGroup(syscall.SIGSTOP); err != nil {
		return err
	}
	return wait.Within(ctx, suspendTimeout, time.Millisecond, func(context.Context) error {
		left, err := running(p.PID)
		if err != nil {
			return wait.Stop(err)
		}
		if len(left) == 0 {
			return nil
		}
		for _, pid := range left { // of another process group, or not stopped yet
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		return fmt.Errorf("processes %v are not stopped by SIGSTOP", left)
	})
}

// resume resumes the process and its descendants. As they are stopped, the process tree does not change.
func resume(p *proc.Process) error {
	others, err := descendants([]platform.Task{{PID: p.PID}}, func(map[int]bool) {})
	if err := errors.Join(err, p.SignalGroup(syscall.SIGCONT)); err != nil {
		return err
	}
	for _, o := range others {
		if err := syscall.Kill(o.task.PID, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal SIGCONT to process %d: %w", o.task.PID, err)
		}
	}
	return nil
}

// running lists the processes, of a process and its descendants, that are neither stopped nor ended.
func running(pid int) ([]int, error) {
	others, err := descendants([]platform.Task{{PID: pid}}, func(map[int]bool) {})
	if err != nil {
		return nil, err
	}
	all := []int{pid}
	for _, o := range others {
		all = append(all, o.task.PID)
	}
	var left []int
	for _, pid := range all {
		p, err := procfs.NewProc(pid)
		var stat procfs.ProcStat
		if err == nil {
			stat, err = p.Stat()
		}
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ESRCH): // it has ended
		case err != nil:
			return nil, fmt.Errorf("read process %d: %w", pid, err)
		case !strings.Contains("TtXZ", stat.State):
			left = append(left, pid)
		}
	}
	return left, nil
}

func (f *taskFaults) Restart(ctx context.Context, id string) error {
	v, p, err := f.processes.alive(id)
	switch {
	case err != nil:
		return err
	case p != nil:
		return errors.New("it is running")
	}
	return v.again(context.WithValue(ctx, restartKey{}, true))
}

func (f *taskFaults) Ended() []platform.Ended {
	f.processes.mu.Lock()
	defer f.processes.mu.Unlock()
	var all []platform.Ended
	for _, p := range f.processes.started {
		if u, ok := p.Usage(); ok && p.ended {
			all = append(all, platform.Ended{Task: platform.Task{Task: p.task, PID: p.PID, Restarted: p.restarted},
				CPU: u.CPU, Voluntary: u.Voluntary, Involuntary: u.Involuntary})
		}
	}
	return all
}

func awaitEnd(ctx context.Context, p *proc.Process) error {
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// wire impairs the packets between pods. Its end removes every impairment.
type wire interface {
	impair(p station, how platform.Impairment) error
	mend(name string) error
	end() error
}

// station identifies the packets of a pod.
type station struct {
	name string
	ip   netip.Addr
	// port is the pod's port for others. Connections of load generators, and from
	// outside the trial, come from 127.0.0.1 and are identified by it.
	port uint16
	all  netip.Prefix
}

// canImpair tries an impairment on an unused address.
func canImpair(how platform.Impairment) error {
	w, err := newWire()
	if err != nil {
		return err
	}
	return errors.Join(w.impair(unused, how), w.end())
}

// unused is a pod that does not exist.
var unused = station{name: "unused", ip: netip.AddrFrom4([4]byte{127, unusedNet, 0, 1}), port: 1, all: prefixOf(unusedNet)}

// networkFaults implements [platform.NetworkFaults].
type networkFaults struct {
	layout    *layout
	processes *processes

	mu   sync.Mutex
	wire wire // nil until a network is impaired
}

func (n *networkFaults) Impair(_ context.Context, pod string, how platform.Impairment) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.layout.pod(pod)
	switch {
	case n.processes.closed():
		return errRemoved
	case p == nil:
		return errors.New("the pod does not exist")
	case p.own.IsOwn() && p.app.Addr() != p.ip:
		return hint.Wrap(fmt.Errorf("%w: its program is reached at %s, which is not its pod's address", errors.ErrUnsupported, p.app.Addr()), "write ${host} in its command, so that it listens on the pod's address")
	case !n.layout.addresses.distinct():
		return fmt.Errorf("%w: this system has one loopback address, which all pods share", errors.ErrUnsupported)
	}
	if err := n.ownSources(); err != nil {
		return err
	}
	if n.wire == nil {
		var err error
		if n.wire, err = newWire(); err != nil {
			return err
		}
	}
	return n.wire.impair(station{p.name, p.ip, n.layout.reached(p).Port(), n.layout.addresses.all()}, how)
}

func (n *networkFaults) Mend(_ context.Context, pod string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wire == nil {
		return nil
	}
	return n.wire.mend(pod)
}

// free removes every impairment.
func (n *networkFaults) free() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wire == nil {
		return nil
	}
	w := n.wire
	n.wire = nil
	return hint.Prefix(w.end(), "free the network")
}

// ownSources refuses sidecars that call other pods from another address than their pod's. Packets
// of a pod would not be distinguishable from packets of others.
func (n *networkFaults) ownSources() error {
	if !n.layout.proxied() {
		return nil
	}
	inbound := map[netip.AddrPort]string{}
	for _, pods := range n.layout.pods {
		for _, p := range pods {
			inbound[n.layout.reached(p)] = p.name
		}
	}
	connections, err := sockets(tcpEstablished)
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	for _, c := range connections {
		if name, ok := inbound[c.to]; ok && c.from.Addr() == localhost {
			return hint.Wrap(fmt.Errorf("%w: a sidecar of mesh %s has called %s from %s, not from its pod's address", errors.ErrUnsupported, n.layout.spec.Mesh.Name, name, localhost),
				"bind outgoing connections to {{.IP}} in its definition, as envoy's does with upstream_bind_config")
		}
	}
	return nil
}

// maxRefusal is the max shown length of a refusal, bytes.
const maxRefusal = 2 << 10

// Configure implements [platform.Configurer], through the services' REST interface.
func (ps *processes) Configure(ctx context.Context, id string, patch []byte) (undo []byte, err error) {
	api, err := ps.api(id)
	if err != nil {
		return nil, err
	}
	return api.Configure(ctx, patch)
}

func (ps *processes) Configuration(ctx context.Context, id string) ([]byte, error) {
	api, err := ps.api(id)
	if err != nil {
		return nil, err
	}
	return api.Configuration(ctx)
}

// api is the REST interface of a service by the ID of its task.
func (ps *processes) api(id string) (api platform.ServiceAPI, err error) {
	v, p, err := ps.alive(id)
	switch {
	case err != nil:
		return api, err
	case p == nil:
		return api, errors.New("it is not running")
	case v.name != "app":
		return api, errors.New("it is not a service")
	case v.pod.own.IsOwn():
		return api, fmt.Errorf("%w: it is your own program", errors.ErrUnsupported)
	}
	return v.pod.serviceAPI(ps.workspace.token), nil
}

// serviceAPI is the REST interface of the pod's service. Without a token it can only be read.
func (p *pod) serviceAPI(token string) platform.ServiceAPI {
	return platform.ServiceAPI{Root: "http://" + p.api.String(), Token: token, Timeout: adminTimeout}
}
