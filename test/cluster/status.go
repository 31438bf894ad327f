package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Signals can be sent to a daemon.
var Signals = map[string]unix.Signal{"stop": unix.SIGSTOP, "cont": unix.SIGCONT, "term": unix.SIGTERM, "kill": unix.SIGKILL}

// Signal sends one of the daemons a signal: a test stops the API server and lets it go on.
func (l Layout) Signal(daemon, signal string) error {
	number, known := Signals[signal]
	if !known {
		return fmt.Errorf("signal %q: not one of cont, kill, stop, term", signal)
	}
	if !slices.Contains(Daemons(), daemon) {
		return fmt.Errorf("signal %s: %q is not one of %s", signal, daemon, strings.Join(Daemons(), ", "))
	}
	pids, err := l.pids(daemon)
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return fmt.Errorf("signal %s: %s is not running in cluster %s", signal, daemon, l.Name)
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, number); err != nil {
			return fmt.Errorf("signal %s to %s: %w", signal, daemon, err)
		}
	}
	return nil
}

// pids of a daemon as this machine sees them, from the names the processes of the control group were called by.
func (l Layout) pids(daemon string) ([]int, error) {
	group, err := l.cgroup()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, pid := range group.Daemons() {
		line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err != nil {
			continue // it ended meanwhile
		}
		called, _, _ := strings.Cut(string(line), "\x00")
		if filepath.Base(called) == daemon {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Status describes the cluster's addresses, paths and processes, one a line.
func Status(ctx context.Context, l Layout) ([]string, error) {
	there, found, err := l.Load()
	if err != nil {
		return nil, err
	}
	if !found {
		return []string{"cluster " + l.Name + ": down"}, nil
	}
	lines := []string{fmt.Sprintf("cluster %s: %s since %s", l.Name, map[bool]string{true: "up", false: "not ready"}[there.Ready && there.running()],
		there.Started.Format("2006-01-02 15:04:05 UTC")),
		"  API server  " + there.Network.Server(),
		fmt.Sprintf("  addresses   node %s, pods %s, services %s, this machine %s on %s", there.Network.Node, there.Network.Pods, there.Network.Services, there.Network.Host, there.Interface()),
		"  kubeconfig  " + there.Kubeconfig(),
		"  kubectl     " + there.program("kubectl"),
		"  containerd  " + there.Containerd(),
		"  logs        " + there.Logs()}
	for _, d := range daemons {
		pids, err := there.pids(d.name)
		if err != nil {
			return nil, err
		}
		state := "not running"
		if len(pids) > 0 {
			state = fmt.Sprintf("process %d, %s", pids[0], memory(pids[0]))
		}
		lines = append(lines, fmt.Sprintf("  %-24s %s", d.name, state))
	}
	if there.Ready {
		ready := "ready"
		if err := (api{there}).nodeReady(ctx); err != nil {
			ready = err.Error()
		}
		lines = append(lines, "  node "+Node+": "+ready)
	}
	return lines, nil
}

// memory is a process's resident set.
func memory(pid int) string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return "ended"
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err == nil {
				return fmt.Sprintf("%d MiB", kib/1024)
			}
		}
	}
	return "memory unknown"
}

// The variables that select the cluster and the directory of the clusters' state.
const NameVariable, RootVariable, CAdvisorVariable = "TARE_CLUSTER_NAME", "TARE_CLUSTER_ROOT", "TARE_CLUSTER_CADVISOR"

// Environment lists the variables for tests: the kubeconfig, and the addresses that it does not contain.
func (l Layout) Environment(program string) []string {
	return append([]string{
		"TARE_TEST_KUBECONFIG=" + l.Kubeconfig(),
		"TARE_TEST_CONTAINERD=" + l.Containerd(),
		"TARE_TEST_NODE_IP=" + l.Network.Node.String(),
		"TARE_TEST_KUBECTL=" + l.program("kubectl"),
		"TARE_TEST_CLUSTER=" + program,
		NameVariable + "=" + l.Name,
		RootVariable + "=" + l.Root,
		"TARE_TEST_TOOLBOX=" + Toolbox,
	}, l.Istio.environment()...)
}
