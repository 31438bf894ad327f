package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/inside/nodeagent"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/agents"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

const token = "0123456789abcdef0123"

// nodes are real agents that read files of this test.
type nodes struct {
	all   []*agents.Agent
	ahead time.Duration // of their clock
	// replace starts the replacement of an agent that does not answer; nil: none is.
	replace func()
}

func (n *nodes) Reconnect(context.Context) bool {
	if n.replace == nil {
		return false
	}
	n.replace()
	n.replace = nil
	return true
}

func (n *nodes) All() []*agents.Agent { return n.all }

func (n *nodes) Clock(string) (ahead, unsure time.Duration, ok bool) { return n.ahead, 0, true }

// containers are the API server's list.
type containers struct {
	list   []cluster.Container
	listed int
}

func (c *containers) Containers(_ context.Context, namespace string) (found []cluster.Container, err error) {
	c.listed++
	for _, one := range c.list {
		if one.Namespace == namespace {
			found = append(found, one)
		}
	}
	return found, nil
}

// group sets the CPU time of a control group.
func group(t *testing.T, root, path string, ns int) {
	t.Helper()
	dir := filepath.Join(root, "cpuacct", filepath.FromSlash(path))
	must.OK(t, os.MkdirAll(dir, 0o755))
	must.OK(t, os.WriteFile(filepath.Join(dir, "cpuacct.usage"), []byte(fmt.Sprintln(ns)), 0o600))
}

// start starts an agent, and returns the function that ends it.
func (n *nodes) start(t *testing.T, name, root string) (stop func()) {
	t.Helper()
	s := must.Get(nodeagent.NewServer(token, root))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	var d net.Dialer
	client := nodeagent.NewClient(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", l.Addr().String())
	}, token)
	n.all = append(n.all, &agents.Agent{Client: client, Node: cluster.Node{Name: name, CPUs: 2, Cores: 2}})
	return func() { client.Close(); cancel(); <-done }
}

func task(pod string) platform.Task {
	return platform.Task{Task: mesh.Task{ID: pod + "/app", Namespace: "shop", Pod: pod, Container: "app"}}
}

func TestRead(t *testing.T) {
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	rootA, rootB := t.TempDir(), t.TempDir()
	for _, root := range []string{rootA, rootB} {
		group(t, root, "", 1000)
		group(t, root, "system.slice", 100)
		group(t, root, "kubepods", 600)
	}
	group(t, rootA, "kubepods/podx/"+one, 40)
	group(t, rootB, "kubepods/pody/"+two, 50)
	all := &nodes{ahead: time.Hour}
	stopA, stopB := all.start(t, "a", rootA), all.start(t, "b", rootB)
	source := &containers{list: []cluster.Container{{Namespace: "shop", Pod: "x", Name: "app", Node: "a", ID: one}, {Namespace: "shop", Pod: "y", Name: "app", Node: "b", ID: two}}}
	m := New(source, all)
	tasks := []platform.Task{task("x"), task("y"), task("unknown")}
	read := func(depth meter.Depth) meter.Look {
		t.Helper()
		return must.Get(m.Read(t.Context(), tasks, depth))(t)
	}
	before := time.Now()
	look := read(meter.Counters)
	if x, y := look.Tasks["x/app"], look.Tasks["y/app"]; x.At.Add(time.Hour).Before(before) || x.At.Add(time.Hour).After(time.Now()) {
		t.Errorf("%+v, %+v, between %v and now", x, y, before)
	} else if d := difftest.Of("x.CPU", x.CPU, 40, "y.CPU", y.CPU, 50); d != "" {
		t.Errorf("%s: %+v, %+v, between %v and now", d, x, y, before)
	}
	if err := look.Missing["unknown/app"]; !errors.Is(err, errNoContainer) {
		t.Errorf("unknown: %v", err)
	}
	if look.Node == nil {
		t.Errorf("%+v of %d, %d nodes, %+v", look.Node, look.NodeCPUs, len(look.Nodes), look.Found)
	} else if d := difftest.Of("look.Node.Busy", look.Node.Busy, 2000, "look.NodeCPUs", look.NodeCPUs, 4, "len(look.Nodes)", len(look.Nodes), 2, "len(look.Found)", len(look.Found), 4); d != "" {
		t.Errorf("%s: %+v of %d, %d nodes, %+v", d, look.Node, look.NodeCPUs, len(look.Nodes), look.Found)
	}
	if d, k := look.Tasks["a/daemons"], look.Tasks["a/kernel"]; d.CPU != 100 || k.CPU != 300 || look.Found[0].Plane != metric.Node {
		t.Errorf("node a: %+v, %+v", d, k)
	}

	// After a restart the container has another ID. It is found without an edge.
	tasks = tasks[:2]
	three := strings.Repeat("3", 64)
	must.OK(t, os.RemoveAll(filepath.Join(rootA, "cpuacct", "kubepods", "podx", one)))
	group(t, rootA, "kubepods/podx/"+three, 5)
	source.list[0].ID, source.list[0].Restarts, source.list[0].OOMKilled = three, 1, true
	if r := read(meter.Counters).Tasks["x/app"]; r.CPU != 5 || r.Restarts != 0 {
		t.Errorf("after a restart: %+v", r)
	}
	if r := read(meter.Edge).Tasks["x/app"]; r.Restarts != 1 || r.OOMKills != 1 {
		t.Errorf("at an edge: %+v", r)
	}
	listed := source.listed
	read(meter.Counters)
	if source.listed != listed {
		t.Errorf("a reading between edges listed containers: %d, %d before", source.listed, listed)
	}

	// A node that is away lacks its tasks, and only these. Without any node the reading is a gap.
	stopB()
	look = read(meter.Counters)
	if _, ok := look.Tasks["x/app"]; !ok || look.Missing["y/app"] == nil || look.Node != nil || look.NodeErr == nil || look.Gap != nil {
		t.Errorf("without node b: %+v", look)
	}
	stopA()
	if look = read(meter.Counters); look.Gap == nil {
		t.Errorf("without nodes: %+v", look)
	}
}

