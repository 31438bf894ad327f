package local

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/rpc"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
)

const (
	// elsewhereTimeout bounds the start of a program of the user while it listens, but not on its port.
	elsewhereTimeout = 10 * time.Second
	// listenPause is the time between two lists of all sockets and processes, each of which takes about 20 ms of CPU.
	listenPause = 500 * time.Millisecond
	// ownPause is the time between two checks of its readiness.
	ownPause = 50 * time.Millisecond
	// ownLog is about the max size of its log, bytes.
	ownLog = 16 << 20
)

// ownPrograms are the programs of the user that run services.
type ownPrograms struct {
	layout    *layout
	workspace *workspace
	processes *processes
	limit     time.Duration // of a start
	elsewhere time.Duration // of a start while it listens, but not on its port
}

var errNoListener = errors.New("none does")

// address chooses the address of a program before its sidecar starts. A program that is not given its
// address listens on 127.0.0.1 or on every address.
func (o *ownPrograms) address(p *pod, s app.Service) (err error) {
	p.own = s.Own
	if s.URL != "" {
		p.app, err = s.Address()
		return err
	}
	ip := localhost
	if s.UsesHost() {
		ip = p.ip
	}
	port, err := o.layout.addresses.everywhere()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.app = netip.AddrPortFrom(ip, port)
	p.helpers = map[string]netip.AddrPort{}
	for _, b := range s.Beside {
		if port, err = o.layout.addresses.everywhere(); err != nil {
			return fmt.Errorf("start %s/%s: %w", p.name, b.Name, err)
		}
		p.helpers[b.Name] = netip.AddrPortFrom(localhost, port)
	}
	return nil
}

// startBeside starts the processes beside a program: before it, or after it those that attach to it.
func (o *ownPrograms) startBeside(ctx context.Context, p *pod, s app.Service, attached bool) error {
	for _, b := range s.Beside {
		if b.Attaches(s.Name) != attached {
			continue
		}
		if err := o.startHelper(ctx, p, s, b); err != nil {
			return err
		}
	}
	return nil
}

// startHelper starts a process beside a program. One with a port is ready when it accepts connections.
func (o *ownPrograms) startHelper(ctx context.Context, p *pod, s app.Service, b app.BesideProcess) error {
	own := p.helpers[b.Name]
	others := maps.Clone(p.helpers)
	others[s.Name] = p.app
	delete(others, b.Name)
	at := app.Addresses{Host: own.Addr().String(), Port: int(own.Port()), Callees: others, Program: s.Name}
	if b.Attaches(s.Name) {
		pids, err := listeners(p.app)
		if err != nil || len(pids) == 0 {
			return fmt.Errorf("start %s/%s: find the process that listens on %s: %w", p.name, b.Name, p.app, cmp.Or(err, errNoListener))
		}
		at.PID = pids[0]
	}
	command, env := b.Expand(at)
	cmd := proc.Command{
		Path: command[0], Args: command[1:], Env: env, Dir: s.Dir,
		Log: o.workspace.provenance.Path(p.name + "-" + b.Name + ".log"), MaxLog: ownLog, Tree: true,
	}
	process, err := o.processes.runIn(ctx, p, b.Name, cmd, cmd, func(ctx context.Context) error { return o.startHelper(ctx, p, s, b) })
	if err != nil || !b.UsesPort() {
		return err
	}
	return awaitReady(ctx, p.name+"/"+b.Name, process, func(ctx context.Context) error { return serves(ctx, mesh.ReadyTCP, []netip.AddrPort{own}) }, own)
}

// start starts the program of a pod and waits until it is ready.
func (o *ownPrograms) start(ctx context.Context, p *pod, s app.Service) error {
	if s.URL != "" {
		return o.adopt(ctx, p, s)
	}
	at := app.Addresses{Host: p.app.Addr().String(), Port: int(p.app.Port()), Callees: maps.Clone(p.helpers)}
	for _, callee := range callees(s) {
		if o.layout.sidecars() {
			at.Callees[callee] = p.outbound[callee]
		} else {
			at.Callees[callee] = o.layout.pods[callee][0].app
		}
	}
	command, env := s.Expand(at)
	cmd := proc.Command{
		Path: command[0], Args: command[1:], Env: env, Dir: s.Dir,
		Log: o.workspace.provenance.Path(p.name + "-app.log"), MaxLog: ownLog, Tree: true,
	}
	process, err := o.processes.runIn(ctx, p, "app", cmd, cmd, func(ctx context.Context) error { return o.start(ctx, p, s) })
	if err != nil {
		return err
	}
	return o.awaitReady(ctx, p, process)
}

