package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/test/must"
)

// timedRun writes a run of the quickstart whose trials took a given time each, one after another with a pause.
func timedRun(t *testing.T, dir string, each, pause time.Duration, set ...string) {
	t.Helper()
	s := must.Get(testLine(t, nil).Read(t.Context(), "../../examples/quickstart.yaml", setting(append([]string{"blocks=2", "order=random"}, set...)...)))(t)
	text := must.Get(s.Experiment.YAML())(t)
	env := meter.Host()
	env.Platform = s.Experiment.Platform.Kind
	d := must.Get(result.Create(dir, text, s.Plan, env))(t)
	defer d.Close()
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for _, trial := range s.Plan.Trials {
		td := must.Get(d.Trial(trial))(t)
		r := result.Record{Schema: result.Schema, ID: trial.ID, Ordinal: trial.Ordinal, Block: trial.Block, Treatment: trial.Treatment, Valid: true, Started: at, Ended: at.Add(each)}
		must.OK(t, errors.Join(td.Finish(r), td.Seal()))
		at = r.Ended.Add(pause)
	}
}

// The plan's times come from trials of earlier runs. Pauses between trials count, an interruption does not.
func TestPlanLearnsTimes(t *testing.T) {
	file := must.Get(filepath.Abs("../../examples/quickstart.yaml"))(t)
	root := t.TempDir()
	runs := filepath.Join(root, "runs")
	timedRun(t, filepath.Join(runs, "a"), 20*time.Second, 4*time.Second)
	timedRun(t, filepath.Join(runs, "b"), 20*time.Second, time.Hour)
	timedRun(t, filepath.Join(runs, "c"), time.Hour, time.Second, "order=by-mesh") // another order
	timedRun(t, filepath.Join(runs, "d"), time.Hour, time.Second, "metadata.name=other")
	t.Chdir(root)
	for set, want := range map[string]string{
		"blocks=2":                          "about 2m10s, 21.7s per trial (estimate from 12 trials of 2 earlier runs)\n", // (6·20 + 5·4 + 6·20) s / 12
		"blocks=4":                          "about 4m20s, 21.7s per trial",
		"phases={warmup: 1s, measure: 15s}": "per trial (estimate from 12 trials", // longer phases add to it
		"metadata.name=third":               "per trial\n",                        // of no earlier run
		"phases={warmup: 1s, measure: 3m}":  "per trial (estimate from 12 trials",
		"order=interleaved":                 "per trial\n",
	} {
		got, err := call(t, newPlanCommand, file, "--set", "blocks=2", "--set", "order=random", "--set", set)
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, no %q in\n%.400s", set, err, want, got)
		}
	}
	s := must.Get(testLine(t, nil).Read(t.Context(), file, setting("blocks=2", "order=random")))(t)
	before := s.Plan.Expected
	measured := must.Get(testLine(t, nil).Read(t.Context(), file, setting("blocks=2", "order=random", "phases.measure=1m")))(t)
	s.ReadTrialTimes("runs")
	measured.ReadTrialTimes("runs")
	if a, b := s.Times.All-before, measured.Times.All-measured.Plan.Expected; a != b {
		t.Errorf("the correction is %v, and %v with longer phases", a, b)
	}
	if s.Plan.Expected != before {
		t.Errorf("the plan was changed: %v, then %v", before, s.Plan.Expected)
	}
}

// The plan of recorded results is made from their file alone, without the cluster of the application.
func TestPlanOfRecordedNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), result.ExperimentFile)
	text := "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: shop}\nplatform: {kind: kubernetes}\napplication: {namespace: shop, entry: web}\n" +
		"factors: {mesh: [none, istio]}\nblocks: 3\nseed: 1\n"
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	t.Setenv("TARE_KUBE", "/nonexistent")
	if p, err := planOf()(file); err != nil || len(p.Treatments) == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := testLine(t, nil).Read(t.Context(), file, ExperimentOptions{}); err == nil {
		t.Error("a file that is to be run is read without the objects of its application")
	}
}