// An agent that is deleted while it is needed is replaced, and the next reading is the replacement's: no task is missing.
// A plan of the deleted agent ends at once, with the cause.
func TestReplacedAgent(t *testing.T) {
	id, root := strings.Repeat("1", 64), t.TempDir()
	for path, ns := range map[string]int{"": 1000, "system.slice": 100, "kubepods": 600, "kubepods/podx/" + id: 40} {
		group(t, root, path, ns)
	}
	all := &nodes{}
	stop := all.start(t, "a", root)
	m := New(&containers{list: []cluster.Container{{Namespace: "shop", Pod: "x", Name: "app", Node: "a", ID: id}}}, all)
	replaced := func() {
		all.all = nil
		t.Cleanup(all.start(t, "a", root))
	}
	f := must.Get(m.Follow(t.Context(), [][]platform.Task{{task("x")}}, []time.Time{time.Now().Add(time.Hour)}))(t)
	stop()
	all.replace = replaced
	look, err := m.Read(t.Context(), []platform.Task{task("x")}, meter.Edge)
	if err != nil {
		t.Errorf("after the replacement: %+v, %v", look, err)
	} else if d := difftest.Wrong("look.Gap != nil", look.Gap != nil, `look.Tasks["x/app"].CPU != 40`, look.Tasks["x/app"].CPU != 40, "len(look.Missing) > 0", len(look.Missing) > 0); d != "" {
		t.Errorf("%s: after the replacement: %+v, %v", d, look, err)
	}
	all.replace = func() {}
	if _, _, err := f.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "node agent of a") {
		t.Errorf("the plan of a deleted agent: %v", err)
	}
}

// The daemons of a node have no common peak: it is the most memory of the readings so far, never less than an earlier one.
func TestPeakOfDaemons(t *testing.T) {
	m := New(&containers{}, &nodes{})
	on := []*agents.Agent{{Node: cluster.Node{Name: "a"}}}
	for _, c := range []struct{ memory, peak int64 }{{5, 5}, {9, 9}, {7, 9}} {
		look := meter.Look{Tasks: map[string]result.Reading{}}
		m.addNodes(&look, on, map[string]answer{"a": {Reading: nodeagent.Reading{Node: &nodeagent.Node{DaemonMemory: c.memory}}}})
		if r := look.Tasks["a/daemons"]; r.RSS != c.memory || r.Peak != c.peak {
			t.Errorf("%d bytes with a peak of %d, want %d with %d", r.RSS, r.Peak, c.memory, c.peak)
		}
	}
}
