package report

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// Each namespace has the minimum, the mean and the maximum over the readings of the measure phase. Readings of tasks at
// different times add up. Readings of other phases and of invalid trials do not count.
func TestNamespaces(t *testing.T) {
	p := &plan.Plan{Schema: plan.Schema, Experiment: "k3s", Blocks: 2, Treatments: []plan.Treatment{{ID: "istio-10"}}}
	for i, id := range []string{"1-istio-10-b1", "2-istio-10-b2"} {
		p.Trials = append(p.Trials, plan.Trial{ID: id, Ordinal: i + 1, Block: i + 1, Treatment: "istio-10"})
	}
	d := must.Get(result.Create(filepath.Join(t.TempDir(), "run"), []byte("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: k3s}\n"), p, result.Environment{}))(t)
	defer d.Close()
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	task := func(id, namespace string, plane metric.Plane) result.TaskUsage {
		return result.TaskUsage{Task: mesh.Task{ID: id, Namespace: namespace, Plane: plane}}
	}
	for i, trial := range p.Trials {
		td := must.Get(d.Trial(trial))(t)
		// Two tasks of the trial's namespace use 10 and 20 millicores, then 30 and 20. The control plane is read every other second.
		cpu := map[string]int64{}
		sample := func(s int, use map[string]int64) result.Event {
			readings := map[string]result.Reading{}
			for id, milli := range use {
				cpu[id] += milli * 1e6 // ns of one second
				readings[id] = result.Reading{At: at(s), CPU: cpu[id], RSS: 10 << 20}
			}
			return result.Event{Time: at(s), Kind: result.KindSample, Trial: trial.ID, Sample: &result.Sample{Tasks: readings}}
		}
		for _, e := range []result.Event{
			sample(0, map[string]int64{"app": 0, "sidecar": 0, "istiod": 0, "kubelet": 0, "load": 0, "load-sidecar": 0, "gateway": 0}),
			sample(1, map[string]int64{"app": 900, "sidecar": 900}), // warm-up
			sample(2, map[string]int64{"app": 10, "sidecar": 20, "istiod": 10, "kubelet": 700, "load": 3, "load-sidecar": 4, "gateway": 6}),
			sample(3, map[string]int64{"app": 30, "sidecar": 20, "load": 3, "load-sidecar": 4, "gateway": 6}),
			sample(4, map[string]int64{"app": 900, "sidecar": 900, "istiod": 900}), // drain
		} {
			must.OK(t, td.Event(e))
		}
		r := result.Record{Schema: result.Schema, ID: trial.ID, Ordinal: trial.Ordinal, Block: trial.Block, Treatment: trial.Treatment, Valid: i == 0, Started: at(0), Ended: at(5),
			Phases: []result.Phase{{Name: "measure", Start: at(2).Add(-time.Millisecond), End: at(3).Add(time.Millisecond)}},
			Tasks: []result.TaskUsage{task("load", "tare-1", metric.Load), {Task: mesh.Task{ID: "load-sidecar", Namespace: "tare-1", Plane: metric.Data, Role: "sidecar", Component: "load"}},
				{Task: mesh.Task{ID: "gateway", Namespace: "tare-1", Plane: metric.Data, Role: "gateway"}}, task("app", "tare-1", metric.App), task("sidecar", "tare-1", metric.Data), task("istiod", "istio-system", metric.Control), task("kubelet", "", metric.Node)}}
		must.OK(t, errors.Join(td.Finish(r), td.Seal()))
	}
	var out bytes.Buffer
	must.OK(t, writeNamespaces(&out, answer.Analysis{Dir: d, Report: &answer.Report{Experiment: "k3s", Treatments: []compare.Treatment{{ID: "istio-10"}}}}))
	for _, want := range []string{
		"istio-10  application 30.0 40.0 50.0 20.0 20.0 20.0 2",
		"istio-10  gateway 3.0 4.5 6.0 10.0 10.0 10.0 2",
		"istio-10  load 3.5 5.2 7.0 20.0 20.0 20.0 2",
		"istio-10  istio-system 5.0 5.0 5.0 10.0 10.0 10.0 2",
		"nodes 350.0 350.0 350.0 10.0 10.0 10.0 2 istio-10 TOTAL 41.5 54.8 68.0 60.0 60.0 60.0 2", // without the nodes, and last
	} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "900") {
		t.Errorf("another phase counts:\n%s", out.String())
	}
}