// awaitReady waits until the program answers on its port.
func (o *ownPrograms) awaitReady(ctx context.Context, p *pod, process *proc.Process) error {
	id := p.name + "/app"
	began, elsewhere := time.Now(), time.Time{}
	listed := began
	err := wait.Until(ctx, ownPause, func(ctx context.Context) error {
		err := ready(ctx, p)
		switch {
		case err == nil:
			return nil
		case exited(process):
			return wait.Stop(ended(id, process))
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			if other := otherProtocol(ctx, p); other != nil {
				return wait.Stop(fmt.Errorf("start %s: %w", id, other))
			}
		}
		var refused *net.OpError
		if !errors.As(err, &refused) && !notHTTP(err) {
			elsewhere = time.Time{}
		} else if elsewhere.IsZero() && time.Since(listed) > listenPause {
			if listed = time.Now(); len(listening(process.PID)) > 0 {
				elsewhere = listed
			}
		}
		if !elsewhere.IsZero() && time.Since(elsewhere) > o.elsewhere || time.Since(began) > o.limit {
			late := notReady(id, process, p.app, "write ${port} in the command, or let the program read the variable PORT", time.Since(began), err)
			if notHTTP(err) {
				late = hint.Wrap(late, "it accepts connections and does not answer in HTTP: choose another --protocol, or tcp with a request and its whole answer (--data, --expect-body; application.exchange in a file); "+hint.Of(late))
			}
			return wait.Stop(late)
		}
		return err
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("start %s: %w", id, context.Cause(ctx))
	}
	return err
}

// notHTTP reports whether a connection was accepted, and closed or answered in another protocol.
func notHTTP(err error) bool {
	ended := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	return ended || slices.ContainsFunc([]string{"malformed HTTP", "server closed idle connection", "readLoopPeekFail"}, func(words string) bool {
		return strings.Contains(err.Error(), words) // errors of net/http without a type
	})
}

// notReady is the error of a process that does not serve in time at the address that is expected, if one is known. Advice is for
// one that listens elsewhere.
func notReady(id string, process *proc.Process, expected netip.AddrPort, advice string, after time.Duration, err error) error {
	lines := []string{fmt.Sprintf("start %s: not ready after %v: %v", id, after.Round(time.Second), err), "  command: " + process.Command().String()}
	log := "its whole log is " + process.Command().Log
	if listens := listening(process.PID); !slices.Contains(listens, expected) && len(listens) > 0 {
		where := "  it listens on " + strings.Join(lists.Map(listens, netip.AddrPort.String), ", ")
		if expected.IsValid() {
			where += fmt.Sprintf(", and %s is expected", expected)
		}
		lines = append(lines, where)
		if advice != "" {
			log = advice + "; " + log
		}
	}
	if tail := process.Tail(20); len(tail) > 0 {
		lines = append(lines, "  it last wrote:\n    "+strings.Join(tail, "\n    "))
	} else {
		lines = append(lines, "  it wrote nothing")
	}
	return hint.Wrap(errors.New(strings.Join(lines, "\n")), log)
}

// adopt takes a program that already runs. Its process is only read.
func (o *ownPrograms) adopt(ctx context.Context, p *pod, s app.Service) error {
	if err := ready(ctx, p); err != nil {
		return hint.Wrap(fmt.Errorf("reach %s: %w", s.URL, err), "start the program first, or let tare start it: write command instead of url")
	}
	pids, err := listeners(p.app)
	if err != nil {
		return hint.Wrap(fmt.Errorf("find the process that listens on %s: %w", p.app, err),
			"run tare as the user of that process or as root, or let tare start the program: write command instead of url")
	}
	for _, pid := range pids {
		o.processes.adopt(mesh.Task{ID: p.name + "/app", Pod: p.name, Service: p.service, Container: "app"}, pid)
	}
	return nil
}

// ready requests the path of a program's readiness. Without one any answer is enough.
func ready(ctx context.Context, p *pod) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if p.protocol == app.TCP {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.app.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		return exchangeTCP(ctx, conn, p)
	}
	if p.protocol == app.GRPC {
		over := &http.Transport{DisableKeepAlives: true, Protocols: protocols(2)}
		return anyStatus(rpc.Healthy(ctx, over, p.app.String()))
	}
	version := 1
	if p.protocol == app.HTTP2 {
		version = 2
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.rootURL(p.app), "/")+p.healthPath(), nil)
	if err != nil {
		return err
	}
	r.Host = p.host
	resp, _, err := platform.Send(r, &http.Transport{Protocols: protocols(version), TLSClientConfig: anyCertificate}, 0)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusBadRequest { // a server's answer to a request without TLS
		if other := otherProtocol(ctx, p); other != nil {
			return other
		}
	}
	if p.own.Ready != "" && (resp.StatusCode < 200 || resp.StatusCode > 399) {
		return fmt.Errorf("GET %s is answered with %s", p.own.Ready, resp.Status)
	}
	return nil
}

