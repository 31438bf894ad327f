package runner

import (
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// outside follows the CPU of this machine that no process of the run uses: of other programs, of the kernel, and of helpers that
// a treatment has elsewhere. The kernel counts the machine's CPU in ticks, so that single slices are rough.
type outside struct {
	busy meter.Busy // nil: the meter reads no machine
	last int64      // busy time of the machine less the CPU of all tasks, ns
	any  bool
}

func newOutside(m meter.Meter) *outside {
	busy, _ := m.(meter.Busy)
	return &outside{busy: busy}
}

// since returns the CPU outside since the last call. It is not ok at the first call, and where a task or the machine was not read.
func (o *outside) since(looks []meter.Look, tasks [][]platform.Task) (ns int64, ok bool) {
	if o.busy == nil {
		return 0, false
	}
	now, err := o.busy.Busy()
	seen := map[int]bool{} // tare is a task of every trial
	for i, all := range tasks {
		for _, t := range all {
			r, read := looks[i].Tasks[t.ID]
			if !read {
				o.any = false
				return 0, false
			}
			if !seen[t.PID] {
				now -= r.CPU
			}
			seen[t.PID] = true
		}
	}
	ns, ok = now-o.last, o.any && err == nil
	o.last, o.any = now, err == nil
	return ns, ok
}
