package local

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/cgroup"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// limitedTo deploys the reference proxy with limits. It is nil where this user may make no control groups.
func limitedTo(t *testing.T, l cgroup.Limits) (*deployment, error) {
	t.Helper()
	limited := must.Get(load(t, "reference").Variant("limited", mesh.Overrides{Limits: l}))(t)
	d, _, err := deploy(t, Options{}, limited)
	if err != nil && strings.Contains(hint.Of(err), "systemd-run") {
		t.Logf("no control groups here: %v", err)
		return nil, nil
	}
	return d, err
}

// The sidecars of a mesh with limits run in control groups of their own, whose counters are read with the tasks.
func TestLimitsOfSidecars(t *testing.T) {
	d, err := limitedTo(t, cgroup.Limits{CPU: 0.5, Memory: 256 << 20})
	if d == nil {
		must.OK(t, err)
		return
	}
	tasks := must.Get(d.Tasks(t.Context()))(t)
	for _, task := range tasks {
		if sidecar := strings.HasSuffix(task.ID, "/sidecar"); sidecar != (cgroup.Of(task.PID) != nil) {
			t.Errorf("%s: in a group with limits: %v", task.ID, !sidecar)
		}
	}
}

// A sidecar that needs more than its memory limit is named as OOMKilled, with the limit.
func TestSidecarAboveItsMemoryLimit(t *testing.T) {
	d, err := limitedTo(t, cgroup.Limits{Memory: 4 << 20})
	if err == nil && d == nil {
		return
	}
	must.Fail(t, err, "was OOMKilled: it needs more than its memory limit of 4 MiB", "a proxy in 4 MiB")
	if left := must.Get(filepath.Glob("/sys/fs/cgroup/*/tare-limits-*"))(t); len(left) > 0 {
		t.Errorf("control groups are left: %v", left)
	}
}
