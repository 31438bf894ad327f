package kubecli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// A mesh with a known cost, none and none again, deployed side by side, with the load moving between them. Node agents
// read counters at the edges of slices. Each trial has its own tasks only, and the cost of its own requests. A simulated node is in no
// figure.
func TestKubernetesInterleaved(t *testing.T) {
	const rate, burn = 60, 2 * time.Millisecond
	r := experimentOnKubernetes(t, fmt.Sprintf(`
factors: {mesh: [none, weight], rate: [%d], connections: [4]}
order: interleaved
slices: {length: 250ms, guard: 50ms}
baseline: {mesh: none}
control: true
phases: {warmup: 1s, measure: 3s, drain: 2s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
blocks: 1
`, rate))
	clustertest.SimulatedNode(t, r.cluster)
	disposable(t, r.cluster)
	before := objectsIn(t, r.cluster)
	definition, charts := newWeight(t, r.bin, "echo", burn)
	r.args = append(r.args, "--mesh", definition, "--set", "meshes={weight: {charts: '"+charts+"'}}")
	all := r.records(t, console.Done, nil)
	if len(all) != 3 {
		t.Fatalf("%d trials, want 3", len(all))
	}
	if cpus := must.Get(result.Open(r.dir))(t).Environment().CPUs; cpus != runtime.NumCPU() {
		t.Errorf("the cluster has %d CPUs, want those of this machine", cpus)
	}
	for _, one := range all {
		if !usable(one) || one.Load == nil {
			t.Fatalf("%s: %s: %+v", one.ID, one.Error, one.Warnings)
		}
		under := one.Treatment == "weight"
		for plane, want := range map[metric.Plane]map[bool]int{
			metric.App: {false: 1, true: 1}, metric.Load: {false: 1, true: 1}, metric.Harness: {false: 1, true: 1}, metric.Node: {false: 2, true: 2},
			metric.Data: {false: 0, true: 2}, metric.Control: {false: 0, true: 1}, metric.Unattributed: {},
		} {
			if _, tasks := usedBy(one, plane); tasks != want[under] {
				t.Errorf("%s: %d tasks of plane %s, want %d", one.ID, tasks, plane, want[under])
			}
		}
		sent := slicesOf(t, r.dir, one)
		if sent != one.Load.Sent || sent < rate*2 {
			t.Errorf("%s: %d requests in its slices, %d sent", one.ID, sent, one.Load.Sent)
		}
		burns(t, one, sent, burn)
	}
	if a, b := measureStart(all[0]), measureStart(all[2]); a.Sub(b).Abs() > time.Second {
		t.Errorf("the measure phases are not at the same time: %v, %v", a, b)
	}
	for _, ref := range objectsIn(t, r.cluster) {
		if !slices.Contains(before, ref) {
			t.Errorf("left in the cluster: %s", ref)
		}
	}
}

// The same on a cluster without node agents: slices are long enough for the refresh of the kubelet's counters.
func TestKubernetesInterleavedByKubelet(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("slices of 10 s take two minutes: make e2e-all")
	}
	const rate, burn = 60, 2 * time.Millisecond
	r := experimentOnKubernetes(t, fmt.Sprintf(`
factors: {mesh: [none, weight], rate: [%d], connections: [4]}
order: interleaved
slices: {length: 10s}
baseline: {mesh: none}
phases: {warmup: 1s, measure: 20s, drain: 2s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
blocks: 1
`, rate))
	definition, charts := newWeight(t, r.bin, "echo", burn)
	r.args = append(r.args, "--mesh", definition, "--set", "platform.meter=kubelet", "--set", "meshes={weight: {charts: '"+charts+"'}}")
	for _, one := range r.records(t, console.Done, nil) {
		if !usable(one) || one.Load == nil {
			t.Fatalf("%s: %s: %+v", one.ID, one.Error, one.Warnings)
		}
		sent := slicesOf(t, r.dir, one)
		burns(t, one, sent, burn)
	}
}

// burns checks the CPU of each request in the sidecars of the service, which burn a known one.
func burns(t *testing.T, r result.Record, requests int64, burn time.Duration) {
	t.Helper()
	for _, task := range r.Tasks {
		if task.Plane != metric.Data || task.Service != "echo" {
			continue
		}
		each := time.Duration(task.End.CPU-task.Start.CPU) / time.Duration(requests)
		t.Logf("%s: %v of CPU a request, of which %v are known", task.ID, each, burn)
		if each < burn*9/10 || each > 2*burn {
			t.Errorf("%s used %v a request, and each burns %v", task.ID, each, burn)
		}
	}
}

func measureStart(r result.Record) time.Time {
	i := slices.IndexFunc(r.Phases, func(p result.Phase) bool { return p.Name == "measure" })
	return r.Phases[max(i, 0)].Start
}

// slicesOf returns the requests intended in a trial's own slices, and checks that there are none in others.
func slicesOf(t *testing.T, dir string, r result.Record) (own int64) {
	t.Helper()
	rows, err := result.ReadSlices(filepath.Join(dir, result.TrialsDir, r.ID, result.SlicesFile))
	if err != nil || len(rows) == 0 {
		t.Fatalf("%s: %d slices, %v", r.ID, len(rows), err)
	}
	for _, row := range rows {
		if row.Own {
			own += row.Intended
		} else if row.Intended > 0 {
			t.Errorf("%s: %d requests in slice %d of another", r.ID, row.Intended, row.Slice)
		}
	}
	return own
}
