package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// Planned readings of two nodes are joined, each at its instant in tare's time, by group.
func TestFollow(t *testing.T) {
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	rootA, rootB := t.TempDir(), t.TempDir()
	for _, root := range []string{rootA, rootB} {
		group(t, root, "", 1000)
		group(t, root, "system.slice", 100)
		group(t, root, "kubepods", 600)
	}
	group(t, rootA, "kubepods/podx/"+one, 40)
	group(t, rootB, "kubepods/pody/"+two, 50)
	all := &nodes{ahead: time.Minute}
	t.Cleanup(all.start(t, "a", rootA))
	stopB := all.start(t, "b", rootB)
	source := &containers{list: []cluster.Container{{Namespace: "shop", Pod: "x", Name: "app", Node: "a", ID: one}, {Namespace: "shop", Pod: "y", Name: "app", Node: "b", ID: two}}}
	m := New(source, all)
	kernel := platform.Task{Task: mesh.Task{ID: "b/kernel", Pod: "b", Container: "kernel", Plane: metric.Node}}
	groups := [][]platform.Task{{task("x"), task("unknown")}, {task("y"), task("x"), kernel}}
	// The agents' clocks are a minute ahead by the test's own account, so these instants are a minute ago.
	begin := time.Now().Add(-time.Minute).Add(200 * time.Millisecond)
	at := []time.Time{begin, begin.Add(20 * time.Millisecond), begin.Add(40 * time.Millisecond)}
	f, err := m.Follow(t.Context(), groups, at)
	must.OK(t, err)
	var got []meter.Instant
	for done := false; !done; {
		var read []meter.Instant
		if read, done, err = f.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		got = append(got, read...)
	}
	if len(got) != len(at) {
		t.Fatalf("%d instants, want %d", len(got), len(at))
	}
	for i, one := range got {
		first, second := one.Looks[0], one.Looks[1]
		if first.Tasks["x/app"].CPU != 40 || first.Missing["unknown/app"] == nil {
			t.Errorf("instant %d: %+v", i, one)
		} else if d := difftest.Of("len(first.Tasks)", len(first.Tasks), 1, `second.Tasks["y/app"].CPU`, second.Tasks["y/app"].CPU, 50, `second.Tasks["x/app"].CPU`, second.Tasks["x/app"].CPU, 40, `second.Tasks["b/kernel"].CPU`, second.Tasks["b/kernel"].CPU, 300); d != "" {
			t.Errorf("%s: instant %d: %+v", d, i, one)
		}
		if one.At.Before(at[i]) {
			t.Errorf("instant %d is %v before it was due", i, at[i].Sub(one.At))
		}
	}
	stopB()
	if _, err := m.Follow(t.Context(), groups, []time.Time{time.Now()}); err == nil {
		t.Error("a plan without the agent of a node with tasks")
	}
}
