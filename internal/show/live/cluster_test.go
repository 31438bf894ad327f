package live

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// onCluster is a board of two trials on three nodes: without a mesh, and with Istio under load. Each service has two
// replicas.
func onCluster(t *testing.T) (b *Board, now time.Time) {
	t.Helper()
	b = NewBoard(plan.Plan{Experiment: "debate", Blocks: 3,
		Treatments: []plan.Treatment{{ID: "none"}, {ID: "istio", Baseline: "none"}},
		Trials:     []plan.Trial{{ID: "001-none-b1", Ordinal: 1, Treatment: "none", Block: 1}, {ID: "002-istio-b1", Ordinal: 2, Treatment: "istio", Block: 1}, {ID: "003-none-b2", Ordinal: 3, Treatment: "none", Block: 2}}})
	apply := func(e result.Event) {
		e.Time = now
		b.Apply(e)
	}
	now = t0
	apply(result.Event{Kind: result.KindRun, Run: &result.Run{Experiment: "debate", Trials: 6, TrialTime: time.Minute, Measure: 30 * time.Second}})
	for _, id := range []string{"001-none-b1", "002-istio-b1"} {
		var tasks []mesh.Task
		add := func(id, namespace, service, container string, plane metric.Plane) {
			tasks = append(tasks, mesh.Task{ID: id, Namespace: namespace, Pod: strings.Split(id, "/")[0], Service: service, Container: container, Plane: plane})
		}
		for _, service := range []string{"face", "smiley", "color", "text"} {
			for replica := range 2 {
				pod := fmt.Sprintf("%s-%d", service, replica)
				add(pod+"/app", "tare-1", service, "app", metric.App)
				if strings.Contains(id, "istio") {
					add(pod+"/istio-proxy", "tare-1", service, "istio-proxy", metric.Data)
				}
			}
		}
		add("load-0/load", "tare-1", "load", "load", metric.Load)
		if strings.Contains(id, "istio") {
			add("istio-system/istiod-7d9f8b6c5d-x7k2p/discovery", "istio-system", "", "discovery", metric.Control)
		}
		add("kube-system/coredns-58d4ffd8dd-9s4fn/coredns", "kube-system", "", "coredns", metric.Platform)
		add("gke-managed-system/agent-9s4fn/agent", "gke-managed-system", "", "agent", metric.Platform)
		apply(result.Event{Kind: result.KindTrial, Trial: id})
		apply(result.Event{Kind: result.KindPhase, Trial: id, Phase: measurePhase})
		cores, memory := 2.0, float64(4<<30)
		for second := range 4 {
			now = now.Add(time.Second)
			s := &result.Sample{Tasks: map[string]result.Reading{}, Nodes: map[string]result.NodeReading{}}
			if second == 0 {
				s.Listed = tasks
				for n := range 3 {
					s.Machines = append(s.Machines, result.SampledNode{Name: fmt.Sprintf("node-%d", n), AllocatableCores: &cores, AllocatableMemory: &memory})
				}
			}
			for n := range 3 {
				s.Nodes[fmt.Sprintf("node-%d", n)] = result.NodeReading{At: now, Busy: int64(second) * int64(4+n) * 1e8, Memory: int64(n+1) << 30}
			}
			for i, task := range tasks { // millicores that rise by one a second
				cpu := int64(second*(10+i))*1e6 + int64(second*second/2)*1e6
				s.Tasks[task.ID] = result.Reading{At: now, CPU: cpu, RSS: int64(10+i) << 20}
			}
			apply(result.Event{Kind: result.KindSample, Trial: id, Sample: s})
			apply(result.Event{Kind: result.KindProgress, Trial: id, Progress: &result.Progress{Second: second, AskedRate: 400, Rate: 400, P50MS: 1.25, P99MS: 5}})
		}
		if id == "001-none-b1" {
			apply(result.Event{Kind: result.KindDone, Trial: id})
		}
	}
	b.Answer(&Headline{Title: "CPU/request, total", Unit: "%", Of: map[string]Difference{"istio": {Text: "+123 % (110 to 135)", Estimate: 123, Low: 110, High: 135}}})
	return b, now
}

// The page of a cluster has nodes with their shares, sums with their extremes beside the baseline's, ratios, the interval
// so far, and components. At 80 by 24 all sums fit, and the keys reach every component.
func TestClusterPage(t *testing.T) {
	b, now := onCluster(t)
	for _, size := range [][2]int{{80, 24}, {120, 40}} {
		lines := frame(b, look{width: size[0], height: size[1], follow: true, page: clusterPage}, true, now)
		got := strings.Join(lines, "\n") + "\n"
		file := filepath.Join("testdata", fmt.Sprintf("cluster-%dx%d.txt", size[0], size[1]))
		if *update {
			must.OK(t, os.WriteFile(file, []byte(got), 0o644))
		}
		if want, err := os.ReadFile(file); err != nil || got != string(want) {
			t.Errorf("%v: `go test ./internal/show/live -run TestClusterPage -update` writes %s:\n%s", err, file, got)
		}
		if len(lines) != size[1] {
			t.Errorf("%d lines", len(lines))
		}
		for _, s := range sums {
			if !s.rare && !strings.Contains(got, "\n "+s.name+" ") {
				t.Errorf("%v: no line of %s", size, s.name)
			}
		}
	}
	s := &screen{board: b, queue: &queue{}, clock: func() time.Time { return now }, plain: true, look: look{width: 80, height: 24, follow: true}, at: now}
	if got := s.View().Content; !strings.Contains(got, "c components") {
		t.Errorf("the overview has no key of the page:\n%s", got)
	}
	for _, sum := range sums { // the first screen of a run on a cluster has them too
		if got := s.View().Content; !sum.rare && !strings.Contains(got, "\n "+sum.name+" ") {
			t.Errorf("the overview has no line of %s:\n%s", sum.name, got)
		}
	}
	press(s, key('c'))
	for range 50 {
		press(s, tea.KeyPressMsg{Code: tea.KeyDown})
	}
	for _, want := range []string{"face/app", "text/istio-proxy", "istiod/discovery", "OTHERS", "agent/agent"} {
		if got := s.View().Content; !strings.Contains(got, want) {
			t.Errorf("no %s after scrolling:\n%s", want, got)
		}
	}
	press(s, key('c'))
	if got := s.View().Content; !strings.Contains(got, "BLOCKS") {
		t.Errorf("the key does not lead back:\n%s", got)
	}
}

// Until a trial has a reading, the page shows the last trial that has, and names it.
func TestClusterPageWithoutReading(t *testing.T) {
	b, now := onCluster(t)
	b.Apply(result.Event{Time: now, Kind: result.KindDone, Trial: "002-istio-b1"})
	b.Apply(result.Event{Time: now, Kind: result.KindTrial, Trial: "003-none-b2"})
	s := &screen{board: b, queue: &queue{}, clock: func() time.Time { return now }, plain: true, look: look{width: 80, height: 24, follow: true}, at: now}
	press(s, key('c'))
	for _, want := range []string{"003-none-b2", "no reading yet; figures of 002-istio-b1", " mesh ratio"} {
		if got := s.View().Content; !strings.Contains(got, want) {
			t.Errorf("no %q:\n%s", want, got)
		}
	}
}
