package answer

import (
	"fmt"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
)

// foreign lists the workloads of others that ran beside the trials, with their mean CPU, the largest first.
func foreign(run *compare.Run) []figures.Warning {
	cores, trials := map[string]float64{}, 0
	for _, r := range run.Records {
		beside := false
		for _, t := range r.Tasks {
			if t.Plane != metric.Foreign {
				continue
			}
			beside = true
			if wall := t.End.At.Sub(t.Start.At); t.Missing == "" && wall > 0 {
				workload, _, _ := strings.Cut(strings.TrimPrefix(figures.WorkloadOf(t.Task), t.Namespace+"/"), "/")
				cores[t.Namespace+"/"+workload] += float64(t.End.CPU-t.Start.CPU) / float64(wall)
			}
		}
		if beside {
			trials++
		}
	}
	if trials == 0 {
		return nil
	}
	listed := printable.Texts(printable.MostFirst(cores), func(name string) string { return fmt.Sprintf("%s (%.3f cores)", name, cores[name]/float64(trials)) })
	return []figures.Warning{{Code: "foreign-workloads", Trials: trials,
		Message: fmt.Sprintf("%s of others ran on the cluster, in no sum: %s", printable.Counted(len(listed), "workload"), printable.Listed(listed, 10)),
		Hint:    "their CPU beside each treatment is compared with that beside its baseline; --all shows " + figures.ForeignCPU}}
}
