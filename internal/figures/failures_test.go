package figures

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/test/must"
)

// failing writes an interval log of a hundred requests a second, after five
// seconds of warm-up, with the failed ones of each second.
func failing(t *testing.T, failed ...int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "latency.hdr")
	f := must.Get(os.Create(path))(t)
	defer f.Close()
	log := hdrhistogram.NewHistogramLogWriter(f)
	for i, n := range failed {
		for _, part := range []struct {
			tag string
			n   int64
		}{{load.TagResponse + string(load.OK), 100 - n}, {load.TagResponse + string(load.Conn), n}} {
			if part.n == 0 {
				continue
			}
			h := hdrhistogram.New(1000, 60e9, 3)
			_ = h.RecordValues(1e6, part.n)
			h.SetTag(part.tag)
			h.SetStartTimeMs(int64(5+i) * 1000)
			h.SetEndTimeMs(int64(6+i) * 1000)
			must.OK(t, log.OutputIntervalHistogram(h))
		}
	}
	return path
}

func failureRecord(lost int64, faults ...float64) result.Record {
	r := handRecord()
	r.Load.Start = edge
	r.Load.Classes = map[string]int64{"2xx": 1000 - lost, "conn": lost, "timeout": 0, "status": 0}
	for _, at := range faults {
		r.Faults = append(r.Faults, result.Fault{Kind: "kill", Start: edge.Add(time.Duration(at * float64(time.Second)))})
	}
	return r
}

func TestFailureFigures(t *testing.T) {
	for name, c := range map[string]struct {
		record result.Record
		failed []int64
		want   map[string]float64
		warns  string
	}{
		"a fault with an outage of three seconds": {failureRecord(120, 2.5), []int64{0, 0, 20, 50, 50, 0, 0, 0, 0, 0},
			map[string]float64{"requests_lost": 120, "longest_outage_s": 3, "recovery_s": 2.5, "timeouts": 0}, ""},
		"the longer of two": {failureRecord(40, 1, 6), []int64{0, 10, 0, 0, 0, 0, 10, 10, 10, 0},
			map[string]float64{"longest_outage_s": 3, "recovery_s": 3}, ""},
		"no recovery": {failureRecord(300, 7), []int64{0, 0, 0, 0, 0, 0, 0, 100, 100, 100},
			map[string]float64{"requests_lost": 300, "longest_outage_s": 3}, "not-recovered"},
		"a fault without failures": {failureRecord(0, 5), nil, map[string]float64{"requests_lost": 0, "longest_outage_s": 0, "recovery_s": 0}, ""},
		"failures without a fault": {failureRecord(5), []int64{0, 5, 0, 0, 0, 0, 0, 0, 0, 0}, map[string]float64{"longest_outage_s": 1}, ""},
	} {
		f := &figures{values: map[string]float64{}}
		failureFigures(f, &c.record, failing(t, c.failed...))
		for metric, want := range c.want {
			if got, ok := f.values[metric]; !ok || got != want {
				t.Errorf("%s: %s is %v (known: %v), want %v", name, metric, got, ok, want)
			}
		}
		if _, known := f.values["recovery_s"]; known != (c.want["recovery_s"] > 0 || name == "a fault without failures") {
			t.Errorf("%s: recovery_s is %v", name, f.values["recovery_s"])
		}
		if c.warns == "" && len(f.warnings) > 0 || c.warns != "" && (len(f.warnings) != 1 || f.warnings[0].Code != c.warns) {
			t.Errorf("%s: warnings %+v, want %q", name, f.warnings, c.warns)
		}
	}
}

