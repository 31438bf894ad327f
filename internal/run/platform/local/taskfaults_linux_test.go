package local

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/prometheus/procfs"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
)

// A pause stops the children of a program too, in another process group as well.
func TestFreezeStopsChildren(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("setsid is not on PATH")
	}
	p := must.Get(proc.Start(t.Context(), proc.Command{Path: "sh", Args: []string{"-c", "sleep 600 & setsid sleep 600 & wait"}, Tree: true}))(t)
	t.Cleanup(func() { _ = p.Stop(t.Context(), 0) })
	states := func() (all string) {
		children := must.Get(descendants([]platform.Task{{PID: p.PID}}, func(map[int]bool) {}))(t)
		for _, pid := range append(children, descendant{task: platform.Task{PID: p.PID}}) {
			process := must.Get(procfs.NewProc(pid.task.PID))(t)
			stat := must.Get(process.Stat())(t)
			all += stat.State
		}
		return all
	}
	eventually(t, "the children run", func() bool { return states() == "SSS" })
	ps := &processes{}
	ps.setProcess(ps.begin(&pod{name: "web-0"}, "app", nil), &process{Process: p})
	faults := &taskFaults{processes: ps}
	must.OK(t, faults.Freeze(t.Context(), "web-0/app", true))
	if got := states(); got != "TTT" {
		t.Errorf("states of the paused processes: %s, want TTT", got)
	}
	must.OK(t, faults.Freeze(t.Context(), "web-0/app", false))
	eventually(t, "the children run again", func() bool { return !strings.Contains(states(), "T") })
}
