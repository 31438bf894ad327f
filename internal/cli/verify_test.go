package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/verify"
	"github.com/tare-mesh/tare/test/clitest"
	"github.com/tare-mesh/tare/test/must"
)

// measuredOnce is an experiment of two short trials.
const measuredOnce = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: measured-once}
factors: {mesh: [none], rate: [100, 200]}
phases: {warmup: 1s, measure: 2s, drain: 1s}
validity: {rateShortfall: 0.5}
blocks: 1
`

// change replaces text in a JSON file of a results directory by what with makes of the decoded value.
func change(t *testing.T, path string, with func(map[string]any)) {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	var v map[string]any
	must.OK(t, json.Unmarshal(b, &v))
	with(v)
	b = must.Get(json.Marshal(v))(t)
	must.OK(t, os.WriteFile(path, b, 0o600))
}

// half halves a number within an object.
func half(v map[string]any, path ...string) {
	for _, name := range path[:len(path)-1] {
		v = v[name].(map[string]any)
	}
	last := path[len(path)-1]
	v[last] = float64(int(v[last].(float64) / 2))
}

// taskOf is a task of a record.
func taskOf(record map[string]any, id string) map[string]any {
	for _, task := range record["tasks"].([]any) {
		if task := task.(map[string]any); task["id"] == id {
			return task
		}
	}
	return nil
}

// slower adds a tenth to all latencies in latency-measure.hdr. Their number is the same.
func slower(t *testing.T, _, trial string) {
	t.Helper()
	path := filepath.Join(trial, result.MeasuredFile)
	b, err := os.ReadFile(path)
	must.OK(t, err)
	var out bytes.Buffer
	w := must.Get(hdrlog.NewWriter(&out, time.Unix(0, 0), ""))(t)
	err = hdrlog.ReadIntervals(bytes.NewReader(b), func(from, to time.Duration, tag string, h *hdrhistogram.PackedHistogram) error {
		moved := hdrhistogram.NewPacked(h.LowestTrackableValue(), h.HighestTrackableValue(), int(h.SignificantFigures()))
		for _, bar := range hdrlog.Dense(h).Distribution() {
			if bar.Count > 0 {
				_ = moved.RecordValues(bar.To+bar.To/10, bar.Count)
			}
		}
		return w.Interval(from, to, tag, moved)
	})
	must.OK(t, errors.Join(err, w.Flush(), os.WriteFile(path, out.Bytes(), 0o600)))
}

// reseal computes the digests of a trial again, as a person who knows the format can.
func reseal(t *testing.T, dir, trial string) {
	t.Helper()
	for _, manifest := range []string{filepath.Join(trial, result.ManifestFile), filepath.Join(dir, result.ManifestFile)} {
		change(t, manifest, func(v map[string]any) {
			for _, file := range v["files"].([]any) {
				entry := file.(map[string]any)
				f := must.Get(result.Digest(filepath.Dir(manifest), entry["name"].(string)))(t)
				entry["bytes"], entry["sha256"] = f.Bytes, f.SHA256
			}
		})
	}
}

// A recorded interleaved trial whose figures were changed together with their digests: verification finds it, and reports leave
// it out where the check is a cheap one.
func TestFiguresRefuteOneAnother(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "run")
	clitest.Unpack(t, "testdata/formats/v1beta1-interleaved.tar.gz", whole)
	used := func(by float64) func(map[string]any) {
		return func(v map[string]any) {
			for _, task := range []string{"echo-0/sidecar", "load/sidecar"} {
				start, end := taskOf(v, task)["start"].(map[string]any), taskOf(v, task)["end"].(map[string]any)
				end["cpu"] = math.Round(start["cpu"].(float64) + by*(end["cpu"].(float64)-start["cpu"].(float64)))
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(map[string]any)
		want   string
	}{
		{"nothing", func(map[string]any) {}, ""},
		{"CPU time by 1000", used(1000), "slices.csv +its slices have .* of CPU time of plane data"},
		{"CPU time by 2", used(2), "slices.csv +its slices have .* of CPU time of plane data"},
		{"half of the CPU time", used(0.5), "slices.csv +its slices have .* of CPU time of plane data"},
		{"memory", func(v map[string]any) { taskOf(v, "echo-0/sidecar")["end"].(map[string]any)["rss"] = 1e9 }, "record.json +task echo-0/sidecar has 1000000000 bytes of memory, and its peak is "},
		{"a task removed", func(v map[string]any) {
			v["tasks"] = slices.DeleteFunc(v["tasks"].([]any), func(task any) bool { return task.(map[string]any)["id"] == "load/sidecar" })
		}, "slices.csv +its slices have .* of CPU time of plane data"},
		{"a task in another plane", func(v map[string]any) { taskOf(v, "load/sidecar")["plane"] = "harness" }, "slices.csv +its slices have .* of CPU time of plane harness"},
		{"earlier readings", func(v map[string]any) {
			for _, task := range v["tasks"].([]any) {
				start := task.(map[string]any)["start"].(map[string]any)
				at := must.Get(time.Parse(time.RFC3339Nano, start["at"].(string)))(t)
				start["at"] = at.Add(-900 * time.Millisecond)
			}
		}, "slices.csv +task .* was read 900ms before the first reading of the slices"},
		{"latencies", nil, "latency-measure.hdr +its histogram .* is not the sum of that of latency.hdr in the measure phase"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			must.OK(t, os.CopyFS(dir, os.DirFS(whole)))
			trial := filepath.Join(dir, "trials", "001-envoy-b1")
			if c.change == nil {
				slower(t, dir, trial)
			} else {
				change(t, filepath.Join(trial, "record.json"), c.change)
			}
			reseal(t, dir, trial)
			out, err := output(t, "verify", dir)
			if (err != nil) != (c.want != "") || !regexp.MustCompile(c.want).MatchString(out) || strings.Contains(out, "was changed after") {
				t.Errorf("verify: %v, want %q in\n%s", err, c.want, out)
			}
			out, err = output(t, "report", dir)
			if left := strings.Contains(out, "001-envoy-b1 (the record contradicts itself)"); err != nil || left != (c.want != "" && c.change != nil) {
				t.Errorf("report: left out is %v, %v\n%s", left, err, out)
			}
		})
	}
}

// Verification accepts a real run, and finds every planted change without the digests.
func TestVerifyRun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	t.Parallel()
	bin, dir := programs(t), t.TempDir()
	file, whole := filepath.Join(dir, "measured-once.yaml"), filepath.Join(dir, "run")
	must.OK(t, os.WriteFile(file, []byte(measuredOnce), 0o600))
	tare := func(args ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(filepath.Join(bin, "tare"), args...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return out.String(), cmd.ProcessState.ExitCode()
	}
	if out, code := tare("run", file, "--plain", "--out", whole); code != console.Done && code != console.Incomplete {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	if out, code := tare("verify", whole); code != console.Done || !strings.Contains(out, "verified") {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	trial := "trials/001-"
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir, trial string)
		want   string
	}{
		{"half of the answers", func(t *testing.T, _, trial string) {
			change(t, filepath.Join(trial, "record.json"), func(v map[string]any) { half(v, "load", "completed") })
		}, "load.completed is "},
		{"half of all counts", func(t *testing.T, _, trial string) {
			change(t, filepath.Join(trial, "record.json"), func(v map[string]any) {
				for _, name := range []string{"completed", "intended", "sent"} {
					half(v, "load", name)
				}
				half(v, "load", "classes", "2xx")
				half(v, "load", "statuses", "200")
			})
		}, "its seconds have "},
		{"half of the histograms", func(t *testing.T, _, trial string) {
			change(t, filepath.Join(trial, "record.json"), func(v map[string]any) {
				half(v, "load", "recorded")
				half(v, "load", "classes", "2xx")
			})
		}, "requests of class 2xx in the measure phase"},
		{"CPU time that goes back", func(t *testing.T, _, trial string) {
			change(t, filepath.Join(trial, "record.json"), func(v map[string]any) {
				v["tasks"].([]any)[0].(map[string]any)["start"].(map[string]any)["cpu"] = 1e18
			})
		}, "decreased by"},
		{"more CPU time", func(t *testing.T, _, trial string) {
			change(t, filepath.Join(trial, "record.json"), func(v map[string]any) {
				end := taskOf(v, "echo-0/app")["end"].(map[string]any)
				end["cpu"] = end["cpu"].(float64) + 1e8
			})
		}, "events.jsonl it has no readings of task echo-0/app from "},
		{"a task removed", func(t *testing.T, _, trial string) {
			change(t, filepath.Join(trial, "record.json"), func(v map[string]any) {
				v["tasks"] = slices.DeleteFunc(v["tasks"].([]any), func(task any) bool { return task.(map[string]any)["id"] == "echo-0/app" })
			})
		}, "events.jsonl it has task echo-0/app, which the record lacks"},
		{"a task in another plane", func(t *testing.T, _, trial string) {
			change(t, filepath.Join(trial, "record.json"), func(v map[string]any) { taskOf(v, "echo-0/app")["plane"] = "harness" })
		}, " cores of plane app before "},
		{"other latencies", slower, "latency-measure.hdr its histogram "},
		{"another seed", func(t *testing.T, dir, _ string) {
			change(t, filepath.Join(dir, "plan.json"), func(v map[string]any) { v["seed"] = 17 })
		}, "it is not the plan of experiment.yaml: seed"},
		{"another experiment", func(t *testing.T, dir, _ string) {
			path := filepath.Join(dir, "experiment.yaml")
			b := must.Get(os.ReadFile(path))(t)
			must.OK(t, os.WriteFile(path, bytes.Replace(b, []byte("measured-once"), []byte("measured-twice"), 1), 0o600))
		}, "experiment.yaml it was changed after the run began"},
		{"a lost log", func(t *testing.T, _, trial string) {
			must.OK(t, os.Remove(filepath.Join(trial, "provenance", "commands.sh")))
		}, "provenance/commands.sh it is missing"},
		{"a torn record", func(t *testing.T, _, trial string) {
			must.OK(t, os.Truncate(filepath.Join(trial, "record.json"), 300))
		}, "unexpected end of JSON input"},
		{"a device in place of a record", func(t *testing.T, _, trial string) {
			path := filepath.Join(trial, "record.json")
			must.OK(t, os.Remove(path))
			must.OK(t, os.Symlink("/dev/zero", path))
		}, "record.json it is a symbolic link, which is not followed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "run")
			must.OK(t, os.CopyFS(copied, os.DirFS(whole)))
			trials, err := filepath.Glob(filepath.Join(copied, trial+"*"))
			if err != nil || len(trials) != 1 {
				t.Fatalf("%v, %v", trials, err)
			}
			c.change(t, copied, trials[0])
			out, code := tare("verify", copied, "--format", "json")
			var all struct{ Directories []verify.Result }
			if err := json.NewDecoder(strings.NewReader(out)).Decode(&all); err != nil || len(all.Directories) != 1 {
				t.Fatalf("%v\n%s", err, out)
			}
			var found []string
			for _, f := range all.Directories[0].Findings {
				if f.Severity == verify.Problem {
					found = append(found, filepath.Base(f.File)+" "+f.Message, f.File+" "+f.Message)
				}
			}
			if code != console.Gate || !strings.Contains(strings.Join(found, "\n"), c.want) {
				t.Errorf("exit code %d, want %q in\n%s", code, c.want, strings.Join(found, "\n"))
			}
		})
	}
}
