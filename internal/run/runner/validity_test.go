package runner

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/test/must"
)

// soundTrial is a measured trial with nothing wrong.
func soundTrial() *trial {
	at := time.Unix(1000, 0)
	t := &trial{setup: &setup{run: &run{Config: Config{Experiment: &experiment.Experiment{Validity: experiment.Validity{
		ErrorRatio: 0.001, RateShortfall: 0.005, Unattributed: 0.01, GeneratorCPU: 0.9}}}}}, journal: &journal{}, load: &loadRun{}}
	t.load.profile.Rate = 1000
	ratio, late := 0.5, 200.0
	t.journal.record = result.Record{
		Load: &result.Load{Intended: 10_000, Sent: 10_000, Completed: 10_000, ThreadCPURatio: &ratio, LatenessP99US: &late,
			Classes: map[string]int64{"2xx": 10_000}, Statuses: map[string]int64{"200": 10_000}, Errors: map[string]int64{}},
		Tasks: []result.TaskUsage{
			{Task: mesh.Task{ID: "echo-0/app", Plane: metric.App}, Start: result.Reading{CPU: 1e9}, End: result.Reading{CPU: 2e9}},
			{Task: mesh.Task{ID: "unknown", Plane: metric.Unattributed}, Start: result.Reading{CPU: 1e9}, End: result.Reading{CPU: 1e9 + 5e6}},
		},
		Node: &result.NodeUsage{CPUs: 2, Start: result.NodeReading{At: at}, End: result.NodeReading{At: at.Add(10 * time.Second), Busy: 5e9, Steal: 5e8}},
	}
	for range 10 {
		t.load.progress = append(t.load.progress, load.Progress{Phase: "measure", P50MS: 2})
	}
	return t
}

// slowAnswers makes the load 100 requests at 10 a second, with answers of 0.1 s: by chance, 4.2 more are under way at the end.
func slowAnswers(t *trial, answered int64) {
	l := t.journal.record.Load
	l.AskedRate, l.Intended, l.Sent, l.Completed = 10, 100, 100, answered
	l.Classes, l.Statuses = map[string]int64{"2xx": answered}, map[string]int64{"200": answered}
	for i := range t.load.progress {
		t.load.progress[i].P50MS = 100
	}
}

// addForeign adds a workload of others that used CPU on a node with this busy share.
func addForeign(t *trial, cpu int64, busy float64) {
	at := time.Unix(1000, 0)
	t.journal.record.Tasks = append(t.journal.record.Tasks,
		result.TaskUsage{Task: mesh.Task{ID: "shop/web-1/web", Namespace: "shop", Plane: metric.Foreign}, End: result.Reading{CPU: cpu}})
	t.journal.record.Node.Nodes = []result.MachineUsage{{Name: "n1", CPUs: 2, Start: result.NodeReading{At: at},
		End: result.NodeReading{At: at.Add(10 * time.Second), Busy: int64(2e10 * busy)}}}
}

// held sets the throttled time of a task, in ten seconds.
func held(u *result.TaskUsage, back time.Duration) {
	none, ns := int64(0), back.Nanoseconds()
	u.Start.At, u.End.At = time.Unix(1000, 0), time.Unix(1010, 0)
	u.Start.Throttled, u.End.Throttled = &none, &ns
}

// A cluster refuses platform.cpus: no hint may recommend it.
func TestHintsOnClusters(t *testing.T) {
	for _, c := range checks {
		if here := c.hintOn(mesh.OnLocal); here != c.hint {
			t.Errorf("%s on this machine: %s", c.code, here)
		}
		if there := c.hintOn(mesh.OnKubernetes); strings.Contains(there, "platform.cpus") || there == "" {
			t.Errorf("%s on a cluster: %s", c.code, there)
		}
	}
	late := 1500.0
	tr := soundTrial()
	tr.journal.record.Load.LatenessP99US, tr.setup.Experiment.Platform.Kind = &late, mesh.OnKubernetes
	if w := tr.checked(); len(w) != 1 || w[0].Code != "generator-late" || !strings.Contains(w[0].Hint, "platform.affinity") {
		t.Errorf("%+v", w)
	}
}

