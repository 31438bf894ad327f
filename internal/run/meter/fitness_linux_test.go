package meter_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// A process that burns a core is seen, with its name.
func TestExamineSeesWhoIsBusy(t *testing.T) {
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	must.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	f := must.Get(meter.Examine(t.Context(), 500*time.Millisecond))(t)
	if !slices.ContainsFunc(f.Busy, func(p meter.BusyProcess) bool { return p.PID == cmd.Process.Pid && p.Name == "sh" }) {
		t.Errorf("%d is not among %+v", cmd.Process.Pid, f.Busy)
	}
	if d := difftest.Wrong("f.Load == nil", f.Load == nil, "f.Steal == nil", f.Steal == nil, "len(f.Lateness) < 5", len(f.Lateness) < 5, "!slices.IsSorted(f.Lateness)", !slices.IsSorted(f.Lateness)); d != "" {
		t.Errorf("%s: %+v", d, f)
	}
	p50, ok := f.LatenessAt(0.5)
	p99, _ := f.LatenessAt(0.99)
	if !ok || p50 < 0 || p50 > p99 {
		t.Errorf("woke %v late at the median, %v at the 99th percentile", p50, p99)
	}
	if _, ok := (meter.Fitness{}).LatenessAt(0.5); ok {
		t.Error("a lateness that was not measured")
	}
}
