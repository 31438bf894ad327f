package local

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/tare-mesh/tare/internal/run/platform"
)

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
	names, err := p.FileDescriptorTargets()
	if err != nil {
		return nil
	}
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
