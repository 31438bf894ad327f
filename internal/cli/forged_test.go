package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/verify"
	"github.com/tare-mesh/tare/test/clitest"
	"github.com/tare-mesh/tare/test/must"
)

// object is a value of JSON.
type object = map[string]any

// forgery changes one trial of a run. It gets the directory of the trial and its record, which it changes.
type forgery struct {
	name   string
	change func(t *testing.T, trial string, r object)
}

// at is the value at a path of names and indices.
func at(v any, path ...any) any {
	for _, p := range path {
		if i, ok := p.(int); ok {
			v = v.([]any)[i]
		} else {
			v = v.(object)[p.(string)]
		}
	}
	return v
}

// times multiplies numbers of an object, and keeps them whole.
func times(by float64, names ...string) func(object) {
	return func(v object) {
		for _, n := range names {
			if x, ok := v[n].(float64); ok {
				v[n] = float64(int64(x * by))
			}
		}
	}
}

// inRecord is a forgery of the record alone.
func inRecord(name string, change func(r object)) forgery {
	return forgery{name, func(_ *testing.T, _ string, r object) { change(r) }}
}

// inApp is a forgery of the task of the application.
func inApp(name string, change func(task object)) forgery {
	return inRecord(name, func(r object) { change(taskOf(r, "echo-0/app")) })
}

func used(by float64) func(object) {
	return func(task object) {
		start, end := task["start"].(object), task["end"].(object)
		end["cpu"] = float64(int64(start["cpu"].(float64) + by*(end["cpu"].(float64)-start["cpu"].(float64))))
	}
}

// rewritten changes a file of the trial by a function of its text.
func rewritten(name, file string, change func(string) string) forgery {
	return forgery{name, func(t *testing.T, trial string, _ object) {
		path := filepath.Join(trial, file)
		text := must.Get(os.ReadFile(path))(t)
		changed := change(string(text))
		if changed == string(text) {
			t.Fatalf("%s is as before", file)
		}
		must.OK(t, os.WriteFile(path, []byte(changed), 0o600))
	}}
}

// scaled multiplies all times in logs of latencies, and keeps their counts.
func scaled(t *testing.T, trial string, by float64, files ...string) {
	for _, name := range files {
		path := filepath.Join(trial, name)
		b := must.Get(os.ReadFile(path))(t)
		var start time.Time
		if m := regexp.MustCompile(`#\[StartTime: .*, (\S+)\]`).FindSubmatch(b); m != nil {
			start = must.Get(time.Parse(time.RFC3339Nano, string(m[1])))(t)
		}
		var out bytes.Buffer
		w := must.Get(hdrlog.NewWriter(&out, start, ""))(t)
		must.OK(t, errors.Join(hdrlog.ReadIntervals(bytes.NewReader(b), func(from, to time.Duration, tag string, h *hdrhistogram.PackedHistogram) error {
			moved := hdrhistogram.NewPacked(h.LowestTrackableValue(), h.HighestTrackableValue(), int(h.SignificantFigures()))
			for _, bar := range hdrlog.Dense(h).Distribution() {
				if bar.Count > 0 {
					_ = moved.RecordValues(int64(float64(bar.To)*by), bar.Count)
				}
			}
			return w.Interval(from, to, tag, moved)
		}), w.Flush(), os.WriteFile(path, out.Bytes(), 0o600)))
	}
}

// column multiplies the numbers of a column of slices.csv, or with 0 makes them 0.
func column(name string, by float64) func(string) string {
	return func(text string) string {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		i := slices.Index(strings.Split(lines[0], ","), name)
		for n, line := range lines[1:] {
			cells := strings.Split(line, ",")
			var x float64
			_, _ = fmt.Sscan(cells[i], &x)
			cells[i] = fmt.Sprint(int64(x * by))
			lines[n+1] = strings.Join(cells, ",")
		}
		return strings.Join(lines, "\n") + "\n"
	}
}

