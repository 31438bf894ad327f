package runner

import (
	"fmt"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// visits records the tasks of others that came and went within the measure phase. Their CPU
// is unknown, and the sums do not contain it. Those of the cluster and of other workloads are a warning. Others may be
// parts of a mesh, and invalidate the trial.
func (m *measurement) visits() {
	if m.deployment.Visitors == nil {
		return
	}
	// Tasks were listed a moment before the edge at the beginning.
	all := m.deployment.Visitors(m.load.edges.begin.Add(-listLead), m.load.edges.end)
	all = slices.DeleteFunc(all, func(v platform.Visitor) bool { // changes started it
		return slices.ContainsFunc(m.load.journal.record.Tasks, func(t result.TaskUsage) bool { return t.ID == v.Name })
	})
	system, unknown := split(all)
	w := result.Warning{Code: "came-and-went", Hint: "find the workload, Job or CronJob that starts it, and suspend it during the run"}
	if len(unknown) > 0 {
		w.Invalidates, w.Message = true, visitText(unknown)
	} else if len(system) > 0 {
		w.Message = visitText(system)
	} else {
		return
	}
	m.load.journal.warn(w)
}

func split(all []platform.Visitor) (system, unknown []platform.Visitor) {
	for _, v := range all {
		if v.System {
			system = append(system, v)
		} else {
			unknown = append(unknown, v)
		}
	}
	return system, unknown
}

// visitText names at most four visitors.
func visitText(all []platform.Visitor) string {
	return "containers were started and ended in the measure phase, and their CPU is in no sum: " + printable.Listed(printable.Texts(all, func(v platform.Visitor) string {
		return fmt.Sprintf("%s (for %v)", v.Name, v.Ended.Sub(v.Began).Round(100*time.Millisecond))
	}), 4)
}