// A check that withholds CPU leaves memory and its ratios.
func TestCPUChecksKeepMemory(t *testing.T) {
	for _, c := range checks {
		if c.effect != withholds || slices.Equal(c.metrics, latencies) {
			continue
		}
		for _, m := range metric.All() {
			if m.Source == metric.Executions {
				continue // of programs without load
			}
			cpu := strings.HasPrefix(m.Name, "cpu_") || m.Name == "mesh_ratio/cpu" || m.Name == "data_plane_ratio/cpu"
			if got := slices.Contains(c.metrics, m.Name) || slices.Contains(c.metrics, metric.Base(m.Name)); got != cpu {
				t.Errorf("%s withholds %s: %v", c.code, m.Name, got)
			}
		}
	}
}

// Each row spoils one property. The limits themselves are valid.
func TestChecks(t *testing.T) {
	float := func(f float64) *float64 { return &f }
	for _, c := range []struct {
		name    string
		spoil   func(*trial)
		code    string // "": no warning
		message string
		effect  effect
	}{
		{name: "nothing", spoil: func(*trial) {}},
		{"rate at its limit", func(t *trial) { t.journal.record.Load.Completed = 9950 }, "", "", warns},
		{"rate missed", func(t *trial) { t.journal.record.Load.Completed = 9949 }, "rate-missed", "9949 of 10000", invalidates},
		{"slow answers under way at the end", func(t *trial) { slowAnswers(t, 96) }, "", "", warns},
		{"too many slow answers under way at the end", func(t *trial) { slowAnswers(t, 95) }, "rate-missed", "95 of 100", invalidates},
		{"surplus at its limit", func(t *trial) { t.journal.record.Load.Completed = 10_100 }, "", "", warns},
		{"backlog of the warm-up", func(t *trial) {
			start, end := int64(440), int64(8)
			t.journal.record.Load.Intended, t.journal.record.Load.Completed = 1956, 2388
			t.journal.record.Load.BacklogStart, t.journal.record.Load.BacklogEnd = &start, &end
		}, "rate-exceeded", "1956 requests were due in the measure phase and 2388 were answered in it (22.1 % more, limit 1 %); the backlog was 440 at its start and 8 at its end", invalidates},
		{"surplus of a few requests in flight", func(t *trial) {
			t.journal.record.Load.Intended, t.journal.record.Load.Completed = 100, 105
		}, "", "", warns},
		{"surplus after a fault", func(t *trial) {
			t.journal.record.Load.Completed = 12_000
			inject(t)
		}, "", "", warns},
		{"rate missed, errors and a restart after a fault", func(t *trial) {
			t.journal.record.Load.Completed, t.journal.record.Tasks[0].End.Restarts = 5000, 1
			t.journal.record.Load.Classes = map[string]int64{"2xx": 5000, "conn": 5000}
			inject(t)
		}, "", "", warns},
		{"the control plane restarted after a fault of another plane", func(t *trial) {
			t.journal.record.Tasks[0].Plane, t.journal.record.Tasks[0].End.Restarts = metric.Control, 1
			inject(t)
		}, "restarted", "was restarted 1 time", invalidates},
		{"rate missed, and a fault without a target", func(t *trial) {
			t.journal.record.Load.Completed = 9949
			t.setup.Experiment.Faults = []experiment.Fault{{Kind: "pause"}}
		}, "rate-missed", "9949 of 10000", invalidates},
		{"requests that fail in a change", func(t *trial) { change(t, 9900, 90) }, "", "", warns},
		{"a missed rate in a change", func(t *trial) { change(t, 9900, 49) }, "rate-missed", "9949 of 10000 intended requests were answered, or failed,", invalidates},
		{"a missed rate after a fault that delays no answer", func(t *trial) {
			t.journal.record.Load.Completed = 5000
			inject(t)
			t.setup.Experiment.Faults[0].Kind = "errors"
		}, "rate-missed", "5000 of 10000", invalidates},
		{"a restart after a fault that ends no task", func(t *trial) {
			t.journal.record.Tasks[0].End.Restarts = 1
			inject(t)
			t.setup.Experiment.Faults[0].Kind = "latency"
		}, "restarted", "was restarted 1 time", invalidates},
		{"a fault under a generator without seconds", func(t *trial) { inject(t); t.seen.seconds = nil }, "faults-unjudged", "before and after the faults were not checked", warns},
		{"nothing intended after a fault", func(t *trial) { t.journal.record.Load.Intended = 0; inject(t) }, "rate-missed", "sent nothing", invalidates},
		{"no request ended after a fault", func(t *trial) { t.journal.record.Load.Classes = nil; inject(t) }, "errors", "no request ended", invalidates},
		{"changed by hand", func(t *trial) {
			t.journal.record.ByHand = []result.ByHand{{Target: "front-0", Patch: `{"delay": "1ms"}`}, {Target: "front-1"}}
		}, "changed-by-hand", `2 changes by hand: front-0 to {"delay": "1ms"} first`, invalidates},
		{"changed through its REST interface", func(t *trial) {
			t.journal.record.Balance = &balance.Balance{Flows: []balance.Flow{{Place: balance.Place{Service: "front"}, Reconfigured: true}}}
		}, "changed-by-hand", "configuration of service front was changed", invalidates},
		{"nothing intended", func(t *trial) { t.journal.record.Load.Intended = 0 }, "rate-missed", "sent nothing", invalidates},
		{"closed loop has no rate", func(t *trial) { t.load.profile.Rate = 0; t.journal.record.Load.Completed = 1 }, "", "", warns},
		{"errors at their limit", func(t *trial) { t.journal.record.Load.Classes = map[string]int64{"2xx": 9990, "timeout": 10} }, "", "", warns},
		{"errors", func(t *trial) {
			t.journal.record.Load.Classes = map[string]int64{"2xx": 9000, "status": 600, "conn": 400}
			t.journal.record.Load.Statuses, t.journal.record.Load.Errors = map[string]int64{"200": 9000, "503": 600}, map[string]int64{"reset": 400}
		}, "errors", "1000 of 10000 requests failed (10.00 %, limit 0.10 %): status 503 (600), reset (400)", invalidates},
		{"no request ended", func(t *trial) { t.journal.record.Load.Classes = nil }, "errors", "no request ended", invalidates},
		{"wrong size", func(t *trial) { t.journal.record.Load.Errors["wrong size"] = 3 }, "response-size", "3 responses", invalidates},
		{"generator saturated", func(t *trial) { t.journal.record.Load.ThreadCPURatio = float(0.95) }, "generator-saturated", "95 %", invalidates},
		{"generator saturated in a closed loop", func(t *trial) { t.load.profile.Rate = 0; t.journal.record.Load.ThreadCPURatio = float(0.95) }, "generator-saturated", "95 %", warns},
		{"generator without these figures", func(t *trial) { t.journal.record.Load.ThreadCPURatio, t.journal.record.Load.LatenessP99US = nil, nil }, "", "", warns},
		{"a little late", func(t *trial) { t.journal.record.Load.LatenessP99US = float(1500) }, "generator-late", "p99 1.5ms, more than 1ms", warns},
		{"late for a quick server is not late for a slow one", func(t *trial) {
			t.journal.record.Load.LatenessP99US = float(1500)
			for i := range t.load.progress {
				t.load.progress[i].P50MS = 20
			}
		}, "", "", warns},
		{"late by the file's limit", func(t *trial) {
			t.setup.Experiment.Validity.Lateness = experiment.Duration(100 * time.Microsecond)
		}, "generator-late", "more than 100µs", warns},
		{"grossly late", func(t *trial) { t.journal.record.Load.LatenessP99US = float(11_000) }, "generator-late", "11ms", withholds},
		{"late, waiting for connections", func(t *trial) {
			t.journal.record.Load.LatenessP99US, t.journal.record.Load.OwnLatenessP99US = float(11_000), float(10)
		}, "", "", warns},
		{"unattributed", func(t *trial) { t.journal.record.Tasks[1].End.CPU = 1e9 + 2e7 }, "unattributed", "2.0 % of all CPU", invalidates},
		{"other workloads use a lot", func(t *trial) { addForeign(t, 4e9, 0.9) }, "", "", warns},
		{"other workloads end and restart", func(t *trial) {
			addForeign(t, 0, 0.99)
			u := &t.journal.record.Tasks[2]
			u.Missing, u.End.Restarts = "not read at the end: it ended", 1
		}, "", "", warns},
		{"other workloads starve the trial", func(t *trial) { addForeign(t, 4e9, 0.99) }, "foreign-starves", "node n1 was 99 % busy (limit 95 %), and other workloads used 79.9 % of all CPU", invalidates},
		{"other workloads on a full node", func(t *trial) { addForeign(t, 2e7, 0.99) }, "", "", warns},
		{"a node agent of tare was replaced", func(t *trial) {
			addForeign(t, 0, 0.5)
			t.journal.record.Tasks[2].Plane, t.journal.record.Tasks[2].Missing = metric.Harness, "not read at the end: it ended"
		}, "", "", warns},
		{"task missing", func(t *trial) { t.journal.record.Tasks[0].Missing = "not read at the end: it ended" }, "task-missing", "echo-0/app: not read at the end", invalidates},
		{"clock stepped", func(t *trial) { t.seen.stepped = -time.Second }, "clock-stepped", "stepped by -1s during", warns},
		{"clock slewed", func(t *trial) { t.seen.stepped = 90 * time.Millisecond }, "", "", warns},
		{"clock stepped before the start", func(t *trial) { t.load.edges.began = time.Second; t.seen.stepped = time.Second }, "clock-stepped", "during the start of the load", invalidates},
		{"CPU stolen", func(t *trial) { t.journal.record.Node.End.Steal = 1.1e9 }, "cpu-stolen", "5.5 %", warns},
		{"restarted", func(t *trial) { t.journal.record.Tasks[0].End.Restarts, t.journal.record.Tasks[0].End.OOMKills = 2, 1 }, "restarted",
			"echo-0/app was restarted 2 times, OOMKilled 1 time or more", invalidates},
		{"restarted before", func(t *trial) {
			t.journal.record.Tasks[0].Start.Restarts, t.journal.record.Tasks[0].End.Restarts = 2, 2
		}, "", "", warns},
		{"throttled", func(t *trial) { held(&t.journal.record.Tasks[0], 15*time.Millisecond) }, "throttled", "echo-0/app 0.1 % of the time (15ms)", warns},
		{"a throttled pod of the cluster itself", func(t *trial) {
			t.journal.record.Tasks = append(t.journal.record.Tasks, result.TaskUsage{Task: mesh.Task{ID: "node/agent", Plane: metric.Platform}})
			held(&t.journal.record.Tasks[2], 5*time.Second)
		}, "", "", warns},
		{"several throttled, the longest first", func(t *trial) {
			for i, back := range []time.Duration{20, 3000, 40, 2000} {
				u := result.TaskUsage{Task: mesh.Task{ID: fmt.Sprintf("echo-%d/app", i), Plane: metric.App}}
				held(&u, back*time.Millisecond)
				t.journal.record.Tasks = append(t.journal.record.Tasks, u)
			}
		}, "throttled", "limits: echo-1/app 30.0 % of the time (3s), echo-3/app 20.0 % of the time (2s), echo-2/app 0.4 % of the time (40ms) and 1 more", warns},
		{"a throttled generator", func(t *trial) {
			t.journal.record.Tasks = append(t.journal.record.Tasks, result.TaskUsage{Task: mesh.Task{ID: "load-0/load", Plane: metric.Load}})
			held(&t.journal.record.Tasks[2], 4500*time.Millisecond)
		}, "throttled", "load-0/load 45.0 % of the time (4.5s)", withholds},
		{"a generator throttled once", func(t *trial) {
			t.journal.record.Tasks = append(t.journal.record.Tasks, result.TaskUsage{Task: mesh.Task{ID: "load-0/load", Plane: metric.Load}})
			held(&t.journal.record.Tasks[2], 90*time.Millisecond)
		}, "throttled", "load-0/load 0.9 % of the time (90ms)", warns},
		{"hardly throttled", func(t *trial) { held(&t.journal.record.Tasks[0], 9*time.Millisecond) }, "", "", warns},
		{"a container whose throttling is unknown", func(t *trial) { t.journal.record.Tasks[0].Namespace = "shop" }, "throttling-unknown", "echo-0/app", warns},
		{"slices overrun", func(t *trial) { overrun(t, 200) }, "slices-overrun", "2.0 %, limit 1 %", warns},
		{"slices hardly overrun", func(t *trial) { overrun(t, 90) }, "", "", warns},
		{"slices grossly overrun", func(t *trial) { overrun(t, 1100) }, "slices-overrun", "11.0 %, limit 1 %", warns},
		{"slices read late", func(t *trial) { readLate(t, 2*time.Millisecond) }, "slices-read-late", "2.0 % of the time of slices counts for the slice before (limit 0.5 %)", warns},
		{"slices hardly read late", func(t *trial) { readLate(t, 400*time.Microsecond) }, "", "", warns},
		{"slices read grossly late", func(t *trial) { readLate(t, 11*time.Millisecond) }, "slices-read-late", "11.0 % of the time of slices counts for the slice before (limit 5.0 %)", invalidates},
		{"slices read late by almost the gross limit", func(t *trial) { readLate(t, 4900*time.Microsecond) }, "slices-read-late", "4.9 % of the time of slices counts for the slice before (limit 0.5 %)", warns},
		{"answers without CPU", func(t *trial) { t.journal.record.Tasks[0].End.CPU = 1e9; t.journal.record.Tasks[1].End.CPU = 1e9 }, "cpu-impossible", "10000 requests were answered, and application and data plane used 0.0 ms of CPU", invalidates},
		{"answers with more taken off than was used", func(t *trial) { t.journal.record.Tasks[0].End.CPU = 1e9 - 5e6; t.journal.record.Tasks[1].End.CPU = 1e9 }, "cpu-impossible", "used -5.0 ms of CPU", invalidates},
		{"answers by the cheapest program", func(t *trial) { t.journal.record.Tasks[0].End.CPU = 1e9 + 1e7; t.journal.record.Tasks[1].End.CPU = 1e9 }, "", "", warns},
		{"application of another", func(t *trial) { t.journal.record.Tasks = nil }, "", "", warns},
		{"tasks wait for a CPU", func(t *trial) { t.journal.record.Load.CPUPressure = float(1) }, "cpu-pressure", "during 100 % of the measure phase (limit 50 %)", warns},
		{"tasks seldom wait for a CPU", func(t *trial) { t.journal.record.Load.CPUPressure = float(0.5) }, "", "", warns},
		{"work deferred beyond the warm-up", func(t *trial) {
			t.seen.work = &workSeen{lasted: 2 * time.Second, warmup: time.Second, beyond: 1e8, cost: 1e9}
		}, "work-deferred", "2.0 s after the load, longer than the warm-up of 1.0 s: up to 5.0 % of the cost is missing", warns},
		{"few bursts", func(t *trial) {
			t.seen.bursts = &burstsSeen{count: 2, largest: 4e7, cost: 1e9, over: 10 * time.Second}
		}, "cpu-bursts", "2 bursts of up to 40ms of CPU in 10s: one more or fewer changes the cost by 4.0 % (limit 3 %)", warns},
		{"small bursts", func(t *trial) {
			t.seen.bursts = &burstsSeen{count: 2, largest: 2e7, cost: 1e9, over: 10 * time.Second}
		}, "", "", warns},
		{"readings a little late", func(t *trial) { shifted(t, 90*time.Millisecond, -90*time.Millisecond) }, "", "", warns},
		{"readings late", func(t *trial) { shifted(t, 0, 512*time.Millisecond) }, "readings-shifted", "read 512ms after the end of the load's measure phase (5.1 % of it, limit 1 %)", warns},
		{"readings before a late load", func(t *trial) { shifted(t, -512*time.Millisecond, 0) }, "readings-shifted", "read 512ms before the start", warns},
		{"readings grossly late", func(t *trial) { shifted(t, 1100*time.Millisecond, 0) }, "readings-shifted", "11.0 % of it, limit 10 %", withholds},
		{"readings of a task that a fault ended", func(t *trial) {
			shifted(t, 2*time.Second, 0)
			t.journal.record.Tasks[0].Ended = true
		}, "", "", warns},
		{"no node", func(t *trial) { t.journal.record.Node = nil }, "", "", warns},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := soundTrial()
			c.spoil(tr)
			warnings := tr.checked()
			if c.code == "" {
				if len(warnings) > 0 {
					t.Errorf("%+v, want none", warnings)
				}
				return
			}
			i := slices.IndexFunc(warnings, func(w result.Warning) bool { return w.Code == c.code })
			if i < 0 {
				t.Fatalf("%+v, want %s", warnings, c.code)
			}
			w := warnings[i]
			must.Contain(t, w.Message, c.message)
			if w.Invalidates != (c.effect == invalidates) {
				t.Errorf("it invalidates: %v", w.Invalidates)
			}
			if w.Withholds != (c.effect == withholds) {
				t.Errorf("it withholds: %v", w.Withholds)
			}
			if w.Hint == "" {
				t.Error("it has no hint")
			}
			seen := map[string]bool{}
			for _, w := range warnings {
				if seen[w.Code] {
					t.Errorf("two warnings %s", w.Code)
				}
				seen[w.Code] = true
			}
		})
	}
}