// forgeries apply to every recorded trial of this machine.
var forgeries = []forgery{
	inRecord("factors", func(r object) {
		for name, v := range r["factors"].(object) {
			if _, number := v.(float64); number {
				r["factors"].(object)[name] = 1.0
			}
		}
	}),
	inRecord("control", func(r object) { r["control"] = r["control"] != true }),
	inRecord("another treatment", func(r object) { r["treatment"] = "other" }),
	inRecord("another block", func(r object) { r["block"] = 7.0 }),
	inRecord("another ordinal", func(r object) { r["ordinal"] = 99.0 }),
	inApp("resident memory by ten", func(task object) { times(0.1, "rss")(task["end"].(object)); delete(task["end"].(object), "pss") }),
	inApp("half of the resident memory", func(task object) { times(0.5, "rss")(task["end"].(object)); delete(task["end"].(object), "pss") }),
	inApp("resident memory above the peak", func(task object) { times(3, "rss")(task["end"].(object)) }),
	inApp("half of the peak", func(task object) { times(0.5, "peak")(task["end"].(object)) }),
	inApp("half of the trace", func(task object) {
		for _, m := range task["memory"].([]any) {
			times(0.5, "rss")(m.(object))
		}
	}),
	inApp("memory at the end and in the trace", func(task object) {
		times(0.5, "rss")(task["end"].(object))
		delete(task["end"].(object), "pss")
		for _, m := range task["memory"].([]any) {
			times(0.5, "rss")(m.(object))
		}
	}),
	inApp("half of the CPU time", used(0.5)),
	inApp("twice the CPU time", used(2)),
	inApp("no CPU time", used(0)),
	inApp("CPU time that decreases", func(task object) { times(100, "cpu")(task["start"].(object)) }),
	inApp("another plane", func(task object) { task["plane"] = "load" }),
	inRecord("a task removed", func(r object) {
		r["tasks"] = slices.DeleteFunc(r["tasks"].([]any), func(task any) bool { return task.(object)["id"] == "echo-0/app" })
	}),
	inApp("a task missing", func(task object) { task["missing"] = "it ended" }),
	inApp("readings of another time", func(task object) {
		end := task["end"].(object)
		when, _ := time.Parse(time.RFC3339Nano, end["at"].(string))
		end["at"] = when.Add(800 * time.Millisecond)
	}),
	inRecord("CPU time of the machine", func(r object) { times(0.999, "busy")(at(r, "node", "end").(object)) }),
	inRecord("steal time", func(r object) { at(r, "node", "end").(object)["steal"] = 1e18 }),
	inRecord("half of the answers", func(r object) { times(0.5, "completed")(r["load"].(object)) }),
	inRecord("half of the requests", func(r object) { times(0.5, "intended")(r["load"].(object)) }),
	inRecord("half of the sent requests", func(r object) { times(0.5, "sent")(r["load"].(object)) }),
	inRecord("half of the class 2xx", func(r object) { times(0.5, "2xx")(at(r, "load", "classes").(object)) }),
	inRecord("failures in place of answers", func(r object) {
		c := at(r, "load", "classes").(object)
		c["timeout"], c["2xx"] = c["2xx"], 0.0
	}),
	inRecord("statuses of errors", func(r object) { r["load"].(object)["statuses"] = object{"500": at(r, "load", "completed")} }),
	inRecord("half of all counts", func(r object) {
		times(0.5, "completed", "intended", "sent")(r["load"].(object))
		times(0.5, "2xx")(at(r, "load", "classes").(object))
		times(0.5, "200")(at(r, "load", "statuses").(object))
	}),
	inRecord("another rate", func(r object) { times(2, "askedRate")(r["load"].(object)) }),
	inRecord("a longer measure phase", func(r object) { times(2, "measureSeconds")(r["load"].(object)) }),
	inRecord("an error in a valid trial", func(r object) { r["valid"], r["error"] = true, "it failed" }),
	inRecord("requests that are not conserved", func(r object) { at(r, "balance", "equations", 0).(object)["counted"] = 1.0 }),
	inRecord("requests of the whole load", func(r object) { times(0.5, "sent")(at(r, "load", "whole").(object)) }),
	inRecord("phases out of order", func(r object) { p := r["phases"].([]any); p[1], p[2] = p[2], p[1] }),
	inRecord("a phase removed", func(r object) { r["phases"] = r["phases"].([]any)[1:] }),
	inRecord("an earlier end", func(r object) { r["ended"] = r["started"] }),
	inRecord("a busy thread", func(r object) { r["load"].(object)["threadCPURatio"] = 0.99 }),
	inRecord("lateness", func(r object) { r["load"].(object)["ownLatenessP99US"] = 80000.0 }),
	inRecord("lateness almost removed", func(r object) {
		l := r["load"].(object)
		l["latenessP50US"], l["latenessP99US"], l["ownLatenessP99US"], l["latenessMaxUS"] = 0.1, 0.2, 0.2, 0.3
	}),
	inRecord("own lateness above all lateness", func(r object) { times(3, "ownLatenessP99US")(r["load"].(object)) }),
	inRecord("CPU time of the generator", func(r object) { r["load"].(object)["cpuSeconds"] = 0.001 }),
	inRecord("a failed check in a valid trial", func(r object) { at(r, "checks", 0).(object)["ok"] = false }),
	inRecord("a change that no event has", func(r object) {
		r["changes"] = []any{object{"kind": "route", "dueSeconds": 1.0, "sentSeconds": 1.0, "acceptedSeconds": 1.0, "probes": 0.0, "failed": 0.0, "flaps": 0.0}}
	}),
	inRecord("a fault that no event has", func(r object) {
		r["faults"] = []any{object{"index": 0.0, "kind": "pause", "targets": []any{"echo-0"}, "start": r["started"]}}
	}),
	inRecord("throttling", func(r object) {
		taskOf(r, "echo-0/app")["start"].(object)["throttled"], taskOf(r, "echo-0/app")["end"].(object)["throttled"] = 0.0, 1e9
	}),
	inRecord("restarts", func(r object) { taskOf(r, "echo-0/app")["end"].(object)["restarts"] = 2.0 }),
	inRecord("wrong sizes", func(r object) { r["load"].(object)["errors"] = object{"wrong size": 3.0} }),
	inRecord("a change by hand", func(r object) {
		r["byHand"] = []any{object{"target": "echo-0", "at": r["started"], "patch": "{}"}}
	}),
	rewritten("events without the last", result.EventsFile, func(s string) string { return s[:strings.LastIndexByte(s[:len(s)-1], '\n')+1] }),
	rewritten("events of another trial", result.EventsFile, func(s string) string { return strings.ReplaceAll(s, `"trial":"`, `"trial":"x`) }),
	rewritten("rates of the events", result.EventsFile, func(s string) string {
		return regexp.MustCompile(`"rate":\d+`).ReplaceAllString(s, `"rate":1`)
	}),
	rewritten("samples of memory", result.EventsFile, func(s string) string {
		return regexp.MustCompile(`"rss":\d+`).ReplaceAllString(s, `"rss":4096`)
	}),
	rewritten("samples of CPU", result.EventsFile, func(s string) string {
		return regexp.MustCompile(`"cpu":\d`).ReplaceAllString(s, `"cpu":9`)
	}),
	rewritten("an event of invalidity removed or added", result.EventsFile, func(s string) string {
		if lines := regexp.MustCompile(`(?m)^.*"kind":"invalid".*\n`); lines.MatchString(s) {
			return lines.ReplaceAllString(s, "")
		}
		i := strings.LastIndexByte(s[:len(s)-1], '\n') + 1
		return s[:i] + `{"t":"2026-03-01T12:00:00Z","kind":"invalid","message":"too few"}` + "\n" + s[i:]
	}),
	{"halved latencies that reports use", func(t *testing.T, trial string, _ object) { scaled(t, trial, 0.5, result.MeasuredFile) }},
	{"halved latencies everywhere", func(t *testing.T, trial string, _ object) {
		scaled(t, trial, 0.5, result.MeasuredFile, result.LatencyFile)
	}},
	{"no latencies", func(t *testing.T, trial string, _ object) {
		must.OK(t, os.Remove(filepath.Join(trial, result.LatencyFile)))
	}},
}

