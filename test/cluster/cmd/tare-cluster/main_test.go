package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/cluster"
)

// On a machine that cannot hold three nodes the command fails in CI. Elsewhere it runs, and the last line is what was
// not tested.
func TestWithoutCluster(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = w
	t.Cleanup(func() { os.Stderr = stderr })
	t.Setenv("CI", "true")
	if err := withoutCluster(t.Context(), []string{"true"}, 3, cluster.ErrOneNode); !errors.Is(err, cluster.ErrOneNode) {
		t.Errorf("in CI: %v", err)
	}
	t.Setenv("CI", "")
	if err := withoutCluster(t.Context(), []string{"sh", "-c", "echo nodes: $TARE_TEST_NODES >&2"}, 3, cluster.ErrOneNode); err != nil {
		t.Error(err)
	}
	_ = w.Close()
	out, err := io.ReadAll(r)
	if err != nil || !strings.HasPrefix(string(out), "nodes: 1\ncluster: 3 nodes were NOT TESTED: "+cluster.ErrOneNode.Error()) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A shell that evaluates the printed command has the value, whatever is in it.
func TestExported(t *testing.T) {
	for _, value := range []string{"/tmp/a/kubeconfig", "", "/home/my user/it's $HOME; \"x\" `id`\n*"} {
		out, err := exec.Command("sh", "-c", exported("VALUE="+value)+"\nprintf %s \"$VALUE\"").Output()
		if err != nil || string(out) != value {
			t.Errorf("%q, want %q: %v", out, value, err)
		}
	}
}