// inject makes a fault of the experiment hit the trial.
func inject(t *trial) {
	t.setup.Experiment.Faults = []experiment.Fault{{Kind: "pause"}}
	t.journal.record.Faults = []result.Fault{{Kind: "pause"}}
	t.seen.seconds = []second{}
}

// change makes a change of a route, and some requests unanswered, of which the connections of some failed.
func change(t *trial, answered, failed int64) {
	t.journal.record.Changes = []result.Change{{Kind: metric.RouteChanged}}
	t.journal.record.Load.Completed = answered
	t.journal.record.Load.Classes = map[string]int64{"2xx": answered, "conn": failed}
	t.seen.seconds = []second{}
}

// overrun makes n of 10,000 requests end after the next slice.
func overrun(t *trial, n int64) {
	t.journal.record.Load.SliceCounts = []load.SliceCount{{Intended: 10_000, Overrun: n}}
}

// readLate makes every reading late, in slices of 100 ms without guard.
func readLate(t *trial, late time.Duration) {
	t.load.profile.Slices = &load.Slices{Length: 100 * time.Millisecond}
	t.journal.record.Load.Start = t.load.profile.Start.Add(t.load.profile.Warmup)
	t.seen.readingsLate = []time.Duration{late, late}
}

// shifted makes the readings of a task lie beside the edges of a measure phase of ten seconds.
func shifted(t *trial, start, end time.Duration) {
	l, u := t.journal.record.Load, &t.journal.record.Tasks[0]
	l.Start, l.End = time.Unix(1000, 0), time.Unix(1010, 0)
	u.Start.At, u.End.At = l.Start.Add(start), l.End.Add(end)
}