// alone are forgeries of trials without slices, which the samples refute; invalid is a trial with warnings.
var alone, invalid = []forgery{
	inRecord("valid to invalid", func(r object) {
		r["valid"], r["warnings"] = false, []any{object{"code": "rate-missed", "message": "it was missed", "invalidates": true}}
	}),
	inRecord("a warning added", func(r object) {
		r["warnings"] = []any{object{"code": "errors", "message": "many", "invalidates": true}}
	}),
	inRecord("CPU time outside of the tasks", func(r object) { times(0.5, "outsideCPU")(r) }),
	inApp("half of the proportional set size", func(task object) { times(0.5, "pss")(task["end"].(object)) }),
	inApp("context switches", func(task object) { times(0.5, "voluntary", "involuntary")(task["end"].(object)) }),
	inApp("CPU time of the trace", func(task object) {
		for _, m := range task["memory"].([]any) {
			times(1.001, "cpu")(m.(object))
		}
	}),
}, []forgery{
	inRecord("invalid to valid", func(r object) { r["valid"] = true; delete(r, "warnings") }),
	inRecord("valid with its warnings", func(r object) { r["valid"] = true }),
	inRecord("warnings removed", func(r object) { delete(r, "warnings") }),
	inRecord("one warning removed", func(r object) { r["warnings"] = r["warnings"].([]any)[:1] }),
	inRecord("warnings without effect", func(r object) {
		r["valid"] = true
		for _, w := range r["warnings"].([]any) {
			delete(w.(object), "invalidates")
		}
	}),
	{"invalid to valid, in the events too", func(t *testing.T, trial string, r object) {
		r["valid"] = true
		delete(r, "warnings")
		rewritten("", result.EventsFile, func(s string) string {
			return regexp.MustCompile(`(?m)^.*"kind":"invalid".*\n`).ReplaceAllString(s, "")
		}).change(t, trial, r)
	}},
}