// ErrHTTP2 and ErrTLS are wrapped by the error of a program that serves HTTP/2 and not HTTP/1.1, or TLS.
var (
	ErrHTTP2 = hint.New("choose --protocol http2, or in a file factors: {protocol: [http2]}", "it speaks HTTP/2 on its port, and not HTTP/1.1")
	ErrTLS   = hint.New("choose --tls, or in a file application: {tls: true}, with a mesh that forwards connections, such as envoy-tcp", "it speaks TLS on its port")
)

// otherProtocol returns the error of a program that speaks TLS unexpectedly, or HTTP/2 in place of HTTP/1.1, nil for any other.
func otherProtocol(ctx context.Context, p *pod) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	over := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}} //nolint:gosec // only the handshake is of interest
	c, err := over.DialContext(ctx, "tcp", p.app.String())
	speaksTLS, chosen := err == nil, ""
	if speaksTLS {
		chosen = c.(*tls.Conn).ConnectionState().NegotiatedProtocol
		_ = c.Close()
	}
	switch {
	case speaksTLS && !p.own.Secure():
		return ErrTLS
	case !speaksTLS && p.own.Secure():
		return hint.New("remove --tls, or tls from the file", "it speaks no TLS on its port: %v", err)
	case p.protocol != app.HTTP1 && p.protocol != "":
		return nil
	case p.own.Secure():
		if chosen == "h2" {
			return ErrHTTP2
		}
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, rootURL(p.app), nil)
	if err != nil {
		return nil
	}
	transport := &http.Transport{DisableKeepAlives: true, Protocols: protocols(2)}
	if resp, err := transport.RoundTrip(r); err == nil {
		_ = resp.Body.Close()
		return ErrHTTP2
	}
	return nil
}

// anyStatus accepts every answer of a gRPC server that is not a refusal of a proxy: the health service
// may be missing.
func anyStatus(err error) error {
	if status, ok := errors.AsType[*rpc.Error](err); ok && (status.Code == rpc.Unimplemented || status.Code == rpc.NotFound) {
		return nil
	}
	return err
}

// healthPath is the path of requests for the health of the application.
func (p *pod) healthPath() string {
	switch {
	case !p.own.IsOwn():
		return "/healthz"
	case p.own.Ready != "":
		return p.own.Ready
	}
	return "/"
}

// admits returns the error of a status of a request for the health of the application. The
// application of the user may answer with any that is not a refusal.
func (p *pod) admits(status int) error {
	if status == http.StatusOK || p.own.IsOwn() && !slices.Contains(refusals, statusError(status)) {
		return nil
	}
	return statusError(status)
}

// forwarders are programs that listen for another process: the application does not use their CPU.
var forwarders = []string{"docker-proxy", "rootlessport", "sshd", "ssh", "kubectl", "slirp4netns", "pasta", "gvproxy"}

