package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/tare-mesh/tare/internal/base/check"
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
		for _, pid := range sidecarPIDs(p, tasks) {
			pids[pid] = p
			for _, name := range descriptorsOf(pid) {
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

func sidecarPIDs(p *pod, tasks []platform.Task) (pids []int) {
	for _, t := range tasks {
		if strings.HasPrefix(t.ID, p.proxyID()) {
			pids = append(pids, t.PID)
		}
	}
	return pids
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
