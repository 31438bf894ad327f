package result_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// measuredRecord is the record of a trial as tare's own generator makes it: 3000
// requests due, 2 failed, 3 waiting at the start of the window and 5 at its end.
func measuredRecord() result.Record {
	at := func(s float64) time.Time {
		return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
	}
	backlog, before := []int64{3, 5}, 7.0
	return result.Record{
		Started: at(0), Ended: at(20), Valid: true,
		Phases: []result.Phase{{Name: "deploy", Start: at(0), End: at(1)}, {Name: "warm-up", Start: at(1), End: at(5)}, {Name: "measure", Start: at(5), End: at(15.1)}},
		Load: &result.Load{Generator: "tare", Loop: "open", Start: at(5), End: at(15), AskedRate: 300, Connections: 16,
			Intended: 3000, Sent: 3000, Completed: 2996, BacklogStart: &backlog[0], BacklogEnd: &backlog[1],
			Classes: map[string]int64{"2xx": 2998, "status": 0, "timeout": 1, "conn": 1}, Statuses: map[string]int64{"200": 2998}, Errors: map[string]int64{"timeout": 1, "reset": 1},
			WarmupSeconds: 4, MeasureSeconds: 10},
		Tasks: []result.TaskUsage{{Task: mesh.Task{ID: "echo-0/app"}, Start: result.Reading{At: at(5), CPU: 1e9}, End: result.Reading{At: at(15), CPU: 2e9}}},
		Changes: []result.Change{{Kind: metric.RouteChanged, DueSeconds: 5, SentSeconds: 5.001, AcceptedSeconds: 5.002, LastOld: &result.Span{AfterMS: 3, BeforeMS: &before}},
			{Kind: metric.RouteChanged, DueSeconds: 6, SentSeconds: 6.001, AcceptedSeconds: 6.002}},
		Node: &result.NodeUsage{CPUs: 2, Start: result.NodeReading{At: at(5)}, End: result.NodeReading{At: at(15), Busy: 5e9}},
	}
}

