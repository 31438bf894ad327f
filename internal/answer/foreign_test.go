package answer_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// Workloads of others are listed, and are in no sum. Steady ones invalidate nothing, however much they use. A treatment
// beside which they use more than beside its baseline is invalid, and the others are not.
func TestForeignWorkloads(t *testing.T) {
	// cores of two pods of shop/web beside a trial
	for name, c := range map[string]struct {
		cores   func(r *result.Record) float64
		invalid string // treatment
	}{
		"none":   {func(*result.Record) float64 { return 0 }, ""},
		"steady": {func(r *result.Record) float64 { return 0.5 + 0.01*float64(r.Ordinal%3) }, ""},
		"drifts": {func(r *result.Record) float64 { return 0.2 * float64(r.Block) }, ""},
		"changes": {func(r *result.Record) float64 {
			return map[bool]float64{true: 0.5, false: 0.3}[r.Treatment == "envoy"] + 0.001*float64(r.Ordinal%3)
		}, "envoy"},
		"begins": {func(r *result.Record) float64 { return map[bool]float64{true: 0.1}[r.Treatment == "envoy-tcp"] }, "envoy-tcp"},
	} {
		s := answertest.Quickstart()
		s.Platform, s.Drift = mesh.OnKubernetes, 0
		s.Change = func(r *result.Record) {
			cores := c.cores(r)
			for _, pod := range []string{"web-5c8d8d9f4b-x7k2p", "web-5c8d8d9f4b-z9d4w"} {
				if cores == 0 {
					return
				}
				of := r.Tasks[0]
				of.Task = mesh.Task{ID: "shop/" + pod + "/nginx", Namespace: "shop", Pod: pod, Container: "nginx", Plane: metric.Foreign}
				of.End.CPU = of.Start.CPU + int64(cores/2*float64(of.End.At.Sub(of.Start.At)))
				r.Tasks = append(r.Tasks, of)
			}
		}
		d := s.Write(t, filepath.Join(t.TempDir(), "run"))
		r := must.Get(answer.Analyze(d, compare.Options{}))(t)
		for _, trial := range r.Trials {
			changed := slices.ContainsFunc(trial.Warnings, func(w figures.Warning) bool { return w.Code == "foreign-changed" && w.Invalidates })
			if want := trial.Treatment == c.invalid; trial.Valid == want || changed != want {
				t.Errorf("%s: %s: valid %v, foreign-changed %v, %+v", name, trial.ID, trial.Valid, changed, trial.Warnings)
			}
			_, has := trial.Metrics["cpu_cores/foreign"]
			if none := name == "none"; has == none {
				t.Errorf("%s: %s has cpu_cores/foreign: %v", name, trial.ID, has)
			}
			for sum := range trial.Metrics {
				if strings.HasSuffix(sum, "/total") && trial.Metrics[sum] != trial.Metrics[strings.TrimSuffix(sum, "total")+"app"]+
					trial.Metrics[strings.TrimSuffix(sum, "total")+"data"] && strings.HasPrefix(sum, "memory_mib") {
					t.Errorf("%s: %s of %s is %v", name, sum, trial.ID, trial.Metrics[sum])
				}
			}
		}
		i := slices.IndexFunc(r.Warnings, func(w figures.Warning) bool { return w.Code == "foreign-workloads" })
		if (i >= 0) != (name != "none") {
			t.Errorf("%s: %+v", name, r.Warnings)
		}
		if i >= 0 && name == "begins" && !strings.Contains(r.Warnings[i].Message, "1 workload of others ran on the cluster, in no sum: shop/web (0.100 cores)") {
			t.Errorf("%s: %s", name, r.Warnings[i].Message)
		}
	}
}
