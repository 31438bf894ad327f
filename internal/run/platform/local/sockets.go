package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/app"
	loads "github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// States of sockets in /proc/net/tcp.
const (
	tcpEstablished = 0x01
	tcpFinWait1    = 0x04
	tcpFinWait2    = 0x05
	tcpTimeWait    = 0x06
	tcpCloseWait   = 0x08
	tcpLastAck     = 0x09
	tcpListen      = 0x0a
	tcpClosing     = 0x0b
)

// checkConnections implements [platform.Deployment.CheckConnections] by the kernel's sockets.
func (l *layout) checkConnections(_ context.Context, tasks []platform.Task) ([]check.Check, error) {
	if !l.proxied() {
		return nil, nil
	}
	open, err := openConnections()
	if err != nil {
		return nil, fmt.Errorf("read the open connections: %w", err)
	}
	owners := map[string]*pod{} // the pod whose sidecar has a socket
	pids := map[int]*pod{}
	for _, p := range l.proxiedPods() {
		for _, t := range tasks {
			if !strings.HasPrefix(t.ID, p.proxyID()) {
				continue
			}
			pids[t.PID] = p
			for _, name := range descriptorsOf(t.PID) {
				owners[name] = p
			}
		}
	}
	var checks []check.Check
	for _, s := range l.spec.Topology.Services {
		if !l.sidecars() && s.Name != l.spec.Topology.EntryName() {
			continue // behind a gateway services call one another directly
		}
		application := check.Check{Name: "connections to the application of " + s.Name, OK: true}
		sidecar := check.Check{Name: "connections to the sidecar of " + s.Name, OK: true}
		n := [2]int{}
		for _, p := range l.pods[s.Name] {
			before := p // whose proxy is before the application
			if !l.sidecars() {
				before = l.front
			}
			n[0] += judge(&application, open[p.app], p.app, owners, pids, func(owner *pod) bool { return owner == before })
			n[1] += judge(&sidecar, open[p.inbound], p.inbound, owners, pids, func(owner *pod) bool { return owner != nil })
		}
		if !l.sidecars() {
			sidecar.Name = ""
		}
		for i, one := range []*check.Check{&application, &sidecar} {
			if one.OK {
				one.Detail = fmt.Sprintf("%d open, all of the proxies before it", n[i])
			}
			if one.Name != "" {
				checks = append(checks, *one)
			}
		}
	}
	return checks, nil
}

// judge reports a connection to an address whose socket belongs to another process than a sidecar of an allowed pod. It
// returns the number of the allowed ones.
func judge(c *check.Check, sockets map[string]netip.AddrPort, to netip.AddrPort, owners map[string]*pod, pids map[int]*pod, allowed func(*pod) bool) (n int) {
	for socket, from := range sockets {
		if allowed(owners[socket]) {
			n++
			continue
		}
		name, pid := ownerOf(socket)
		if pid == 0 || allowed(sidecarOf(pids, pid)) || !isOpen(socket, to) {
			continue // it was closed, or opened by a sidecar a moment ago
		}
		c.OK, c.Hint = false, pathHint
		c.Detail = fmt.Sprintf("a connection from %s belongs to %s (process %d), not to the proxy", from, name, pid)
	}
	return n
}

// sidecarOf returns the pod of which a process, or one of its ancestors, is the sidecar: a reload starts new workers at any time.
func sidecarOf(pids map[int]*pod, pid int) *pod {
	for pid > 1 && pids[pid] == nil {
		process, err := procfs.NewProc(pid)
		if err != nil {
			return nil
		}
		stat, err := process.Stat()
		if err != nil {
			return nil
		}
		pid = stat.PPID
	}
	return pids[pid]
}

// isOpen reports whether a socket is still connected to an address.
func isOpen(socket string, to netip.AddrPort) bool {
	open, err := openConnections()
	_, ok := open[to][socket]
	return err == nil && ok
}

// openConnections returns the open connections of this network namespace: by the address that they lead to, their own address
// by socket.
func openConnections() (map[netip.AddrPort]map[string]netip.AddrPort, error) {
	ends, err := sockets(tcpEstablished)
	all := map[netip.AddrPort]map[string]netip.AddrPort{}
	for _, c := range ends {
		if all[c.to] == nil {
			all[c.to] = map[string]netip.AddrPort{}
		}
		all[c.to][c.socket] = c.from
	}
	return all, err
}

