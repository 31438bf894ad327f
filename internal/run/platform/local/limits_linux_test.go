package local

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/cgroup"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

// limitedTo deploys the reference proxy with limits. Where this user may make no control groups the test is skipped.
func limitedTo(t *testing.T, l cgroup.Limits) (*deployment, error) {
	t.Helper()
	limited := must.Get(load(t, "reference").Variant("limited", mesh.Overrides{Limits: l}))(t)
	d, _, err := deploy(t, Options{}, limited)
	if err != nil && strings.Contains(hint.Of(err), "systemd-run") {
		t.Skipf("no control groups here: %v", err)
	}
	return d, err
}

// The sidecars of a mesh with limits run in control groups of their own, whose counters are read with the tasks.
func TestLimitsOfSidecars(t *testing.T) {
	d, err := limitedTo(t, cgroup.Limits{CPU: 0.5, Memory: 256 << 20})
	must.OK(t, err)
	tasks := must.Get(d.Tasks(t.Context()))(t)
	for _, task := range tasks {
		if sidecar := strings.HasSuffix(task.ID, "/sidecar"); sidecar != (cgroup.Of(task.PID) != nil) {
			t.Errorf("%s: in a group with limits: %v", task.ID, !sidecar)
		}
	}
}

// The error of a sidecar that is killed at its memory limit names the limit, and the group is removed.
func TestSidecarAboveItsMemoryLimit(t *testing.T) {
	l := limits{of: cgroup.Limits{Memory: 16 << 20}}
	g, err := l.group(&workspace{runtime: &runtimeDir{path: t.TempDir()}}, "echo-0")
	if err != nil && strings.Contains(hint.Of(err), "systemd-run") {
		t.Skipf("no control groups here: %v", err)
	}
	must.OK(t, err)
	grows := exec.Command("sh", "-c", "read go; x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done")
	in := must.Get(grows.StdinPipe())(t)
	must.OK(t, grows.Start())
	must.OK(t, g.Add(grows.Process.Pid))
	must.Get(in.Write([]byte("\n")))(t)
	killed := grows.Wait()
	must.Fail(t, l.explain("echo-0", killed), "the sidecar of echo-0 was OOMKilled: it needs more than its memory limit of 16 MiB", "a process in 16 MiB")
	if err := l.explain("echo-1", killed); !errors.Is(err, killed) || strings.Contains(err.Error(), "OOMKilled") {
		t.Errorf("the error of another pod is %v", err)
	}
	must.OK(t, l.remove())
	if err := g.Add(os.Getpid()); err == nil {
		t.Error("the group is still there")
	}
}
