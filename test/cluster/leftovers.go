package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
)

// leftLimit is the time that deleted objects may take to disappear after the command that used the cluster.
const leftLimit = 90 * time.Second

// kept are the kinds of which a command may leave no object: kinds without a namespace, and kinds in namespaces
// that only users create.
const kept = "namespaces,nodes,clusterroles,clusterrolebindings,customresourcedefinitions,mutatingwebhookconfigurations," +
	"validatingwebhookconfigurations,apiservices,priorityclasses,storageclasses,persistentvolumes," +
	"deployments,statefulsets,daemonsets,jobs,pods,services,configmaps,secrets,roles,rolebindings"

// Objects names the cluster's objects, one a line, without those owned by another object.
func Objects(ctx context.Context, l Layout) (map[string]bool, error) {
	const line = `{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name} {.metadata.ownerReferences[*].kind}{"\n"}{end}`
	out, err := l.Kubectl(ctx, "get", kept, "--all-namespaces", "--output", "jsonpath="+line)
	if err != nil {
		return nil, err
	}
	objects := map[string]bool{}
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) == 2 { // a third is its owner's kind
			objects[words[0]+" "+strings.TrimPrefix(words[1], "/")] = true
		}
	}
	return objects, nil
}

// madeByCluster are objects that its controllers make of their own in time.
var madeByCluster = []string{"ConfigMap kube-system/", "ConfigMap default/kube-root-ca.crt", "ConfigMap kube-public/", "ConfigMap kube-node-lease/", "Secret kube-system/"}

// Left waits for deletions to finish and returns the objects that are not among before.
func Left(ctx context.Context, l Layout, before map[string]bool) error {
	var seen error // what the last look that was finished saw
	return await(ctx, leftLimit, "nothing to be left in the cluster", func(ctx context.Context) error {
		now, err := Objects(ctx, l)
		if err != nil {
			return errors.Join(seen, err)
		}
		left := slices.DeleteFunc(slices.Sorted(maps.Keys(now)), func(name string) bool {
			return before[name] || slices.ContainsFunc(madeByCluster, func(p string) bool { return strings.HasPrefix(name, p) })
		})
		seen = nil
		if len(left) > 0 {
			seen = fmt.Errorf("left: %s", strings.Join(left, ", "))
		}
		return seen
	})
}

// Spaces are the namespaces of the kernel that the first processes of a cluster's nodes have to themselves.
type Spaces struct {
	numbers map[string][]string // by kind, one a node
	// members are the start times of the processes in them, by directory in /proc. The kernel gives the number of
	// a removed namespace to the next one, also to another cluster's, so a number alone proves nothing later.
	members map[string]string
}

// ReadSpaces returns the namespaces of a cluster that is up.
func ReadSpaces(l Layout) (Spaces, error) {
	s := Spaces{numbers: map[string][]string{}, members: map[string]string{}}
	for _, n := range l.nodes() {
		if err := s.add(n); err != nil {
			return s, err
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return s, err
	}
	for _, process := range processes {
		if kind := s.kindOf(process); kind != "" {
			s.members[process] = startTime(process)
		}
	}
	return s, nil
}

// add adds the namespaces of a node. One that was killed has none.
func (s Spaces) add(n node) error {
	process := fmt.Sprintf("/proc/%d", n.init())
	if group, err := n.group(); err != nil || !slices.Contains(group.Daemons(), n.init()) {
		if n.first() {
			return errors.Join(err, errors.New("the cluster's first process is gone"))
		}
		return err
	}
	for _, kind := range []string{"ipc", "mnt", "net", "pid", "uts"} {
		inside, err := os.Readlink(process + "/ns/" + kind)
		if err != nil {
			return err
		}
		outside, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return err
		}
		if inside == outside {
			return fmt.Errorf("namespace %s of %s is the machine's: %s", kind, n.name(), inside)
		}
		s.numbers[kind] = append(s.numbers[kind], inside)
	}
	return nil
}

// kindOf is the kind of a namespace that a process is in. It is "" if it is in none of them, or has ended.
func (s Spaces) kindOf(process string) string {
	for kind, numbers := range s.numbers {
		if in, err := os.Readlink(process + "/ns/" + kind); err == nil && slices.Contains(numbers, in) {
			return kind
		}
	}
	return ""
}

// startTime is in ticks since the start of the machine, or "" if the process has ended.
func startTime(process string) string {
	stat, err := os.ReadFile(process + "/stat")
	if err != nil {
		return ""
	}
	// The name may have spaces and parentheses. The start time is field 22, the 20th after it (proc_pid_stat(5)).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// Remains returns an error for every leftover of a cluster that was taken down: processes, mounts, interface, routes,
// control groups, directory. spaces were read while it was up.
func Remains(ctx context.Context, l Layout, spaces Spaces) error {
	// A killed process is visible until its parent has reaped it: the machine's own first process, where the
	// program that started it is gone.
	remains := []error{await(ctx, downLimit, "processes to be gone", func(context.Context) error { return spaces.left() })}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	remains = append(remains, err)
	for line := range strings.Lines(string(mounts)) {
		isNetwork := func(number string) bool { return strings.Contains(line, number) }
		if strings.Contains(line, l.Dir()) || slices.ContainsFunc(spaces.numbers["net"], isNetwork) {
			remains = append(remains, fmt.Errorf("still mounted: %s", strings.TrimSpace(line)))
		}
	}
	if _, err := net.InterfaceByName(l.Interface()); err == nil {
		remains = append(remains, fmt.Errorf("interface %s remains", l.Interface()))
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	remains = append(remains, err)
	for _, route := range routes {
		if to, ok := prefix(route.Dst); ok && (to.Addr() == l.Network.Services.Addr() || l.Network.Link.Contains(to.Addr()) || l.Network.Pods.Contains(to.Addr())) {
			remains = append(remains, fmt.Errorf("route %s remains", to))
		}
	}
	group, err := l.cgroup()
	remains = append(remains, err)
	if err == nil && len(group.Dirs()) > 0 {
		remains = append(remains, fmt.Errorf("control groups remain: %v", group.Dirs()))
	}
	if _, err := os.Stat(l.Dir()); !os.IsNotExist(err) {
		remains = append(remains, fmt.Errorf("%s remains: %w", l.Dir(), err))
	}
	return errors.Join(remains...)
}

// left is an error if any process is still in one of the namespaces.
func (s Spaces) left() error {
	for process, start := range s.members {
		if kind := s.kindOf(process); kind != "" && startTime(process) == start {
			return fmt.Errorf("%s is in the cluster's %s namespace", process, kind)
		}
	}
	return nil
}