// connection is one end of a TCP connection, or a listener, with its socket as the descriptors of processes name it.
type connection struct {
	from, to netip.AddrPort
	socket   string
}

// sockets lists the TCP sockets of this network namespace in some states. Of a connection it lists both ends.
func sockets(states ...uint64) ([]connection, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, err
	}
	var all []connection
	//lint:ignore SA1019 The kernel serves these files without netlink and its further libraries.
	for _, read := range []func() (procfs.NetTCP, error){proc.NetTCP, proc.NetTCP6} {
		lines, err := read()
		if errors.Is(err, fs.ErrNotExist) {
			continue // without IPv6
		}
		if err != nil {
			return nil, err
		}
		for _, l := range lines {
			from, okFrom := netip.AddrFromSlice(l.LocalAddr)
			to, okTo := netip.AddrFromSlice(l.RemAddr)
			if slices.Contains(states, l.St) && okFrom && okTo {
				all = append(all, connection{netip.AddrPortFrom(from.Unmap(), uint16(l.LocalPort)), netip.AddrPortFrom(to.Unmap(), uint16(l.RemPort)), fmt.Sprintf("socket:[%d]", l.Inode)})
			}
		}
	}
	return all, nil
}

// ownerOf finds the process of this user that has a socket; 0 if there is none.
func ownerOf(socket string) (name string, pid int) {
	procs, err := procfs.AllProcs()
	if err != nil {
		return "", 0
	}
	for _, p := range procs {
		if slices.Contains(descriptorsOf(p.PID), socket) {
			name, _ := p.Comm()
			return name, p.PID
		}
	}
	return "", 0
}

// socketCounts counts the requests that reach the entry's program behind proxies without counters, if it is the user's: the
// bytes that its sockets have received, over the bytes of a request as it arrives there.
type socketCounts struct {
	layout  *layout
	bytes   podBytes // nil before learn
	each    int64    // bytes of a request as it arrives
	unknown error    // why requests are not counted
}

// podBytes are the bytes that the applications of pods have received, or sent.
type podBytes map[*pod]*socketBytes

func newPodBytes(pods []*pod, sent bool) (podBytes, error) {
	all := podBytes{}
	for _, p := range pods {
		r, err := newSocketBytes(p.app, sent)
		if err != nil {
			all.close()
			return nil, err
		}
		all[p] = r
	}
	return all, nil
}

func (all podBytes) close() {
	for _, r := range all {
		_ = r.close()
	}
}

const (
	// samples is the number of requests that the size is learned from, and mostSamples of them must have it. A proxy may answer
	// or repeat the others.
	samples     = 12
	mostSamples = 8
	// learning bounds the time, after which leastSamples are enough.
	learning     = 3 * time.Second
	leastSamples = 4
	// arrival bounds the wait for the bytes of a request after its answer.
	arrival = 200 * time.Millisecond
)

// needed reports whether nothing else counts the entry's requests.
func (sc *socketCounts) needed() bool {
	return sc.layout.proxied() && sc.layout.spec.Entry().IsOwn() && !sc.layout.spec.Mesh.Local.Verify.Counts()
}

// learn finds out how many bytes a request of the load has when it arrives.
func (sc *socketCounts) learn(ctx context.Context, p loads.Profile) {
	if sc.needed() && sc.bytes == nil {
		if sc.each, sc.unknown = sc.size(ctx, p); sc.unknown != nil {
			sc.close()
		}
	}
}

// count adds the count of a replica of the entry.
func (sc *socketCounts) count(p *pod, from balance.Count) balance.Count {
	switch of := sc.bytes[p]; {
	case from.Unknown != "":
	case sc.unknown != nil:
		from.Unknown = sc.unknown.Error()
	case of == nil:
		from.Unknown = "your own program has no counter that tare reads"
	default:
		n, err := of.read()
		if err != nil {
			from.Unknown = err.Error()
			break
		}
		from.Count, from.Bytes = (n+sc.each/2)/sc.each, sc.each
	}
	return from
}

func (sc *socketCounts) close() {
	sc.bytes.close()
	sc.bytes = podBytes{}
}

