package cli

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/verify"
	"github.com/tare-mesh/tare/test/clitest"
	"github.com/tare-mesh/tare/test/must"
)

// changed is another value of the same type: numbers are halved, times are an hour later.
func changed(v any) any {
	switch v := v.(type) {
	case bool:
		return !v
	case float64:
		if v == 0 || v == 1 {
			return v + 1
		}
		if v == float64(int64(v)) {
			return float64(int64(v / 2))
		}
		return v / 2
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return at.Add(time.Hour).Format(time.RFC3339Nano)
		}
		return v + "x"
	}
	return v
}

// leaves lists changes of the values below v, by path with [] for any index. Of a path it is the largest number.
func leaves(v any, path string, all map[string]func(), size map[string]float64) {
	add := func(path string, of any, set func(any)) {
		n, _ := of.(float64)
		if _, known := all[path]; !known || n > size[path] {
			all[path], size[path] = func() { set(changed(of)) }, n
		}
	}
	switch v := v.(type) {
	case object:
		if v["plane"] == "harness" {
			return // tare itself is in no figure of a treatment
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch of := v[name].(type) {
			case object, []any:
				leaves(of, path+"."+name, all, size)
			default:
				add(path+"."+name, of, func(x any) { v[name] = x })
			}
		}
	case []any:
		for i, of := range v {
			switch of := of.(type) {
			case object, []any:
				leaves(of, path+"[]", all, size)
			default:
				add(path+"[]", of, func(x any) { v[i] = x })
			}
		}
	}
}

// free are the fields that nothing else in a directory refutes if one of them changes alone, with the figure that depends on
// them, or with "" none. SHA256SUMS has the digest of each record, so that its signature refutes them all.
var free = map[string]string{
	".answers[].bytes": "", ".answers[].contentType": "answers that differ between treatments", ".answers[].probes": "", ".answers[].request": "", ".answers[].sha256": "answers that differ between treatments", ".answers[].status": "",
	".balance.flows[].unknown": "", ".balance.unchecked[]": "", ".checks[].detail": "", ".checks[].name": "",
	".load.backlogStart": "", ".load.ownLatenessP99US": "warnings of a late generator", ".load.threadCPURatio": "warnings of a saturated generator",
	".load.verdict": "", ".load.version": "", ".load.warnings[]": "", ".load.whole.failed": "", ".warnings[].hint": "", ".warnings[].message": "", ".warnings[].metrics[]": "figures that a warning withholds",
	".load.statuses.403": "failures by status", ".load.statuses.502": "failures by status", ".load.statuses.503": "failures by status", ".meshCounters.retries": "", ".meshCounters.timeouts": "",
	".tasks[].container": "", ".tasks[].pod": "", ".tasks[].component": "", ".tasks[].id": "", ".tasks[].role": "", ".tasks[].service": "sizes and costs by service",
	".tasks[].idleRSS": "memory before the load", ".outsideCPU": "CPU that nobody in the trial used",
	".probe.after.at": "", ".probe.after.cpus[].cpu": "", ".probe.after.cpus[].ns": "calibrated CPU", ".probe.after.cpus[].pieces": "calibrated CPU", ".probe.after.took": "", ".probe.after.work": "",
	".probe.before.at": "", ".probe.before.cpus[].cpu": "", ".probe.before.cpus[].ns": "calibrated CPU", ".probe.before.cpus[].pieces": "calibrated CPU", ".probe.before.took": "", ".probe.before.work": "",
	// Of trials with slices, whose readings at the edges are in no sample.
	".load.slices.guardSeconds": "", ".placing.plannedSeconds": "", ".placing.rangeSeconds": "",
	".tasks[].end.involuntary": "context switches", ".tasks[].end.voluntary": "context switches", ".tasks[].start.involuntary": "context switches", ".tasks[].start.voluntary": "context switches",
	".tasks[].end.pss": "proportional set size", ".tasks[].memory[].rss": "the figure of memory over time", ".tasks[].start.rss": "",
	// Of tasks that a change ended.
	".tasks[].end.at": "", ".tasks[].plane": "CPU of a task by plane",
	// What the answers of each connection showed of a change is in no other file.
	".changes[].connections": "", ".changes[].cpu.ns.app[]": "CPU of a change", ".changes[].cpu.ns.control[]": "CPU of a change", ".changes[].cpu.ns.data[]": "CPU of a change", ".changes[].cpu.ns.harness[]": "", ".changes[].cpu.ns.load[]": "", ".changes[].cpu.seconds[]": "CPU of a change",
	".changes[].cut": "requests that a change cut", ".changes[].dropped": "connections that a change dropped", ".changes[].failed": "requests that failed of a change", ".changes[].failedMs[]": "",
	".changes[].firstNew.afterMs": "time of a change", ".changes[].firstNew.beforeMs": "time of a change", ".changes[].firstNew.waitsMs[]": "time of a change", ".changes[].flaps": "answers by the old configuration",
	".changes[].lastOld.afterMs": "time of a change", ".changes[].lastOld.waitsMs[]": "time of a change", ".changes[].parts.proxies": "", ".changes[].parts.takenMs": "parts of a change", ".changes[].probes": "", ".changes[].replicas": "", ".changes[].tied": "time of a change",
}

// Every field of a record that is changed alone is refuted by something else in the directory, or is known to be free. A new
// field is one of both.
func TestFieldsOfRecords(t *testing.T) {
	if testing.Short() {
		t.Skip("verifies some 500 directories")
	}
	var held sync.Mutex
	missed := map[string]bool{}
	t.Run("archives", func(t *testing.T) {
		for _, c := range []struct{ archive, trial string }{
			{"alone", "002-none-rate200-b1"}, {"interleaved", "002-envoy-b1"}, {"faults", "001-envoy-retries-b1"}, {"changes", "001-envoy-mtls-b1"},
		} {
			t.Run(c.archive, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "run")
				clitest.Unpack(t, "testdata/forged/"+c.archive+".tar.gz", dir)
				d := must.Get(result.Open(dir))(t)
				path := filepath.Join(dir, "trials", c.trial, result.RecordFile)
				text := must.Get(os.ReadFile(path))(t)
				problems := func() int {
					return must.Get(verify.Dir(dir, verify.Options{Tare: d.Environment().Tare, Expand: planOf(), Judge: judgeOf}))(t).Problems()
				}
				if n := problems(); n > 0 {
					t.Errorf("%s: %d problems of a directory that nobody changed", c.archive, n)
				}
				fields := func() (map[string]func(), object) {
					var r object
					must.OK(t, json.Unmarshal(text, &r))
					all := map[string]func(){}
					leaves(r, "", all, map[string]float64{})
					return all, r
				}
				all, _ := fields()
				found := 0
				for _, field := range slices.Sorted(maps.Keys(all)) {
					fresh, r := fields()
					fresh[field]()
					must.OK(t, os.WriteFile(path, must.Get(json.Marshal(r))(t), 0o600))
					again(t, dir, filepath.Join(dir, "trials", c.trial))
					if problems() > 0 {
						found++
						continue
					}
					held.Lock()
					missed[field] = true
					held.Unlock()
					if _, known := free[field]; !known {
						t.Errorf("%s: %s was changed, and nothing refutes it", c.archive, field)
					}
				}
				t.Logf("%s: %d of %d changed fields are found", c.archive, found, len(all))
				d.Close()
			})
		}
	})
	for field := range free {
		if !missed[field] {
			t.Errorf("%s is free, and it is refuted in every record", field)
		}
	}
}
