package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

func TestHierarchies(t *testing.T) {
	const hybrid = `24 18 0:22 / /sys/fs/cgroup/cpu rw,relatime shared:5 - cgroup cgroup rw,cpu
25 18 0:23 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
26 18 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
27 18 0:25 / /tmp rw - tmpfs tmpfs rw
`
	found := parse(hybrid)
	want := []Hierarchy{
		{"/sys/fs/cgroup/cpu", 1, "rw,cpu"}, {"/sys/fs/cgroup/systemd", 1, "rw,name=systemd"}, {"/sys/fs/cgroup/unified", 2, "rw"},
	}
	if !slices.Equal(found, want) {
		t.Errorf("got %v, want %v", found, want)
	}
	if controlled := (Group{hierarchies: found}).controlled(); !slices.Equal(controlled, want[:2]) {
		t.Errorf("of a hybrid system %v have controllers, not %v", controlled, want[:2])
	}
	if controlled := (Group{hierarchies: want[2:]}).controlled(); !slices.Equal(controlled, want[2:]) {
		t.Errorf("version 2 alone: got %v", controlled)
	}
}

// Only hierarchies with the CPU controller have a weight. 1024 shares are the default, and so is 100 on version 2.
func TestShares(t *testing.T) {
	cpu, memory, unified := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{cpu, memory, unified} {
		must.OK(t, os.Mkdir(filepath.Join(dir, "a"), 0o700))
	}
	for _, g := range []Group{{"a", []Hierarchy{{cpu, 1, "rw,cpu,cpuacct"}, {memory, 1, "rw,memory"}}}, {"a", []Hierarchy{{unified, 2, "rw"}}}} {
		must.OK(t, g.SetShares(2048))
	}
	for file, want := range map[string]string{filepath.Join(cpu, "a/cpu.shares"): "2048", filepath.Join(unified, "a/cpu.weight"): "200", filepath.Join(memory, "a/cpu.shares"): ""} {
		if got, _ := os.ReadFile(file); string(got) != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}

func TestAGroupThatIsNotThere(t *testing.T) {
	g := Group{name: "none", hierarchies: []Hierarchy{{Mount: t.TempDir(), Version: 1}}}
	if got := g.Processes(); len(got) != 0 {
		t.Errorf("processes %v", got)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}