// size returns the bytes of a request, from requests as the load engine writes them.
func (sc *socketCounts) size(ctx context.Context, p loads.Profile) (int64, error) {
	sc.bytes = podBytes{}
	entry := sc.layout.spec.Entry()
	if protocol := sc.layout.pods[entry.Name][0].carried(); protocol != app.HTTP1 && protocol != "" {
		return 0, fmt.Errorf("requests of %s are not counted by the bytes of sockets", protocol)
	}
	if sc.layout.spec.Mesh.Provides.Retries {
		return 0, errors.New("the mesh may repeat requests, and counts none")
	}
	targets, err := requestsOfEngine(ctx, p)
	if err != nil {
		return 0, err
	}
	if sc.bytes, err = newPodBytes(sc.layout.pods[entry.Name], false); err != nil {
		return 0, err
	}
	sizes, err := sc.bytes.sample(ctx, &rawClient{}, targets)
	if err != nil {
		return 0, err
	}
	return sizes.common()
}

// sample sends requests one after another, and closes the client.
func (all podBytes) sample(ctx context.Context, client *rawClient, targets []target.Target) (sizes requestSizes, err error) {
	began, last := time.Now(), int64(0)
	defer func() { // the end of the connection is announced some time after it
		client.close()
		_, _ = all.settled(ctx, last-samples)
	}()
	for i := range max(samples, min(len(targets), 4*samples)) {
		if len(sizes.seen) >= leastSamples && time.Since(began) > learning {
			break
		}
		before, err := all.received()
		if err == nil {
			err = client.send(ctx, targets[i%len(targets)])
		}
		if err != nil {
			return sizes, fmt.Errorf("learn the size of a request: %w", err)
		}
		if last, err = all.settled(ctx, before); err != nil {
			return sizes, err
		}
		sizes.add(last - before)
	}
	return sizes, nil
}

// arrive proves the path through a gateway that translates requests. No random answer comes through it: instead, requests that are sent
// one after another are counted by the bytes that they bring to the application.
func (sc *socketCounts) arrive(ctx context.Context, p loads.Profile) []check.Check {
	if !sc.layout.proxied() || !sc.layout.spec.Mesh.Local.Translates {
		return nil
	}
	c := check.Check{Name: arrivedThrough + sc.layout.front.proxyText(), Hint: arrivedHint}
	a, err := sc.arrivals(ctx, p)
	switch {
	case err != nil:
		c.Detail = err.Error()
	case a.arrived != a.sent:
		c.Detail = fmt.Sprintf("%d requests were answered, and %d arrived at the application", a.sent, a.arrived)
	default:
		c.OK, c.Detail = true, fmt.Sprintf("%d requests were answered, and as many arrived at the application", a.sent)
	}
	if a.answers >= manyAnswers {
		c.Caution = fmt.Sprintf("the application sends %.1f times the bytes of its answer to a direct request: the gateway calls it several times a request, or makes it answer more", a.answers)
		c.Hint = "if the gateway repeats or mirrors requests, the figures of the application contain that work: switch it off, or compare gateways that all do it"
	}
	return []check.Check{c}
}

// arrivedThrough begins the name of a check of arrivals, and arrivedHint is its hint.
const (
	arrivedThrough = "arrivals through "
	arrivedHint    = "the gateway refuses requests, answers them itself, or sends others of its own: let it forward each one once, without cache, retries and mirrors"
)

// manyAnswers is the share of a direct answer that the application sends a request, from which a gateway is reported: one that sends
// each request twice has 2.
const manyAnswers = 1.75

// arrivals are requests through a gateway, one after another.
type arrivals struct {
	sent    int64   // answered requests
	arrived int64   // by the bytes that the application received
	answers float64 // bytes that the application sent a request, over the bytes of a direct answer. 0: unknown
}

func (sc *socketCounts) arrivals(ctx context.Context, p loads.Profile) (a arrivals, err error) {
	targets, err := requestsOfEngine(ctx, p)
	if err != nil {
		return a, err
	}
	pods := sc.layout.pods[sc.layout.spec.Entry().Name]
	in, err := newPodBytes(pods, false)
	if err != nil {
		return a, err
	}
	defer in.close()
	out, err := newPodBytes(pods, true)
	if err != nil {
		return a, err
	}
	defer out.close()
	client := &rawClient{}
	if err := client.send(ctx, targets[0]); err != nil { // connections of the gateway are opened
		return a, fmt.Errorf("a request through the gateway: %w", err)
	}
	before, err := in.settled(ctx, 0)
	if err != nil {
		return a, err
	}
	answered, err := out.settled(ctx, math.MaxInt64)
	if err != nil {
		return a, err
	}
	sizes, err := in.sample(ctx, client, targets[:1])
	if err != nil {
		return a, err
	}
	each, err := sizes.common()
	if err != nil {
		return a, err
	}
	after, err := in.received()
	if err != nil {
		return a, err
	}
	a.sent, a.arrived = sizes.sent, (after-before+each/2)/each
	through, err := out.settled(ctx, math.MaxInt64)
	if err != nil {
		return a, err
	}
	direct := targets[0]
	direct.Addrs = []netip.AddrPort{pods[0].app}
	if n := accepted(ctx, direct); n > 0 {
		alone, err := out.settled(ctx, math.MaxInt64)
		a.answers = float64(through-answered) / float64(a.sent) * float64(n) / float64(alone-through)
		return a, err
	}
	return a, nil
}

