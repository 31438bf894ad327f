package cluster

import (
	"context"
	"errors"
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

// Signal sends one of a node's daemons a signal: a test stops the API server and lets it go on. Of node "", the first.
func (l Layout) Signal(node, daemon, signal string) error {
	number, known := Signals[signal]
	if !known {
		return fmt.Errorf("signal %q: not one of cont, kill, stop, term", signal)
	}
	if !slices.Contains(Daemons(), daemon) {
		return fmt.Errorf("signal %s: %q is not one of %s", signal, daemon, strings.Join(Daemons(), ", "))
	}
	n, err := l.find(node)
	if err != nil {
		return fmt.Errorf("signal %s to %s: %w", signal, daemon, err)
	}
	pids, err := n.pids(daemon)
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return fmt.Errorf("signal %s: %s is not running on %s of cluster %s", signal, daemon, n.name(), l.Name)
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, number); err != nil {
			return fmt.Errorf("signal %s to %s: %w", signal, daemon, err)
		}
	}
	return nil
}

// Kill ends all processes of a node other than the first, as if it lost its power. It does not come back.
func (l Layout) Kill(node string) error {
	n, err := l.find(node)
	if err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	if n.first() {
		return fmt.Errorf("kill %s: it has the control plane", n.name())
	}
	group, err := n.group()
	if err != nil {
		return err
	}
	return await(context.Background(), downLimit, "the processes of "+n.name()+" to end", func(context.Context) error { return group.Kill() })
}

// runs reports whether the node has a process of a daemon.
func (n node) runs(daemon string) bool {
	pids, err := n.pids(daemon)
	return err == nil && len(pids) > 0
}

// pids of a daemon as this machine sees them, from the names the processes of the control group were called by.
func (n node) pids(daemon string) ([]int, error) {
	group, err := n.group()
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
	lines := []string{fmt.Sprintf("cluster %s: %s since %s", l.Name, map[bool]string{true: "up", false: "not ready"}[there.IsUp()],
		there.Started.Format("2006-01-02 15:04:05 UTC")),
		"  API server  " + there.Network.Server(),
		fmt.Sprintf("  addresses   first node %s, pods %s, services %s, this machine %s on %s", there.Network.Node, there.Network.Pods, there.Network.Services, there.Network.Host, there.Interface()),
		"  kubeconfig  " + there.Kubeconfig(),
		"  kubectl     " + there.program("kubectl"),
		"  containerd  " + there.Containerd(),
		"  logs        " + there.Logs()}
	for _, n := range there.nodes() {
		of, err := n.status(ctx)
		if err != nil {
			return nil, err
		}
		lines = append(lines, of...)
	}
	return lines, nil
}

// IsUp reports whether the cluster was ready once, and its processes still run.
func (l Layout) IsUp() bool { return l.Ready && l.running() }

// status are lines about the node and its daemons.
func (n node) status(ctx context.Context) (lines []string, err error) {
	state := "not ready"
	if n.Ready {
		state = "ready"
		if err := n.isReady(ctx); err != nil {
			state = err.Error()
		}
	}
	lines = append(lines, fmt.Sprintf("  node %s at %s: %s", n.name(), n.address(), state))
	for _, d := range n.daemons() {
		pids, err := n.pids(d.name)
		if err != nil {
			return nil, err
		}
		state := "not running"
		if len(pids) > 0 {
			state = fmt.Sprintf("process %d, %s", pids[0], memory(pids[0]))
		}
		lines = append(lines, fmt.Sprintf("    %-24s %s", d.name, state))
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

const nodesVariable = "TARE_TEST_NODES"

// WithoutNodes is the environment of tests when an Up has failed with err: tests with several nodes are skipped on
// a machine that can hold but one.
func WithoutNodes(err error) []string {
	if errors.Is(err, ErrOneNode) {
		return []string{nodesVariable + "=1"}
	}
	return nil
}

// Environment lists the variables for tests: the kubeconfig, and the addresses that it does not contain.
func (l Layout) Environment(program string) []string {
	return slices.Concat([]string{
		"TARE_TEST_KUBECONFIG=" + l.Kubeconfig(),
		"TARE_TEST_CONTAINERD=" + l.Containerd(),
		"TARE_TEST_NODE_IP=" + l.Network.Node.String(),
		fmt.Sprintf("%s=%d", nodesVariable, len(l.nodes())),
		"TARE_TEST_KUBECTL=" + l.program("kubectl"),
		"TARE_TEST_CLUSTER=" + program,
		NameVariable + "=" + l.Name,
		RootVariable + "=" + l.Root,
		"TARE_TEST_TOOLBOX=" + Toolbox,
	}, l.Istio.environment(), l.gatewayCharts())
}
