package meter

import (
	"os"
	"testing"

	"github.com/prometheus/procfs"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// The quick reader and a general parser agree.
func TestSwitchesAgreeWithProcfs(t *testing.T) {
	count := func() (v, i int64) {
		threads := must.Get(procfs.AllThreads(os.Getpid()))(t)
		for _, th := range threads {
			s, err := th.NewStatus()
			if err != nil {
				continue
			}
			v += int64(s.VoluntaryCtxtSwitches)
			i += int64(s.NonVoluntaryCtxtSwitches)
		}
		return v, i
	}
	// Counters only grow: the one read between two others lies between them.
	v0, i0 := count()
	v, i := switches(os.Getpid())
	v1, i1 := count()
	if d := difftest.Wrong("v0 == 0", v0 == 0, "v < v0", v < v0, "v > v1", v > v1, "i < i0", i < i0, "i > i1", i > i1); d != "" {
		t.Errorf("%s: read %d and %d, want %d..%d and %d..%d", d, v, i, v0, v1, i0, i1)
	}
	if v, i := switches(1 << 30); v != 0 || i != 0 {
		t.Errorf("no such process: %d, %d", v, i)
	}
}