// listening lists the addresses on which a process or one of its descendants listens. It is empty
// where that cannot be read.
func listening(pid int) []netip.AddrPort {
	all, err := listeningSockets()
	if err != nil {
		return nil
	}
	pids := []int{pid}
	below, err := descendants([]platform.Task{{PID: pid}}, func(map[int]bool) {})
	if err == nil {
		for _, d := range below {
			pids = append(pids, d.task.PID)
		}
	}
	var found []netip.AddrPort
	for _, pid := range pids {
		for _, name := range descriptorsOf(pid) {
			if at, ok := all[name]; ok && !slices.Contains(found, at) {
				found = append(found, at)
			}
		}
	}
	slices.SortFunc(found, netip.AddrPort.Compare)
	return found
}

// listeners finds the processes that listen on an address: of several that share the socket, only
// the ancestors of the others.
func listeners(at netip.AddrPort) ([]int, error) {
	all, err := listeningSockets()
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for inode, socket := range all {
		if socket.Port() == at.Port() && (socket.Addr() == at.Addr() || socket.Addr().IsUnspecified()) {
			wanted[inode] = true
		}
	}
	procs, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	parents := map[int]int{}
	for _, p := range procs {
		if !slices.ContainsFunc(descriptorsOf(p.PID), func(name string) bool { return wanted[name] }) {
			continue
		}
		stat, err := p.Stat()
		if err != nil {
			continue // it has ended
		}
		if slices.ContainsFunc(forwarders, func(name string) bool { return strings.HasPrefix(stat.Comm, name) }) {
			return nil, fmt.Errorf("%s (process %d) forwards connections to another process, whose CPU is unknown", stat.Comm, p.PID)
		}
		parents[p.PID] = stat.PPID
	}
	var found []int
	for pid, parent := range parents {
		if _, shared := parents[parent]; !shared {
			found = append(found, pid)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no process of this user, and of this network namespace, has the socket")
	}
	slices.Sort(found)
	return found, nil
}

func descriptorsOf(pid int) []string {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return nil
	}
	names, _ := p.FileDescriptorTargets()
	return names
}

// listeningSockets returns the addresses of the listening TCP sockets of this network namespace, by socket.
func listeningSockets() (map[string]netip.AddrPort, error) {
	listening, err := sockets(tcpListen)
	all := map[string]netip.AddrPort{}
	for _, l := range listening {
		all[l.socket] = l.from
	}
	return all, err
}

// container is a container of a pod, over all of its restarts.
type container struct {
	id      string // of its first process
	pod     *pod
	name    string                      // app, sidecar, control, or of the process beside a program
	again   func(context.Context) error // restarts it at its address
	lives   int
	process *process // current or last, nil before the first
	frozen  bool
}

// incarnation is the task ID of the current process. Each process has its own, so that their usage
// is not mixed.
func (v *container) incarnation() string {
	if v.lives == 1 {
		return v.id
	}
	return fmt.Sprintf("%s.%d", v.id, v.lives)
}

func (v *container) up() bool { return v.process != nil && !exited(v.process.Process) }

// begin finds or adds a container and counts the start of a process in it.
func (ps *processes) begin(p *pod, name string, again func(context.Context) error) *container {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	id := p.name + "/" + name
	v := ps.find(id)
	if v == nil {
		v = &container{id: id, pod: p, name: name}
		ps.containers = append(ps.containers, v)
	}
	v.again = again
	v.lives++
	return v
}

func (ps *processes) setProcess(v *container, p *process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	v.process, v.frozen = p, false
}

type restartKey struct{}

func restarted(ctx context.Context) bool { return ctx.Value(restartKey{}) != nil }

// alive returns a container and its process. The process is nil if it has ended.
func (ps *processes) alive(id string) (*container, *process, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	v := ps.find(id)
	switch {
	case ps.removed:
		return nil, nil, errRemoved
	case v == nil:
		return nil, nil, fmt.Errorf("task %s does not exist", id)
	case !v.up():
		return v, nil, nil
	}
	return v, v.process, nil
}

// find returns a container, or nil. ps.mu is held.
func (ps *processes) find(id string) *container {
	v, _ := lists.First(ps.containers, func(v *container) bool { return v.id == id })
	return v
}
