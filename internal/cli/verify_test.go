package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/result/verify"
)

// measuredOnce is an experiment of two short trials.
const measuredOnce = `apiVersion: tare.dev/v1alpha1
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
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	with(v)
	if b, err = json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// half halves a number within an object.
func half(v map[string]any, path ...string) {
	for _, name := range path[:len(path)-1] {
		v = v[name].(map[string]any)
	}
	last := path[len(path)-1]
	v[last] = float64(int(v[last].(float64) / 2))
}

// Verification accepts a real run, and finds every planted change without the digests.
func TestVerifyRun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	t.Parallel()
	bin, dir := programs(t), t.TempDir()
	file, whole := filepath.Join(dir, "measured-once.yaml"), filepath.Join(dir, "run")
	if err := os.WriteFile(file, []byte(measuredOnce), 0o600); err != nil {
		t.Fatal(err)
	}
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
		{"another seed", func(t *testing.T, dir, _ string) {
			change(t, filepath.Join(dir, "plan.json"), func(v map[string]any) { v["seed"] = 17 })
		}, "it is not the plan of experiment.yaml: seed"},
		{"another experiment", func(t *testing.T, dir, _ string) {
			path := filepath.Join(dir, "experiment.yaml")
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, bytes.Replace(b, []byte("measured-once"), []byte("measured-twice"), 1), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "experiment.yaml it was changed after the run began"},
		{"a lost log", func(t *testing.T, _, trial string) {
			if err := os.Remove(filepath.Join(trial, "provenance", "commands.sh")); err != nil {
				t.Fatal(err)
			}
		}, "provenance/commands.sh it is missing"},
		{"a torn record", func(t *testing.T, _, trial string) {
			if err := os.Truncate(filepath.Join(trial, "record.json"), 300); err != nil {
				t.Fatal(err)
			}
		}, "unexpected end of JSON input"},
		{"a device in place of a record", func(t *testing.T, _, trial string) {
			path := filepath.Join(trial, "record.json")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("/dev/zero", path); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file but a device"},
	} {
		t.Run(c.name, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "run")
			if err := os.CopyFS(copied, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			trials, err := filepath.Glob(filepath.Join(copied, trial+"*"))
			if err != nil || len(trials) != 1 {
				t.Fatalf("%v, %v", trials, err)
			}
			c.change(t, copied, trials[0])
			out, code := tare("verify", copied, "--format", "json")
			var all []verify.Result
			if err := json.NewDecoder(strings.NewReader(out)).Decode(&all); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var found []string
			for _, f := range all[0].Findings {
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
