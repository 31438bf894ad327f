package debate

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/importer"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/debatetest"
	"github.com/tare-mesh/tare/test/must"
)

// imported reads sequences and fails on anything but trials.
func imported(t *testing.T, paths ...string) *importer.Study {
	t.Helper()
	s := must.Get(read(paths, importer.Options{}))(t)
	return s
}

// sound fails on any trial that failed, is invalid or lacks something.
func sound(t *testing.T, s *importer.Study) {
	t.Helper()
	for i := range s.Trials {
		r := &s.Trials[i].Record
		if r.Error != "" || !r.Valid {
			t.Fatalf("%s: %s %v", s.Trials[i].Run, r.Error, r.Warnings)
		}
	}
}

// planeCores is a plane's mean CPU over the measure phase, all rows.
func planeCores(r *result.Record, p metric.Plane) float64 {
	total, n := 0.0, 0.0
	for _, row := range r.Sampled.Expanded() {
		if row.At.Before(r.Phases[1].Start) || row.At.After(r.Phases[1].End) {
			continue
		}
		n++
		for i, task := range r.Sampled.Tasks {
			if task.Plane == p {
				total += *row.Cores[i]
			}
		}
	}
	return total / n
}

var everyForm = []debatetest.Sequence{
	{Mesh: "linkerd", Seed: 1, First: 1},
	{Mesh: "ambient", Seed: 2, Nodes: 4, Oha: "json", Pods: 1, Dir: "ambient-00"},
	{Mesh: "istio", Seed: 3, Nodes: 3, Oha: "repr", LF: true},
	{Mesh: "unmeshed", Seed: 4, Oha: "bytes", Seconds: 600, Refresh: 6},
	{Mesh: "linkerd", Seed: 5, Dir: "linkerd-2", Rates: []int{30, 90}, Runs: 3, Refresh: 1},
}

// The planes of every form of a sequence are those it was made with.
func TestEveryFormOfASequence(t *testing.T) {
	for _, q := range everyForm {
		t.Run(fmt.Sprintf("%s-%s", q.Mesh, q.Oha), func(t *testing.T) {
			s := imported(t, q.Write(t, t.TempDir()))
			sound(t, s)
			for i := range s.Trials {
				tr := &s.Trials[i]
				rate := int(tr.Rate)
				for plane, column := range map[metric.Plane]string{metric.App: "faces", metric.Data: "data-plane", metric.Control: "control-plane", metric.Load: "load", metric.Platform: "overhead"} {
					want := q.Cores(column, rate)
					if q.Oha != "" && plane == metric.Load {
						want = 0.0001 * float64(rate)
					}
					if got := planeCores(&tr.Record, plane); math.Abs(got-want) > 0.06*want+1e-9 {
						t.Errorf("%s %s: %v cores, made with %v", tr.Run, plane, got, want)
					}
				}
				if got := float64(tr.Record.Load.Completed) / tr.Record.Load.MeasureSeconds; math.Abs(got-float64(rate)) > 0.02*float64(rate) {
					t.Errorf("%s: rate %v", tr.Run, got)
				}
				if q.Nodes != len(tr.Record.Sampled.Nodes) {
					t.Errorf("%d nodes, made with %d", len(tr.Record.Sampled.Nodes), q.Nodes)
				}
			}
		})
	}
}

// The sum of the tasks is the debate's own total in every row, to the last
// significant digit.
func TestTasksAddUpToTheTotal(t *testing.T) {
	for _, q := range everyForm {
		dir := q.Write(t, t.TempDir())
		s := imported(t, dir)
		tr := &s.Trials[0]
		b := must.Get(os.ReadFile(tr.Files[0]))(t)
		rows := must.Get(csv.NewReader(bytes.NewReader(b)).ReadAll())(t)
		for c, name := range rows[0] {
			if name != "total CPU" {
				continue
			}
			for i, row := range tr.Record.Sampled.Expanded() {
				sum := 0.0
				for _, v := range row.Cores {
					sum += *v
				}
				var want float64
				fmt.Sscan(rows[i+1][c], &want)
				if math.Abs(sum-want/1e9) > 1e-7 {
					t.Fatalf("%s row %d: %v, total %v", tr.Run, i, sum, want/1e9)
				}
			}
		}
	}
}

func TestRolesOfTheDataPlane(t *testing.T) {
	for _, c := range []struct{ mesh, task, role, component string }{
		{"ambient", "ztunnel/mesh", "node-proxy", ""},
		{"ambient", "waypoint/mesh", "waypoint", ""},
		{"istio", "istio-ingressgateway/mesh", "gateway", ""},
		{"linkerd", "face/mesh", "sidecar", ""},
		{"linkerd", "load/mesh", "sidecar", "load"},
	} {
		s := imported(t, debatetest.Sequence{Mesh: c.mesh, Runs: 1, Rates: []int{60}}.Write(t, t.TempDir()))
		found := false
		for _, task := range s.Trials[0].Record.Sampled.Tasks {
			if task.ID == c.task {
				found = true
				if task.Role != c.role || task.Component != c.component || task.Plane != metric.Data {
					t.Errorf("%s of %s is %+v", c.task, c.mesh, task)
				}
			}
		}
		if !found {
			t.Errorf("no task %s in %s", c.task, c.mesh)
		}
	}
}

func TestWarmupAndTailAreCutByTime(t *testing.T) {
	dir := debatetest.Sequence{Mesh: "linkerd", Runs: 1, Rates: []int{60}}.Write(t, t.TempDir())
	s := must.Get(read([]string{dir}, importer.Options{Warmup: 40e9, Tail: -1}))(t)
	p := s.Trials[0].Record.Phases
	if got := p[1].Start.Sub(p[0].Start).Seconds(); got != 40 {
		t.Errorf("warm-up %v s", got)
	}
	if p[1].End != p[2].Start {
		t.Error("phases do not follow one another")
	}
	if tail := p[2].Start.Sub(p[1].Start).Seconds(); tail < 240 {
		t.Errorf("measure phase of %v s", tail)
	}
}

func TestPooledLatencyIsOfAllPods(t *testing.T) {
	s := imported(t, debatetest.Sequence{Mesh: "linkerd", Runs: 1, Rates: []int{120}}.Write(t, t.TempDir()))
	l := s.Trials[0].Record.Load
	want := int64(0)
	for _, p := range l.Published {
		want += p.Count
	}
	if len(l.Published) != 3 || l.Recorded != want || want == 0 {
		t.Errorf("%d published, %d recorded of %d", len(l.Published), l.Recorded, want)
	}
	if l.Errors["false timeout"] == 0 || l.Classes["timeout"] != 0 {
		t.Errorf("false timeouts: %v %v", l.Errors, l.Classes)
	}
	if !bytes.Contains(s.Trials[0].Latency, []byte("Tag=response.2xx")) {
		t.Error("no interval log")
	}
}

func TestOtherFilesAreSkipped(t *testing.T) {
	root := t.TempDir()
	dir := debatetest.Sequence{Mesh: "linkerd", Runs: 2, Rates: []int{60}}.Write(t, root)
	for _, name := range []string{"README.md", "60-1-ERROR-metrics.csv"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644))
	}
	debatetest.Sequence{Mesh: "ambient", Dir: "ERROR-ambient"}.Write(t, root)
	s := imported(t, root)
	if len(s.Trials) != 2 || len(s.Skipped) < 3 {
		t.Errorf("%d trials, skipped %v", len(s.Trials), s.Skipped)
	}
	must.Fail(t, must.Err(read([]string{t.TempDir()}, importer.Options{})), "no file of a sequence", "an empty directory")
}