// accepted sends requests one after another, and returns their number: 0 if the server refuses them, or gives no answer.
func accepted(ctx context.Context, t target.Target) (n int) {
	client := &rawClient{}
	defer client.close()
	for began := time.Now(); n < samples && time.Since(began) < learning; n++ {
		if client.send(ctx, t) != nil || client.status >= http.StatusBadRequest {
			return 0
		}
	}
	return n
}

// requestSizes are the bytes of requests that arrived one after another.
type requestSizes struct {
	sent int64
	seen []int64
	late bool // the last request brought no bytes
}

// add adds the bytes that arrived with a request. Without bytes a proxy has answered, or the kernel announces the end of their
// connection later, which adds them to the next request: neither that request nor the next one is a sample.
func (s *requestSizes) add(bytes int64) {
	s.sent++
	if bytes > 0 && !s.late {
		s.seen = append(s.seen, bytes)
	}
	s.late = bytes == 0
}

// common returns the size that mostSamples of samples have.
func (s *requestSizes) common() (int64, error) {
	times := map[int64]int{}
	for _, size := range s.seen {
		if times[size]++; len(s.seen) >= leastSamples && times[size]*samples >= mostSamples*len(s.seen) {
			return size, nil
		}
	}
	if len(s.seen) < leastSamples {
		return 0, fmt.Errorf("too few requests arrive to learn their size: %d, %d needed", len(s.seen), leastSamples)
	}
	return 0, fmt.Errorf("requests arrive in several sizes (bytes: times): %v", times)
}

// requestsOfEngine are the requests to the targets of p as the load engine writes them.
func requestsOfEngine(ctx context.Context, p loads.Profile) ([]target.Target, error) {
	p = p.WithDefaults()
	all, err := target.Resolve(ctx, &p, target.Body(&p), net.DefaultResolver.LookupNetIP)
	for _, t := range all {
		if len(t.Addrs) == 0 {
			return nil, errors.New("a target has no address")
		}
	}
	return all, err
}

func (all podBytes) received() (sum int64, err error) {
	for _, r := range all {
		n, err := r.read()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// settled returns the received bytes once two readings agree on more than before, or after the time of arrival.
func (all podBytes) settled(ctx context.Context, before int64) (last int64, err error) {
	for began := time.Now(); ; {
		over := time.Since(began) > arrival // before the reading: it may wait for a processor
		now, err := all.received()
		if err != nil || now == last && now > before || over {
			return now, err
		}
		last = now
		if err := wait.For(ctx, adminPause); err != nil {
			return 0, err
		}
	}
}

// rawClient sends the bytes of requests, on one connection while the server keeps it.
type rawClient struct {
	conn   net.Conn
	in     *bufio.Reader
	status int // of the last answer of HTTP
}

func (c *rawClient) send(ctx context.Context, t target.Target) error {
	opening := t.Opening
	if c.conn != nil {
		opening = nil
	} else {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", t.Addrs[0].String())
		if err != nil {
			return err
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	if t.Echo != nil || len(t.Until) > 0 {
		within, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		return answered(within, c.conn, opening, loads.Exchange{Send: t.Request, Expect: t.Echo, Until: t.Until})
	}
	if err := c.conn.SetDeadline(time.Now().Add(probeTimeout)); err != nil {
		return err
	}
	if _, err := c.conn.Write(t.Request); err != nil {
		return err
	}
	method, _, _ := strings.Cut(string(t.Request), " ")
	answer, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		return err
	}
	c.status = answer.StatusCode
	_, err = io.Copy(io.Discard, answer.Body)
	if err != nil || answer.Close {
		c.close()
	}
	return err
}

func (c *rawClient) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}