// Each change of one figure is found, and the unchanged record has no finding.
func TestContradictions(t *testing.T) {
	if r := measuredRecord(); len(r.Contradictions())+len(r.Regressions()) > 0 {
		t.Fatalf("the unchanged record: %q %q", r.Contradictions(), r.Regressions())
	}
	for _, c := range []struct {
		name   string
		change func(*result.Record)
		want   string
	}{
		{"answers halved", func(r *result.Record) { r.Load.Completed /= 2 }, "load.completed is 1498, and by load.classes and the backlog 2993 to 2998 requests"},
		{"answers raised by a hundredth", func(r *result.Record) { r.Load.Completed += 30 }, "load.completed is 3026"},
		{"answers without a backlog", func(r *result.Record) { r.Load.BacklogStart, r.Load.BacklogEnd, r.Load.Completed = nil, nil, 1500 }, "load.completed is 1500, and load.classes have 2998 answers"},
		{"answers of a closed loop without a backlog", func(r *result.Record) {
			r.Load.BacklogStart, r.Load.BacklogEnd, r.Load.Loop, r.Load.Completed = nil, nil, "closed", 2900
		}, "load.completed is 2900"},
		{"classes", func(r *result.Record) { r.Load.Classes["2xx"] = 6000 }, "load.classes add up to 6002 requests, and load.intended is 3000"},
		{"classes halved", func(r *result.Record) { r.Load.Classes["2xx"] = 1499 }, "load.statuses add up to 2998, and load.classes to 1501"},
		{"statuses", func(r *result.Record) { r.Load.Statuses["200"] = 1499 }, "load.statuses add up to 1499"},
		{"errors", func(r *result.Record) { r.Load.Errors["reset"] = 50 }, "load.errors add up to 51"},
		{"sent", func(r *result.Record) { r.Load.Sent = 1500 }, "load.sent is 1500"},
		{"negative", func(r *result.Record) { r.Load.Classes["conn"] = -1 }, `load.classes of "conn" is -1`},
		{"all counts doubled", func(r *result.Record) {
			r.Load.Intended, r.Load.Sent, r.Load.Completed, r.Load.Classes["2xx"], r.Load.Statuses["200"] = 6002, 6002, 5998, 6000, 6000
		}, "load.intended is 6002, and load.askedRate makes 3000"},
		{"window", func(r *result.Record) { r.Load.MeasureSeconds = 5 }, "load.start and load.end are 10.000 s apart"},
		{"valid in spite of a warning", func(r *result.Record) { r.Warnings = []result.Warning{{Code: "rate-missed", Invalidates: true}} }, "warning rate-missed makes it invalid"},
		{"valid in spite of an error", func(r *result.Record) { r.Error = "died" }, "has an error"},
		{"a change before it was due", func(r *result.Record) { r.Changes[0].SentSeconds = 4 }, "changes[0] was due after 5 s, sent after 4 s"},
		{"a change before the one before it", func(r *result.Record) { r.Changes[1].DueSeconds, r.Changes[1].SentSeconds = 4, 4.5 }, "changes[1] was due after 4 s"},
		{"an empty time of a change", func(r *result.Record) { r.Changes[0].LastOld.AfterMS = 7 }, "changes[0].lastOld is after 7 ms and not later than 7 ms"},
		{"order of phases", func(r *result.Record) { r.Phases[1], r.Phases[2] = r.Phases[2], r.Phases[1] }, "phase warm-up starts 14.1s before phase measure ended"},
		{"end of a phase", func(r *result.Record) { r.Phases[2].End = r.Started }, "phase measure ends before it starts"},
		{"too much CPU time", func(r *result.Record) { r.Tasks[0].End.CPU = 30e9 }, "used 29s of CPU time in 10s on 2 processors"},
		{"memory above its peak", func(r *result.Record) { r.Tasks[0].End.RSS, r.Tasks[0].End.Peak = 40<<20, 20<<20 },
			"task echo-0/app has 41943040 bytes of memory, and its peak is 20971520"},
		{"memory over time above its peak", func(r *result.Record) {
			r.Tasks[0].End.Peak, r.Tasks[0].Memory = 20<<20, []result.MemoryReading{{Seconds: 3, RSS: 40 << 20}}
		}, "task echo-0/app has 41943040 bytes of memory 3 s after its first reading, and its peak is 20971520"},
		{"a reading before the measure phase", func(r *result.Record) { r.Tasks[0].Start.At = r.Tasks[0].Start.At.Add(-900 * time.Millisecond) },
			"task echo-0/app was read 900ms before the first reading that the measure phase of the load needs, without a warning"},
		{"a reading after the measure phase", func(r *result.Record) { r.Tasks[0].End.At = r.Tasks[0].End.At.Add(time.Second) },
			"task echo-0/app was read 1s after the last one"},
		{"all counts halved", func(r *result.Record) {
			r.Load.Intended, r.Load.Sent, r.Load.Completed, r.Load.Classes["2xx"], r.Load.Statuses["200"] = 1502, 1502, 1498, 1500, 1500
		}, "load.intended is 1502, and load.askedRate makes 3000"},
		{"end of the trial", func(r *result.Record) { r.Ended = r.Started }, "the trial ended before phase measure ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := measuredRecord()
			c.change(&r)
			must.Contain(t, strings.Join(r.Contradictions(), "; "), c.want)
		})
	}
	// A load that was held up until its window was over has none.
	r := measuredRecord()
	r.Load.Intended, r.Load.Sent, r.Load.Completed, r.Load.MeasureSeconds = 0, 0, 0, 0
	r.Load.Slices = &result.OwnSlices{Count: 10, LengthSeconds: 0.1}
	if found := strings.Join(r.Contradictions(), "; "); strings.Contains(found, "askedRate") {
		t.Errorf("a load without a window: %q", found)
	}
	for _, c := range []struct {
		name   string
		change func(*result.TaskUsage)
		want   string
	}{
		{"CPU time", func(u *result.TaskUsage) { u.End.CPU = 0 }, "the CPU time of task echo-0/app decreased by 1s"},
		{"times", func(u *result.TaskUsage) { u.Start.At, u.End.At = u.End.At, u.Start.At }, "was read at the end 10s before"},
		{"negative", func(u *result.TaskUsage) { u.Start.CPU = -1 }, "negative counter"},
	} {
		r := measuredRecord()
		c.change(&r.Tasks[0])
		if found := strings.Join(r.Regressions(), "; "); !strings.Contains(found, c.want) {
			t.Errorf("%s: found %q, want %q", c.name, found, c.want)
		}
	}
}