// sliced are forgeries of trials with slices.
var sliced = []forgery{
	rewritten("CPU time of slices", result.SlicesFile, column("cpu_ns_app", 0.5)),
	inRecord("a time of placing beyond its range", func(r object) { at(r, "placing").(object)["seconds"] = 99.0 }),
	rewritten("requests of slices", result.SlicesFile, column("intended", 2)),
	rewritten("answers of slices", result.SlicesFile, column("ok", 0)),
	rewritten("response times of slices", result.SlicesFile, column("response_ns", 0.5)),
	rewritten("slices of another treatment", result.SlicesFile, func(s string) string {
		return strings.NewReplacer("true", "false", "false", "true").Replace(s)
	}),
	rewritten("answers after their slice", result.SlicesFile, func(s string) string {
		return regexp.MustCompile(`(?m)^(\d+,true,(?:[\d.]+,){2}\d+,\d+,\d+),\d+`).ReplaceAllString(s, "$1,9")
	}),
	{"CPU time of record and slices", func(t *testing.T, trial string, r object) {
		task := taskOf(r, "echo-0/app")
		used(0.5)(task)
		times(0.5, "idleCPU", "deferredCPU")(task)
		rewritten("", result.SlicesFile, column("cpu_ns_app", 0.5)).change(t, trial, r)
	}},
	{"latencies of another trial", func(t *testing.T, trial string, _ object) {
		for _, name := range []string{result.LatencyFile, result.MeasuredFile} {
			b := must.Get(os.ReadFile(filepath.Join(filepath.Dir(trial), "003-envoy-b2", name)))(t)
			must.OK(t, os.WriteFile(filepath.Join(trial, name), b, 0o600))
		}
	}},
}

// Every forgery whose digests were made again is found by verification: something else in the directory refutes it. Reports
// withhold the figures that cheap checks refute.
func TestForgeries(t *testing.T) {
	for _, c := range []struct {
		archive, trial string
		forgeries      [][]forgery
	}{
		{"testdata/forged/alone.tar.gz", "002-none-rate200-b1", [][]forgery{forgeries, alone}},
		{"testdata/forged/alone.tar.gz", "001-none-rate60000-b1", [][]forgery{invalid}},
		{"testdata/forged/interleaved.tar.gz", "002-envoy-b1", [][]forgery{forgeries, sliced}},
	} {
		whole := filepath.Join(t.TempDir(), "run")
		clitest.Unpack(t, c.archive, whole)
		for _, f := range slices.Concat(c.forgeries...) {
			t.Run(filepath.Base(c.archive)+"/"+f.name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "run")
				must.OK(t, os.CopyFS(dir, os.DirFS(whole)))
				trial := filepath.Join(dir, "trials", c.trial)
				change(t, filepath.Join(trial, result.RecordFile), func(r object) { f.change(t, trial, r) })
				again(t, dir, trial)
				d := must.Get(result.Open(dir))(t)
				found := must.Get(verify.Dir(dir, verify.Options{Tare: d.Environment().Tare, Expand: planOf(), Judge: judgeOf}))(t)
				if found.Problems() == 0 {
					t.Errorf("not found: %+v", found.Findings)
				}
				if slices.Contains(withheld, f.name) && trusts(d, c.trial) {
					t.Error("reports use the trial")
				}
				for _, p := range found.Findings {
					if p.Severity == verify.Problem && (strings.Contains(p.Message, "SHA-256") || strings.Contains(p.Message, "lists it")) {
						t.Errorf("found by its digest alone: %+v", p)
					}
				}
			})
		}
	}
}