// A log with other answers than the generator counted gives neither latencies nor outages.
func TestMiscountedLogHasNoOutages(t *testing.T) {
	r := failureRecord(120, 2.5)
	r.Load.Classes["2xx"] = 500
	path := failing(t, 0, 0, 20, 50, 50, 0, 0, 0, 0, 0)
	f := &figures{values: map[string]float64{}}
	latencyFigures(f, &r, path, false)
	failureFigures(f, &r, path)
	if f.values["longest_outage_s"] != 3 || f.values["recovery_s"] != 2.5 {
		t.Fatalf("before withholding: %v", f.values)
	}
	f.withhold(nil)
	if i := slices.IndexFunc(f.warnings, func(w Warning) bool { return w.Code == "latency-count" }); i < 0 || !slices.Equal(f.warnings[i].Metrics, metric.From(metric.LatencyLog)) {
		t.Errorf("warnings %+v", f.warnings)
	}
	for name, v := range f.values {
		if m, _ := metric.Lookup(name); m.Source == metric.LatencyLog {
			t.Errorf("%s = %v", name, v)
		}
	}
	if f.values["requests_lost"] != 120 {
		t.Error("the number of failures is of the generator's count and is unknown")
	}
}

// A task killed by a fault keeps its used CPU time, and holds no memory.
func TestEndedTaskKeepsItsCost(t *testing.T) {
	r := handRecord()
	gone := usage("c/sidecar", metric.Data, 0.1, 0)
	gone.Ended, gone.End.RSS = true, 0
	r.Tasks = append(r.Tasks, gone)
	f := trialFigures(&r, false)
	for name, want := range map[string]float64{"cpu_cores/data": 1.3, "memory_mib/data": 55} {
		if got, ok := f.values[name]; !ok || got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s = %v (known: %v), want %v", name, got, ok, want)
		}
	}
}

// Of 1,000 requests sent, 1,021 arrived: 21 are retries. Replicas without a fault, other points and connections do not count.
func TestArrivedPerRequest(t *testing.T) {
	flow := func(service string, point balance.Point, unit balance.Unit, count int64) balance.Flow {
		return balance.Flow{Place: balance.Place{Service: service, Point: point, Unit: unit}, Tally: balance.Tally{Count: count}}
	}
	for name, c := range map[string]struct {
		change func(*result.Record)
		want   float64 // 0: unknown
	}{
		"retries":           {func(*result.Record) {}, 1.021},
		"no fault":          {func(r *result.Record) { r.Faults = nil }, 0},
		"a fault of a task": {func(r *result.Record) { r.Faults[0].Targets = []string{"server-1/sidecar"} }, 1.021},
		"two services":      {func(r *result.Record) { r.Faults[0].Targets = []string{"server-1", "client-0"} }, 2.023},
		"of no service":     {func(r *result.Record) { r.Faults[0].Targets = []string{"istiod"} }, 0},
		"a replica ended": {func(r *result.Record) {
			r.Balance.Flows[2] = balance.Flow{Place: r.Balance.Flows[2].Place, Unknown: "ended"}
		}, 0},
		"no counter":         {func(r *result.Record) { r.Balance.Flows = r.Balance.Flows[:2] }, 0},
		"no counts":          {func(r *result.Record) { r.Balance = nil }, 0},
		"an unknown load":    {func(r *result.Record) { r.Balance.Flows[0].Tally = balance.Tally{} }, 0},
		"another load's way": {func(r *result.Record) { r.Balance.Flows[0].Point = balance.Gateway }, 0},
	} {
		r := failureRecord(20, 2)
		r.Faults[0].Targets = []string{"server-1"}
		for _, task := range []string{"client-0/app", "server-0/app", "server-1/app", "server-1/sidecar", "istiod"} {
			u := usage(task, metric.App, 0.1, 1)
			u.Service, _, _ = strings.Cut(strings.TrimPrefix(task, "istiod"), "-")
			r.Tasks = append(r.Tasks, u)
		}
		r.Balance = &balance.Balance{Flows: []balance.Flow{flow(balance.LoadName, balance.Sent, balance.Requests, 1000), flow("client", balance.Served, balance.Requests, 1002),
			flow("server", balance.Served, balance.Requests, 1021), flow("server", balance.InReceived, balance.Requests, 1500), flow("server", balance.Served, balance.Connections, 40)}}
		c.change(&r)
		f := &figures{values: map[string]float64{}}
		failureFigures(f, &r, failing(t, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0))
		if got, known := f.values[metric.Arrived]; known != (c.want > 0) || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v (known: %v), want %v", name, got, known, c.want)
		}
	}
}