// What real trials have is not a contradiction.
func TestNoContradiction(t *testing.T) {
	for name, change := range map[string]func(*result.Record){
		"a failed trial":       func(r *result.Record) { r.Valid, r.Error, r.Load.Completed = false, "died", 5 },
		"TCP has no statuses":  func(r *result.Record) { r.Load.Statuses = nil },
		"dropped requests":     func(r *result.Record) { r.Load.Intended, r.Load.AskedRate = 3040, 304 },
		"a backlog that grew":  func(r *result.Record) { *r.Load.BacklogEnd, r.Load.Completed = 1000, 2000 },
		"answers to a backlog": func(r *result.Record) { *r.Load.BacklogStart, r.Load.Completed = 800, 3700 },
		"connection refused": func(r *result.Record) {
			r.Load.Classes, r.Load.Statuses, r.Load.Errors = map[string]int64{"conn": 3000}, nil, map[string]int64{"connect refused": 3000}
			r.Load.Completed, *r.Load.BacklogStart, *r.Load.BacklogEnd = 0, 0, 0
			r.Load.Sent = 0
		},
		"another generator": func(r *result.Record) {
			r.Load.BacklogStart, r.Load.BacklogEnd, r.Load.Intended, r.Load.Completed = nil, nil, 2990, 2990
		},
		"readings beside the edges, with a warning": func(r *result.Record) {
			r.Tasks[0].Start.At = r.Tasks[0].Start.At.Add(-4 * time.Second)
			r.Warnings = []result.Warning{{Code: "counters-paced"}}
		},
		"a long measure phase": func(r *result.Record) {
			r.Load.Start, r.Started = r.Load.Start.Add(-30*time.Second), r.Started.Add(-time.Hour)
			r.Load.MeasureSeconds, r.Load.AskedRate = 40, 75
			r.Tasks[0].Start.At = r.Load.Start.Add(390 * time.Millisecond)
		},
		"memory of a node's own tasks": func(r *result.Record) {
			r.Tasks[0].Plane, r.Tasks[0].End.RSS, r.Tasks[0].End.Peak = metric.Node, 40<<20, 20<<20
		},
		"memory at its peak":        func(r *result.Record) { r.Tasks[0].End.RSS, r.Tasks[0].End.Peak = 40<<20, 40<<20-64<<12 },
		"a task that a fault ended": func(r *result.Record) { r.Tasks[0].Ended, r.Tasks[0].End.CPU = true, 0 },
	} {
		r := measuredRecord()
		change(&r)
		if found := append(r.Contradictions(), r.Regressions()...); len(found) > 0 {
			t.Errorf("%s: %q", name, found)
		}
	}
}

// A rollout replaces pods, and a restart a process. A restart without a mesh ends none, and a change of a route neither.
func TestDisturbedByChanges(t *testing.T) {
	for want, changes := range map[bool][]result.Change{
		true:  {{Kind: metric.VersionChanged}, {Kind: metric.ProxyRestarted, Task: "web/sidecar"}},
		false: {{Kind: metric.RouteChanged}, {Kind: metric.ProxyRestarted}},
	} {
		for _, c := range changes {
			if r := (&result.Record{Changes: []result.Change{c}}); r.Disturbed() != want {
				t.Errorf("%s of task %q: disturbed %v, want %v", c.Kind, c.Task, !want, want)
			}
		}
	}
}
