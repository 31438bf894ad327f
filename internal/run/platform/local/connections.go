package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"runtime"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// tcpEstablished is the state of an open connection in /proc/net/tcp.
const tcpEstablished = 0x01

// connections implements [platform.Connections] by the kernel's sockets.
type connections struct{ layout *layout }

// CheckConnections implements [platform.Connections].
func (c *connections) CheckConnections(_ context.Context, tasks []platform.Task) ([]check.Check, error) {
	if !c.layout.proxied() || runtime.GOOS != "linux" {
		return nil, nil
	}
	open, err := openConnections()
	if err != nil {
		return nil, fmt.Errorf("read the open connections: %w", err)
	}
	var proxies []socketOwner // of all pods
	for _, p := range c.layout.proxiedPods() {
		proxies = append(proxies, sidecarOf(p, tasks))
	}
	var checks []check.Check
	for _, s := range c.layout.spec.Topology.Services {
		application := check.Check{Name: "connections to the application of " + s.Name, OK: true}
		sidecar := check.Check{Name: "connections to the sidecar of " + s.Name, OK: true}
		n := [2]int{}
		for _, p := range c.layout.pods[s.Name] {
			n[0] += judge(&application, open[p.app], p.app, []socketOwner{sidecarOf(p, tasks)})
			n[1] += judge(&sidecar, open[p.inbound], p.inbound, proxies)
		}
		for i, one := range []*check.Check{&application, &sidecar} {
			if one.OK {
				one.Detail = fmt.Sprintf("%d open, all of the proxies before it", n[i])
			}
			checks = append(checks, *one)
		}
	}
	return checks, nil
}

// socketOwner is a set of processes.
type socketOwner struct{ pids []int }

// sidecarOf are the processes of a pod's sidecar.
func sidecarOf(p *pod, tasks []platform.Task) (o socketOwner) {
	for _, t := range tasks {
		if strings.HasPrefix(t.ID, p.name+"/"+sidecarContainer) {
			o.pids = append(o.pids, t.PID)
		}
	}
	return o
}

// has reports whether a process of the owners has a socket.
func has(owners []socketOwner, socket string) bool {
	for _, o := range owners {
		for _, pid := range o.pids {
			for _, name := range descriptorsOf(pid) {
				if name == socket {
					return true
				}
			}
		}
	}
	return false
}

// judge reports a connection of another process than the owners to an address, and returns the number of connections.
func judge(c *check.Check, sockets map[string]netip.AddrPort, to netip.AddrPort, owners []socketOwner) (n int) {
	for _, o := range owners {
		for _, pid := range o.pids {
			for _, name := range descriptorsOf(pid) {
				if _, ok := sockets[name]; ok {
					delete(sockets, name)
					n++
				}
			}
		}
	}
	for socket, from := range sockets {
		owner := ownerOf(socket)
		if owner == "" || has(owners, socket) || !isOpen(socket, to) {
			continue // it was closed, or opened by a process that has just started
		}
		c.OK, c.Hint = false, pathHint
		c.Detail = fmt.Sprintf("a connection from %s belongs to %s, not to the proxy", from, owner)
	}
	return n
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
	ends, err := established()
	all := map[netip.AddrPort]map[string]netip.AddrPort{}
	for _, c := range ends {
		if all[c.to] == nil {
			all[c.to] = map[string]netip.AddrPort{}
		}
		all[c.to][c.socket] = c.from
	}
	return all, err
}

// connection is one end of a TCP connection, with its socket as the descriptors of processes name it.
type connection struct {
	from, to netip.AddrPort
	socket   string
}

// established lists both ends of the established TCP connections of this network namespace.
func established() ([]connection, error) {
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
			if l.St == tcpEstablished && okFrom && okTo {
				all = append(all, connection{netip.AddrPortFrom(from.Unmap(), uint16(l.LocalPort)), netip.AddrPortFrom(to.Unmap(), uint16(l.RemPort)), fmt.Sprintf("socket:[%d]", l.Inode)})
			}
		}
	}
	return all, nil
}

// ownerOf names a process of this user that has a socket, "" if there is none.
func ownerOf(socket string) string {
	procs, err := procfs.AllProcs()
	if err != nil {
		return ""
	}
	for _, p := range procs {
		if has([]socketOwner{{[]int{p.PID}}}, socket) {
			name, _ := p.Comm()
			return fmt.Sprintf("%s (process %d)", name, p.PID)
		}
	}
	return ""
}