// The message, which the text and the page print as it is, has the threshold of the reference.
func TestThresholdOfOverruns(t *testing.T) {
	page := string(must.Get(os.ReadFile("../../../docs/reference/warnings.md"))(t))
	row := regexp.MustCompile("(?m)^- `slices-overrun` \\(marked\\): Over (\\d+) % of the trial's requests").FindStringSubmatch(page)
	if row == nil {
		t.Fatal("docs/reference/warnings.md has no threshold of slices-overrun")
	}
	share := must.Get(strconv.ParseInt(row[1], 10, 64))(t)
	for n, want := range map[int64]string{share * 100: "", share*100 + 1: "limit " + row[1] + " %", 9000: "limit " + row[1] + " %"} {
		tr := soundTrial()
		overrun(tr, n)
		warnings := tr.checked()
		if text := fmt.Sprint(warnings); (len(warnings) == 0) != (want == "") || !strings.Contains(text, want) || strings.Contains(text, "withhold") {
			t.Errorf("%d of 10000 requests: %s, want %q", n, text, want)
		}
		for _, w := range warnings {
			if w.Withholds || w.Invalidates {
				t.Errorf("%d of 10000 requests: %+v is more than marked", n, w)
			}
		}
	}
}

// Every code has a line in the reference.
func TestCodesAreOnThePage(t *testing.T) {
	page := must.Get(os.ReadFile("../../../docs/reference/warnings.md"))(t)
	for _, c := range checks {
		if !strings.Contains(string(page), "- `"+c.code+"`") {
			t.Errorf("%s is not in docs/reference/warnings.md", c.code)
		}
	}
}

// The metrics of every check exist.
func TestChecksNameMetrics(t *testing.T) {
	for _, c := range checks {
		for _, m := range c.metrics {
			if _, ok := metric.LookupBase(metric.Base(m)); !ok {
				t.Errorf("check %s concerns %q, which is not a metric", c.code, m)
			}
		}
	}
}