// withheld are forgeries that every reader finds. Others are found only by decoding all events, or by judging the trial again.
var withheld = []string{"factors", "control", "resident memory by ten", "half of the resident memory", "half of the trace", "half of the CPU time", "CPU time of record and slices", "statuses of errors", "half of the answers",
	"an error in a valid trial", "a failed check in a valid trial", "an event of invalidity removed or added", "invalid to valid", "valid with its warnings", "warnings without effect", "halved latencies that reports use"}

// trusts reports whether readers of a directory use all figures of a trial.
func trusts(d *result.Dir, trial string) bool {
	records, err := d.Records()
	i := slices.IndexFunc(records, func(r result.Record) bool { return r.ID == trial })
	return err == nil && i >= 0 && !slices.ContainsFunc(records[i].Warnings, func(w result.Warning) bool {
		return slices.Contains([]string{result.RecordContradicts, result.RecordAltered, result.LatencyAltered}, w.Code)
	})
}

// Response times whose histogram was halved, with digests computed again, are in no report.
func TestReportsWithholdForgedTimes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	clitest.Unpack(t, "testdata/forged/interleaved.tar.gz", dir)
	times := func() (known int) {
		var r struct {
			Trials []struct{ Metrics map[string]float64 }
		}
		must.OK(t, json.Unmarshal([]byte(must.Get(output(t, "report", dir, "--format", "json"))(t)), &r))
		for _, trial := range r.Trials {
			if _, ok := trial.Metrics["latency_ms/p50"]; ok {
				known++
			}
		}
		return known
	}
	before := times()
	for _, e := range must.Get(os.ReadDir(filepath.Join(dir, "trials")))(t) {
		trial := filepath.Join(dir, "trials", e.Name())
		scaled(t, trial, 0.5, result.MeasuredFile)
		again(t, dir, trial)
	}
	if after := times(); before == 0 || after != 0 {
		t.Errorf("%d trials have a median, and %d with halved times", before, after)
	}
	must.Contain(t, must.Get(output(t, "report", dir, "--all"))(t), "latency-altered (6 of 6 trials)", "Response times of all trials are withheld")
}

// again computes the digests of a trial and of its directory again, as a person who knows the format can.
func again(t *testing.T, dir, trial string) {
	t.Helper()
	again := func(path string) {
		change(t, path, func(v object) {
			var files []any
			for _, file := range v["files"].([]any) {
				name := file.(object)["name"].(string)
				if f, err := result.Digest(filepath.Dir(path), name); err == nil {
					files = append(files, object{"name": name, "bytes": f.Bytes, "sha256": f.SHA256})
				}
			}
			v["files"] = files
		})
	}
	again(filepath.Join(trial, result.ManifestFile))
	if _, err := os.Lstat(filepath.Join(dir, result.SumsFile)); err != nil {
		again(filepath.Join(dir, result.ManifestFile))
		return
	}
	var lines []string
	must.OK(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == result.SumsFile {
			return err
		}
		sum := sha256.Sum256(must.Get(os.ReadFile(path))(t))
		name := must.Get(filepath.Rel(dir, path))(t)
		lines = append(lines, hex.EncodeToString(sum[:])+"  "+name+"\n")
		return nil
	}))
	must.OK(t, os.WriteFile(filepath.Join(dir, result.SumsFile), []byte(strings.Join(lines, "")), 0o600))
}
